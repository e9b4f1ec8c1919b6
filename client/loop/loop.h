/* A channel's event loop: tasks that other threads post, descriptors, and timers. One thread, the loop thread, runs
 * it and takes tasks in the order of posting. A task is a member of its object, so posting cannot fail. It may be
 * posted again once it runs. No other lock of the library is taken under the loop's lock.
 *
 * While the loop thread sleeps, another thread, the borrower, may borrow the loop. It does the work of the loop
 * thread, and may wait for one source, while the loop thread stays asleep. */
#ifndef LOCKSTOCK_CLIENT_LOOP_LOOP_H
#define LOCKSTOCK_CLIENT_LOOP_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/heap.h"

typedef struct loop_task {
    struct loop_task *next;
    void (*run)(struct loop_task *task); /* on the loop thread; may free the task */
} loop_task;

/* A descriptor that the loop thread watches while it waits. */
typedef struct loop_source {
    TAILQ_ENTRY(loop_source) in_list;
    int fd;              /* -1 = it is not watched any more */
    short events, found; /* of poll(2), whose numbers are those of epoll(7) */
    void (*ready)(struct loop_source *source, short found);
} loop_source;

struct loop {
    pthread_mutex_t lock;
    loop_task *first;
    loop_task **end;
    int wake_fd, epoll_fd;
    bool asleep; /* the loop thread waits, and wake_fd was not written yet */
    bool woken;  /* wake_fd is readable */
    bool closed;
    bool borrower;  /* a thread has borrowed the loop */
    bool waiting;   /* the borrower waits in loop_wait_for_source */
    bool reclaimed; /* the loop thread has reclaimed the loop from a waiting borrower */
    pthread_cond_t borrower_left;

    /* The loop thread's, or the borrower's. */
    uint64_t sleeps_until_ns;
    uint64_t borrowers_until_ns; /* more borrowers are expected until then */
    bool borrowers_came;         /* a borrower came since the loop thread last fell asleep */
    bool unwatched;              /* a source was unwatched since */
    int cancel_state;            /* of the borrower, before it entered */
    /* The source that a borrower waited for, which the loop thread watches only for its end; may be NULL. */
    loop_source *taken;
    TAILQ_HEAD(, loop_source) sources;
    struct heap timers; /* run by heap_run */
};

/* False when the system has no more descriptors to give. */
bool loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

void loop_post(struct loop *loop, loop_task *task);

/* Any thread: borrows the loop, if the loop thread sleeps and has nothing to do; false otherwise. The loop thread does
 * not run before loop_leave, so a borrower must not take long. Thread cancellation is disabled meanwhile. */
bool loop_enter(struct loop *loop);

/* Borrower: waits for one source and runs its `ready`, while the loop thread stays asleep. Returns false if the loop
 * thread is needed, a timer is due, or nothing came for long; then the borrower has returned the loop. */
bool loop_wait_for_source(struct loop *loop, loop_source *source);

/* Borrower: makes the loop thread watch again the source that borrowers waited for: more will come from it. */
void loop_give_back(struct loop *loop);

/* Borrower: returns the loop. wake: there is work for the loop thread other than timers and sources. */
void loop_leave(struct loop *loop, bool wake);

/* For a loop thread that waits elsewhere, for epoll_fd and until sleeps_until_ns: other threads may borrow the loop
 * from now on, and epoll_fd is readable when there is work. */
void loop_allow_borrowing(struct loop *loop);

/* Ends loop_allow_borrowing: waits until a borrower has returned the loop. Call it before loop_wait. */
void loop_resume(struct loop *loop);

/* Drops all tasks, also those that are posted later, so that they may be freed. Must not be called while the loop
 * thread runs. */
void loop_close(struct loop *loop);

/* Waits for a task or a source, until `until_ns` (CLOCK_NEVER; 0: does not wait). Returns the list of all tasks; NULL
 * when there is none. */
loop_task *loop_wait(struct loop *loop, uint64_t until_ns);

/* Loop thread: watches a source from now on; false when the system has no memory for it. */
bool loop_watch(struct loop *loop, loop_source *source);

/* Loop thread: changes the events that a source is watched for. */
void loop_set_events(struct loop *loop, loop_source *source, short events);

/* Loop thread: stops watching a source. Call it before the descriptor is closed. */
void loop_unwatch(struct loop *loop, loop_source *source);

/* Loop thread: runs `ready` of each source that loop_wait has found ready. */
void loop_run_ready(struct loop *loop);

#endif

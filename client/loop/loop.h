/* A channel's event loop: tasks that other threads post, the descriptors that it looks at,
 * and timers. Any thread posts; one thread, the loop's, takes the tasks in the order of
 * posting. Tasks are embedded in what they are about, so posting cannot fail; a task is
 * posted at most once at a time. The loop's lock is the innermost of the library: nothing
 * is called under it. */
#ifndef LOCKSTOCK_CLIENT_LOOP_LOOP_H
#define LOCKSTOCK_CLIENT_LOOP_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/heap.h"

typedef struct loop_task {
    struct loop_task *next;
    void (*run)(struct loop_task *task); /* on the loop thread; may free the task */
} loop_task;

/* A task that says only "look again": raised any number of times, run once for all
 * that came before. */
typedef struct loop_signal {
    loop_task task;
    atomic_bool raised;
} loop_signal;

/* A descriptor that the loop thread looks at while it waits. */
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
    bool asleep; /* the loop thread waits for wake_fd, which nobody has written to yet */
    bool woken;  /* wake_fd is readable */
    bool closed;
    bool guest;   /* a thread is between loop_enter and loop_leave */
    bool staying; /* one waits in loop_stay, */
    bool ousted;  /* and has lost its place */
    pthread_cond_t guest_left;

    /* The loop thread's; while it sleeps, a guest's. */
    uint64_t sleeps_until_ns;
    uint64_t visits_ns; /* until then guests may come again soon */
    bool visited;       /* a guest came since it last fell asleep */
    bool fewer;         /* a source was taken away since */
    int cancel_state;   /* a guest's, before it entered */
    loop_source *taken; /* by a guest that stayed: the sleeping thread looks for its end only; may be NULL */
    TAILQ_HEAD(, loop_source) sources;
    struct heap timers; /* run by heap_run */
};

/* False when the system has no more descriptors to give. */
bool loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

void loop_post(struct loop *loop, loop_task *task);

void loop_raise(struct loop *loop, loop_signal *signal);

/* To be called first when a signal's task runs. */
void loop_lower(loop_signal *signal);

/* Any thread: does the loop thread's work in its place, if that sleeps and has nothing to do; false otherwise. It does
 * not wake before loop_leave. What a guest does must not take long; it is not cancelled meanwhile. */
bool loop_enter(struct loop *loop);

/* A guest: waits for one source in the loop thread's place and runs its `ready`, while the loop thread sleeps on. False
 * if it did not, because that is wanted, a timer is due, or it waited for long: then it has left. */
bool loop_stay(struct loop *loop, loop_source *source);

/* A guest that leaves, when something is still to come from the source that one has stayed for: the sleeping thread
 * looks for it again. */
void loop_give_back(struct loop *loop);

/* wake: the guest leaves work behind, beside timers and sources, which are seen to here. */
void loop_leave(struct loop *loop, bool wake);

/* Forgets its tasks, and from now on what is posted: they may be freed. Not while the loop thread runs. */
void loop_close(struct loop *loop);

/* Waits until there is a task, a source is ready, or `until_ns` (CLOCK_NEVER, 0 = does
 * not wait) has come. Returns the chain of all tasks, NULL when there is none. */
loop_task *loop_wait(struct loop *loop, uint64_t until_ns);

/* Loop thread: looks at a source from now on; false when the system has no memory for it. */
bool loop_watch(struct loop *loop, loop_source *source);

/* Loop thread: from now on for these events. */
void loop_look_for(struct loop *loop, loop_source *source, short events);

/* Loop thread: not any more; to be called before its descriptor is closed. */
void loop_unwatch(struct loop *loop, loop_source *source);

/* Loop thread: runs `ready` of each source that loop_wait has found to be. */
void loop_run_ready(struct loop *loop);

#endif

/* Inside of calls.c and its neighbours: work.c (what threads do with a call) and deferred.c (handlers that continue
 * after they returned). Invariant: `lock` guards the queues, the list of finished calls, the pool of arenas and the
 * fields that are marked so. All other fields of a call belong to the thread that has it: the one that runs it, the
 * channel's completion thread while guards enter and leave, then the loop. A call is handed to the loop under the
 * lock, and nobody else touches it after that. */
#ifndef HOST_RUNNING_H
#define HOST_RUNNING_H

#include <pthread.h>
#include <sys/queue.h>
#include <stdatomic.h>

#include <lockstock/host.h>
#include <uv.h>

#include "calls.h"

typedef TAILQ_HEAD(, running) running_list;
typedef TAILQ_HEAD(, caller) caller_list;

struct caller {
    calls *all;
    budget_share *bytes;
    void (*on_room)(void *arg);
    void *arg;
    running_list calls;   /* in any state */
    running_list queued;  /* that are QUEUED; under lock */
    running_list granted; /* that are GRANTED: they go first, also when it is held; under lock */
    bool held, in_round;  /* under lock */
    TAILQ_ENTRY(caller) round;
    size_t n_calls;
    unsigned pins; /* functions that still use it */
    bool lost;
    TAILQ_ENTRY(caller) next;
};

/* calls.h draws it. Under lock, moved by `move` alone. */
typedef enum state {
    QUEUED,    /* waits for a thread */
    ENTERING,  /* a thread asks the guards */
    ANSWERED,  /* the same, and they have answered already */
    GUARDING,  /* no thread has it: the guards will answer */
    GRANTED,   /* the guards have answered: it waits for a thread before those that are QUEUED */
    RUNNING,   /* its handler runs */
    DEFERRING, /* the same, and the handler has deferred the call */
    DEFERRED,  /* the handler has returned and will finish the call */
    FINISHED,  /* lks_host_finish was called */
    LEAVING,   /* the guards are being left */
    OVER       /* the loop ends it */
} state;

/* Of a deferred call: whether its on_cancel is to run (WATCHED until then, DUE, REPORTING while it runs). */
typedef enum watch { UNWATCHED, WATCHED, DUE, REPORTING } watch;

/* One call; its metadata and its payload stand behind it. */
struct running {
    calls *all;
    caller *caller;
    const lks_rpc_route *route;
    struct running **handle;
    sink_done *done;
    void *arg;
    size_t held; /* bytes of the caller's share */
    lks_rpc_context context;
    const char *payload;
    size_t payload_len;
    lks_rpc_arena *arena;      /* while a thread has it, and from then on unless it is large while guards are asked */
    ProtobufCMessage *request; /* in the arena; NULL = not unpacked */
    ProtobufCMessage *response;
    lks_error error;
    bool unanswered_before; /* sink_call's */

    /* Under lock. */
    state state;
    _Atomic lks_code stopped; /* CANCELLED: nobody waits for the answer; UNAVAILABLE: it may not begin any more; LKS_OK.
                                 Read without the lock, too */
    watch watch;
    lks_host_cancelled *on_cancel;
    void *cancel_arg;

    TAILQ_ENTRY(running) in_caller, in_queue, in_watched;
};

struct calls {
    calls_options options;
    size_t n_calls;
    caller_list callers;
    uv_async_t wake;
    uv_timer_t deadline; /* the next one of those that are watched */
    pthread_mutex_t lock;
    pthread_cond_t work;     /* the round is not empty, or closing */
    pthread_cond_t reported; /* an on_cancel has returned */
    caller_list round;       /* who has calls to run */
    running_list finished;
    running_list watched;   /* deferred calls that are WATCHED */
    running_list due;       /* those that are DUE */
    lks_rpc_arena **arenas; /* when none is in use */
    uint32_t n_arenas, arenas_max;
    bool closing;
    pthread_t *threads;
    uint32_t n_threads;
};

/* ---- calls.c ---- */

/* Under lock: moves a call to a state, and into and out of the queue that the state has. */
void move(struct running *r, state to);

/* Not under lock: the call is over; the loop ends it. */
void finish(struct running *r);

void give_arena(calls *all, lks_rpc_arena *arena);

/* Sets the error of a call that does not run because it was stopped. */
void refuse_stopped(struct running *r);

/* ---- work.c ---- */

/* The thread function; its argument is `calls`. */
void *work(void *arg);

/* Its handler has ended, with what is in r->error and r->response, or does not run although its guards admitted it: the
 * guards are left, if it has any, and it is over. Any thread. */
void leave(struct running *r);

/* ---- deferred.c ---- */

/* The handler has returned. True: it has not deferred its call, or has finished it already. */
bool deferred_returned(struct running *r, lks_code code);

/* Loop thread: runs each on_cancel whose call was cancelled or is past its deadline. */
void deferred_look(calls *all);

#endif

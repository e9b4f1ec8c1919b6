/* Inside of calls.c and its neighbours: pool.c (the threads), work.c (what they do with a call) and deferred.c (handlers
 * that continue after they returned). Invariant: `lock` guards the queues, the list of finished calls, the pools of
 * threads and arenas and the fields that are marked so. All other fields of a call belong to the thread that has it: the
 * one that runs it, the one that finishes a deferred step, then the loop. A call is handed to the
 * loop under the lock, and nobody else touches it after that. A call that has not ended when the loop ends (its handler
 * blocks, or never finishes what it deferred) is nobody's but its handler's: it frees itself, and keeps `calls`. */
#ifndef HOST_RUNNING_H
#define HOST_RUNNING_H

#include <pthread.h>
#include <sys/queue.h>
#include <stdatomic.h>

#include <lockstock/host.h>
#include <uv.h>

#include "calls.h"
#include "host/peer.h"
#include "net/loop_timers.h"

typedef TAILQ_HEAD(, running) running_list;
typedef TAILQ_HEAD(, caller) caller_list;

struct caller {
    calls *all;
    peer *peer;
    budget_share *bytes;
    void (*on_room)(void *arg);
    void *arg;
    running_list calls;  /* in any state */
    running_list queued; /* that are QUEUED; under lock */
    running_list ready;  /* that are READY: they go first, also when it is held; under lock */
    bool held, in_round; /* under lock */
    TAILQ_ENTRY(caller) round;
    size_t n_calls;
    unsigned pins; /* functions that still use it */
    bool lost;
    TAILQ_ENTRY(caller) next;
};

/* calls.h draws it. Under lock, moved by `move` alone. */
typedef enum state {
    QUEUED,    /* waits for a thread */
    RUNNING,   /* a thread runs a step of it */
    DEFERRING, /* the same, and the step is deferred */
    DEFERRED,  /* the step's function has returned: lks_host_finish will end it */
    FINISHED,  /* lks_host_finish was called */
    READY,     /* it waits for a thread that runs its next step, before those that are QUEUED */
    OVER       /* the loop ends it */
} state;

/* Which steps a call is at: `before` of each interceptor, the handler, `after` of each that admitted it, the last first. */
typedef enum phase { BEFORE, HANDLER, AFTER } phase;

/* Of a deferred step: whether its on_cancel is to run (WATCHED until it is stopped, DUE, REPORTING while it runs). */
typedef enum watch { UNWATCHED, WATCHED, DUE, REPORTING } watch;

/* One call; its metadata and its payload stand behind it. */
struct running {
    calls *all;
    caller *caller;
    const lks_rpc_route *route;
    struct running **handle;
    sink_done *done;
    void *arg;
    size_t held;           /* bytes of the caller's share */
    struct timer deadline; /* the loop's */
    uint64_t received_ns;
    bool is_capped; /* the deadline is the host's, not the caller's */
    bool answered;  /* the loop's: `done` has run, and the handler is not over */
    lks_rpc_context context;
    const char *payload;
    size_t payload_len;
    lks_rpc_arena *arena;      /* while a thread has it, and from then on unless it is large while guards are asked */
    ProtobufCMessage *request; /* in the arena; NULL = not unpacked */
    ProtobufCMessage *response;
    lks_error error;
    bool unanswered_before; /* sink_call's */
    const char *wrong;      /* with the handler's answer, for the log; NULL: nothing */
    peer *peer;
    char principal[LKS_HOST_PRINCIPAL_BYTES];

    /* The thread's that has it. */
    phase phase;
    size_t entered;          /* interceptors that admitted it */
    void **own;              /* of each interceptor */
    lks_host_call *guarding; /* the step of the guards */
    bool authenticated, skips;
    atomic_bool begun; /* its handler */

    /* Under lock. */
    state state;
    _Atomic lks_code stopped; /* CANCELLED: nobody waits for the answer; DEADLINE_EXCEEDED; UNAVAILABLE: the host
                                 closes; LKS_OK. Read without the lock, too. A handler does not begin once it is set */
    watch watch;
    lks_host_cancelled *on_cancel;
    void *cancel_arg;

    TAILQ_ENTRY(running) in_caller, in_queue, in_due;
};

/* A thread of the pool. */
typedef struct worker {
    calls *all;
    pthread_t id;
    bool busy;     /* under lock: it has a call */
    bool detached; /* under lock: nobody joins it */
    TAILQ_ENTRY(worker) next;
} worker;
typedef TAILQ_HEAD(, worker) worker_list;

/* Under lock, except for the timer. */
typedef struct pool {
    pthread_cond_t work;  /* the round is not empty, or closing */
    caller_list round;    /* who has calls to run */
    size_t n_queued;      /* calls that are QUEUED or READY */
    worker_list workers;  /* that run */
    worker_list ended;    /* to be joined */
    uint32_t n, n_idle;   /* workers that run; that wait for work */
    uint64_t taken, seen; /* calls that workers took; as many at the last look */
    struct timer look;    /* the loop's: whether all workers block */
    bool closing;
} pool;

struct calls {
    calls_options options;
    size_t n_calls;
    caller_list callers;
    uv_async_t wake;
    struct loop_timers timers; /* the deadlines of calls, and pool.look */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an on_cancel has returned; a thread has ended */
    pool pool;
    running_list finished;
    running_list due;       /* those that are DUE */
    lks_rpc_arena **arenas; /* when none is in use */
    uint32_t n_arenas, arenas_max;
    bool stopping; /* the loop's: calls_stop was called */
    bool ended;    /* the loop has */
    rpc_meter *meter;
    uint32_t references; /* the host's, one for each worker, one for each call that outlives the loop */
};

/* ---- calls.c ---- */

/* Under lock: moves a call to a state, and into and out of the queue that the state has. */
void move(struct running *r, state to);

/* Not under lock: the call is over; the loop ends it. */
void finish(struct running *r);

void give_arena(calls *all, lks_rpc_arena *arena);

/* Sets the error of a call that does not run because it was stopped. */
void refuse_stopped(struct running *r);

/* Under lock, which it gives up. Frees the calls with the last reference. */
void unref(calls *all);

/* ---- pool.c ---- */

/* False: no memory or no threads. */
bool pool_open(calls *all);

/* Loop thread: starts to look after the threads, if calls wait and no thread is free. */
void pool_watch(calls *all);

/* Ends the threads that wait. Those that have a call end after it. */
void pool_close(calls *all);

/* ---- work.c ---- */

/* What a thread does with a call that it has taken. */
void work_run(struct running *r);

/* Under lock, of a call that no thread has: whether its next step may block. Guards do not. */
bool work_may_block(const struct running *r);

/* Its deferred step has ended, with what is in r->error and r->response. Any thread. */
void work_go_on(struct running *r);

/* ---- deferred.c ---- */

/* The function of a step has returned. True: the step is not deferred, or is finished already. */
bool deferred_returned(struct running *r, lks_code code);

/* Under lock: the call was stopped. */
void deferred_stopped(struct running *r);

/* Loop thread: runs each on_cancel that is due. */
void deferred_look(calls *all);

#endif

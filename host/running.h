/* Private to calls.c, pool.c (the threads), work.c (what they do with a call) and deferred.c (handlers that continue
 * after they returned). Invariant: `lock` guards the queues, the list of finished calls, the pools of threads and
 * arenas and the fields that are marked so. All other fields of a call belong to the thread that has it: the thread
 * that runs it, the thread that finishes a deferred step, then the loop. A call is handed to the loop under the lock,
 * and no other thread uses it after that. A call that has not ended when the loop ends (its handler blocks, or never
 * finishes a deferred step) belongs to its handler: it frees itself, and keeps `calls`. */
#ifndef HOST_RUNNING_H
#define HOST_RUNNING_H

#include <pthread.h>
#include <sys/queue.h>
#include <stdatomic.h>

#include <lockstock/host.h>
#include <lockstock/rpc/exchange.h>
#include <uv.h>

#include "host/peer.h"
#include "host/services.h"
#include "net/loop_timers.h"
#include "net/sink.h"

typedef struct calls calls;
typedef TAILQ_HEAD(, running) running_list;
typedef TAILQ_HEAD(, caller) caller_list;

struct caller {
    calls *all;
    peer *peer;
    budget_share *bytes;
    void (*on_room)(void *arg);
    void *arg;
    running_list calls;  /* in any state */
    running_list queued; /* calls that are QUEUED; under lock */
    running_list ready;  /* calls that are READY: they go first, also when the caller is held; under lock */
    bool held, in_round; /* under lock */
    TAILQ_ENTRY(caller) round;
    size_t n_calls;
    unsigned pins; /* how many functions still use it */
    bool lost;
    TAILQ_ENTRY(caller) next;
};

/* calls.h describes the states. Under lock; changed only by `move`. */
typedef enum state {
    QUEUED,    /* waits for a thread */
    RUNNING,   /* a thread runs a step of the call */
    DEFERRING, /* a thread runs a step, which is deferred */
    DEFERRED,  /* the step's function has returned: lks_host_finish will end it */
    FINISHED,  /* lks_host_finish was called */
    READY,     /* it waits for a thread that runs its next step, before those that are QUEUED */
    OVER       /* the loop ends it */
} state;

/* The steps of a call: `before` of each interceptor, the handler, `after` of each that admitted it in reverse order. */
typedef enum phase { BEFORE, HANDLER, AFTER } phase;

/* The on_cancel of a deferred step: WATCHED until the call is stopped, then DUE, REPORTING while it runs. */
typedef enum watch { UNWATCHED, WATCHED, DUE, REPORTING } watch;

/* One call; its metadata and its payload are stored behind it. */
struct running {
    calls *all;
    caller *caller;
    const lks_rpc_route *route;
    struct running **handle;
    sink_done *done;
    void *arg;
    size_t held;           /* bytes that it holds of the caller's share */
    struct timer deadline; /* the loop's */
    uint64_t received_ns;
    bool is_capped; /* the deadline comes from the host's limit, not from the caller */
    bool answered;  /* the loop's: `done` has run, and the handler has not ended */
    lks_rpc_context context;
    const char *payload;
    size_t payload_len;
    lks_rpc_arena *arena;      /* from the first thread on, except while guards are asked if it is large */
    ProtobufCMessage *request; /* in the arena; NULL = not unpacked */
    ProtobufCMessage *response;
    lks_error error;
    bool unanswered_before; /* as in sink_call */
    const char *wrong;      /* what is wrong with the handler's answer, for the log; NULL: nothing */
    peer *peer;
    char principal[LKS_HOST_PRINCIPAL_BYTES];

    /* Of the thread that has the call. */
    phase phase;
    size_t entered;          /* interceptors that admitted it */
    void **own;              /* of each interceptor */
    lks_host_call *guarding; /* the step of the guards */
    bool authenticated, skips;
    atomic_bool begun; /* its handler has begun */

    /* Under lock. */
    state state;
    /* LKS_OK: not stopped; CANCELLED: no caller waits for the answer; DEADLINE_EXCEEDED; UNAVAILABLE: the host
     * closes. Also read without the lock. A handler does not begin once it is set. */
    _Atomic lks_code stopped;
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
    bool detached; /* under lock: it is not joined */
    TAILQ_ENTRY(worker) next;
} worker;
typedef TAILQ_HEAD(, worker) worker_list;

/* Under lock, except for the timer. */
typedef struct pool {
    pthread_cond_t work;  /* the round is not empty, or `closing` is set */
    caller_list round;    /* callers that have calls to run */
    size_t n_queued;      /* calls that are QUEUED or READY */
    worker_list workers;  /* workers that run */
    worker_list ended;    /* workers that must be joined */
    uint32_t n, n_idle;   /* numbers of workers: all; those that wait for work */
    uint64_t taken, seen; /* calls that workers took; their number when it was last checked */
    struct timer look;    /* the loop's: whether all workers block */
    bool closing;
} pool;

struct calls {
    lks_host_options options;
    services *services;
    lks_rpc_scan_limits limits; /* of a request */
    size_t n_calls;
    caller_list callers;
    uv_async_t wake;
    struct loop_timers timers; /* the deadlines of calls, and pool.look */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an on_cancel has returned; a thread has ended */
    pool pool;
    running_list finished;
    running_list due;       /* calls that are DUE */
    lks_rpc_arena **arenas; /* arenas that are not in use */
    uint32_t n_arenas, arenas_max;
    bool stopping; /* the loop's: calls_stop was called */
    bool ended;    /* the loop has ended */
    rpc_meter *meter;
    uint32_t references; /* the host's, one for each worker, one for each call that outlives the loop */
};

/* ---- calls.c ---- */

/* Under lock: moves a call to a state, and into and out of the queue that the state has. */
void move(struct running *r, state to);

/* Not under lock: the call is over, and the loop will end it. */
void finish(struct running *r);

void give_arena(calls *all, lks_rpc_arena *arena);

/* Sets the error of a call that does not run because it was stopped. */
void refuse_stopped(struct running *r);

/* Under lock, which it releases. Drops a reference; the last one frees the calls. */
void unref(calls *all);

/* ---- pool.c ---- */

/* False: no memory or no threads. */
bool pool_open(calls *all);

/* Loop thread: starts to check for blocked threads, if calls wait and no thread is free. */
void pool_watch(calls *all);

/* Ends the threads that wait. Threads with a call end after it. */
void pool_close(calls *all);

/* ---- work.c ---- */

/* Runs the steps of a call that a thread has taken. */
void work_run(struct running *r);

/* Under lock, for a call that no thread has: whether its next step may block. Guards do not block. */
bool work_may_block(const struct running *r);

/* Continues a call whose deferred step has ended with r->error and r->response. Any thread. */
void work_continue(struct running *r);

/* ---- deferred.c ---- */

/* The function of a step has returned. True: the step is not deferred, or is finished already. */
bool deferred_returned(struct running *r, lks_code code);

/* Under lock: the call was stopped. */
void deferred_stopped(struct running *r);

/* Loop thread: runs each on_cancel that is due. */
void deferred_report(calls *all);

#endif

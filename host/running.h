/* Inside of calls.c and its neighbours: work.c (what threads do with a call) and deferred.c (handlers that go on after
 * they returned). Invariant: `lock` guards the queues, the list of finished calls, the pool of arenas and what is
 * marked so; all else of a call belongs to who has it: the thread that runs it, the channel's completion thread
 * while guards enter and leave, then the loop. Its end is told under the lock: so nothing of it is touched, the
 * loop's wake-up included, once the loop has seen it. */
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
    running_list queued;  /* have not begun; under lock */
    running_list granted; /* their guards have answered: they go first, also when it is held; under lock */
    bool held, in_round;  /* under lock */
    TAILQ_ENTRY(caller) round;
    size_t n_calls;
    unsigned pins; /* functions that still look at it */
    bool lost;
    TAILQ_ENTRY(caller) next;
};

/* calls.h draws it. ENTERING: a thread asks the guards; WITHDRAWN: who took it out of its state ends it. */
typedef enum state { QUEUED, ENTERING, GUARDING, RUNNING, LEAVING, WITHDRAWN } state;

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
    lks_rpc_arena *arena; /* from its start on */
    ProtobufCMessage *response;
    lks_error error;
    atomic_bool cancelled;  /* nobody waits for its answer */
    bool unanswered_before; /* sink_call's */

    /* Under lock. */
    state state;
    lks_code stopped; /* by whom nobody wants it run any more, if it has not begun to; LKS_OK = by nobody */
    const char *why_stopped;
    bool answered;                  /* its guards have */
    bool deferred, returned, ended; /* deferred.c: its handler said so, has returned, has called lks_host_finish */
    lks_host_cancelled *on_cancel;
    void *cancel_arg;
    bool watched, due, telling;

    TAILQ_ENTRY(running) in_caller, in_queue, in_watched;
};

struct calls {
    calls_options options;
    size_t n_calls;
    caller_list callers;
    uv_async_t wake;
    uv_timer_t deadline; /* the next one of those that are watched */
    pthread_mutex_t lock;
    pthread_cond_t work; /* the round is not empty, or closing */
    pthread_cond_t told; /* an on_cancel has returned */
    caller_list round;   /* who has calls to run */
    running_list finished;
    running_list watched;   /* deferred calls that are to be told of their cancellation */
    running_list due;       /* those of them whose moment has come */
    lks_rpc_arena **arenas; /* when none is in use */
    uint32_t n_arenas, arenas_max;
    bool closing;
    pthread_t *threads;
    uint32_t n_threads;
};

/* ---- calls.c ---- */

/* Under lock: puts the caller into the round, or takes it out. */
void put_into_round(caller *c);

/* Not under lock: the call is over; the loop ends it. */
void finish(struct running *r);

void give_arena(calls *all, lks_rpc_arena *arena);

/* ---- work.c ---- */

/* The thread function; its argument is `calls`. */
void *work(void *arg);

/* Its handler has ended, with what stands in r->error and r->response, or is not run after all though its guards
 * admitted it: they are left. Any thread. */
void leave(struct running *r);

/* ---- deferred.c ---- */

/* The handler has returned. True: it has not deferred its call, or ended it already. */
bool deferred_returned(struct running *r, lks_code code);

/* Loop thread: nobody waits for the answer any more. */
void deferred_cancel(struct running *r);

/* Loop thread: tells those who are to know of cancellations and of deadlines that are over. */
void deferred_look(calls *all);

/* Why a call was stopped with that code. */
static inline lks_reason stop_reason(lks_code code)
{
    return code == LKS_UNAVAILABLE ? LKS_REASON_SHUTTING_DOWN : LKS_REASON_NONE;
}

#endif

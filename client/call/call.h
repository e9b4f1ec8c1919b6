/* The struct of a call; private to call.c, start.c and wait.c. call.c describes its states and invariants. */
#ifndef LOCKSTOCK_CLIENT_CALL_CALL_H
#define LOCKSTOCK_CLIENT_CALL_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/call.h>
#include <lockstock/rpc/service.h>

#include "client/call/channel.h"
#include "client/call/intercept.h"
#include "client/loop/loop.h"

typedef enum call_state {
    CALL_STARTED,
    CALL_TOKENLESS,
    CALL_QUEUED,
    CALL_SENDING,
    CALL_AWAITING,
    CALL_PAUSED,
    CALL_SETTLED,
    CALL_COMPLETE
} call_state;

typedef struct call_metadata {
    lks_metadata *items; /* one allocation, including the texts */
    size_t n;
} call_metadata;

struct lks_call {
    frame_call base;

    /* Constant after the start. */
    lks_call_done *done;
    lks_call_function *function;
    void *arg;
    lks_channel *channel; /* may be gone once SETTLED */
    loop_task start;
    unsigned forks; /* of the process that started it (forks.h) */
    bool driven;    /* no thread may wait for it: the channel has no thread */

    /* Shared. */
    atomic_uint references;
    _Atomic call_state state; /* the loop thread's; becomes SETTLED and COMPLETE under the lock */
    pthread_mutex_t lock;
    pthread_cond_t finished;
    loop_task cancel;
    bool cancelled, cancel_posted; /* under the lock */
    lks_rpc_follower follower;     /* of the context */
    intercepted intercepted;

    /* The loop thread's. */
    struct timer timer;  /* fires no later than due_ns */
    uint64_t due_ns;     /* when the state ends by itself */
    bool alone;          /* it must not share a message any more */
    uint64_t sent_ns;    /* the last message */
    uint64_t refusal_ns; /* how long a server took for the last transient refusal */
    char *cause;         /* the text of that refusal; NULL = none, or out of memory */

    /* The loop thread's until SETTLED, then constant. */
    lks_error error; /* of the last try, then of the call */
    ProtobufCMessage *response;
    call_metadata headers, trailers, details; /* of the last answer */
    char *text;                               /* the error's text, when it is too long for lks_error */
};

static inline call_state call_state_of(const lks_call *call)
{
    return atomic_load_explicit(&call->state, memory_order_acquire);
}

/* An admitted call that is not started yet. Takes ownership of the request. NULL: out of memory. */
lks_call *call_new(lks_channel *channel, struct request *request, unsigned references);

/* context NULL: nothing to follow. False: the context's call was already stopped. */
bool call_follow(lks_call *call, lks_rpc_context *context);

/* Completes a call that is SETTLED and is not in the channel's list of settled calls any more: wakes the threads that
 * wait for it. */
void call_complete(frame_call *base);

/* Drops a reference; the last one frees the call. */
void call_unref(lks_call *call);

#endif

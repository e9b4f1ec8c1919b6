/* A call, and what the loop thread does with it; see tries.c for its states. */
#ifndef LOCKSTOCK_CLIENT_CALL_CALL_H
#define LOCKSTOCK_CLIENT_CALL_CALL_H

#include <lockstock/call.h>
#include <sys/types.h>

#include "client/call/channel.h"
#include "client/call/frame.h"
#include "client/call/request.h"

typedef enum call_state {
    CALL_STARTED,
    CALL_QUEUED,
    CALL_SENDING,
    CALL_WITHDRAWING,
    CALL_AWAITING,
    CALL_PAUSED,
    CALL_SETTLED
} call_state;

struct lks_call {
    /* Constant after the start. */
    lks_call_done *done;
    lks_call_function *function;
    void *arg;
    struct request *request;
    loop_task start;
    unsigned forks; /* whose it is (forks.h): a child of fork has no loop thread that would end it */

    /* Shared. */
    atomic_uint references; /* the loop thread's, the user's, one a waiter and one a cancel under way */
    pthread_mutex_t lock;
    pthread_cond_t finished;
    lks_channel *channel; /* NULL once settled; written under the lock */
    loop_task cancel;
    bool cancelling, complete; /* under the lock */

    /* The loop thread's. */
    TAILQ_ENTRY(lks_call) in_calls, in_line; /* in_line: in a queue, or among the settled */
    uint64_t enqueued;
    struct timer timer; /* not later than */
    uint64_t due_ns;
    call_state state;
    struct endpoint *endpoint;
    struct frame *frame; /* while SENDING, WITHDRAWING or AWAITING */
    uint32_t place;      /* in it */
    bool alone;          /* it may not share a message any more */
    uint32_t tries;      /* that may have reached a server */
    uint64_t sent_ns;    /* the last of them */
    uint64_t refusal_ns; /* how long a server took to refuse the last one that may pass */
    char *cause;         /* and why it did; NULL = none was, or out of memory */
    lks_applied applied; /* by any try so far */
    bool ending;         /* WITHDRAWING: to be settled with `error`, not to be sent again */

    /* The loop thread's until settled, then constant. */
    lks_error error; /* of the last try, then of the call */
    ProtobufCMessage *response;
    atomic_bool settled;
};

/* Takes it over from the thread that started it. */
void call_begin(lks_call *call);

/* What its frame tells it: that it has a place there; that there is no memory for one; what became
 * of the message. After the last four it has no frame any more. */
void call_sending(lks_call *call, struct frame *frame, uint32_t place, struct endpoint *endpoint, uint64_t now_ns);
void call_cannot_send(lks_call *call);
void call_sent(lks_call *call, uint64_t now_ns);
void call_unsent(lks_call *call);
void call_lost(lks_call *call);
void call_answered(lks_call *call, const Lockstock__Rpc__V1__Result *result, bool shared);
void call_misread(lks_call *call, const char *why);

/* Ends it with LKS_CANCELLED unless it is settled. */
void call_cancel(lks_call *call, const char *why);

/* Runs the completion of a settled call, which may be gone afterwards. */
void call_complete(lks_call *call);

#endif

/* What the files of GuardService share. */
#ifndef LOCKSTOCK_SERVER_GUARD_H
#define LOCKSTOCK_SERVER_GUARD_H

#include "lockstock/v1/guard.lks.h"
#include "functions/arguments.h"
#include "services/ratelimit.h"
#include "services/service.h"

/* Where the parts of a request lie; a base is empty when the request lacks the part. */
typedef struct guard_places {
    lks_rpc_slice base; /* of the function's call: that of the locks, if there are any, because alarms use it */
    lks_rpc_slice rest; /* of the call for all but the locks; empty: there is nothing but locks */
    lks_rpc_slice record, rates, stock;
    bool in_two_stores; /* the locks are in the lock store, and the rest is not */
} guard_places;

/* Checks groups and names of the parts. limits may be NULL, like every part. */
guard_places guard_find_places(plan *p, const char *group, const lks_guard_once *once, const lks_guard_limits *limits,
                               const lks_guard_stock *stock, const lks_guard_locks *locks);

/* What follows in the plan's error is within a part: "rules[0].key" becomes "limits.rules[0].key". */
void guard_within(plan *p, const char *part);

/* ---- guard_enter.c ---- */

/* What an Enter does in a round. */
typedef enum enter_step {
    ENTER_WHOLE, /* takes everything */
    /* In two stores: */
    ENTER_LOOK,        /* asks what stands in the way of the rest */
    ENTER_LOCKS,       /* takes the locks */
    ENTER_REST,        /* takes the rest */
    ENTER_CHECK,       /* the rest was taken before: asks whether the locks are still held */
    ENTER_RELEASE,     /* gives the locks, or its place in their queue, back, because it is refused */
    ENTER_LEAVE_QUEUE, /* leaves the queue of the locks, because it will wait for another attempt */
} enter_step;

/* What a round keeps for the next ones, until the call waits. */
typedef struct guard_kept {
    check_kept limits; /* the first member: p->kept of the functions of ratelimit.h */
    enter_step step;
    bool has_policies;               /* those of the limits are in `limits`, as far as there are such */
    bool may_be_queued;              /* the call has waited, perhaps in the queue of its locks */
    const store_value *rest, *locks; /* what ENTER_REST and ENTER_LOCKS have taken */
    lks_rpc_slice stock;             /* its base */
    lks_enter_response *refusal;     /* what to answer after ENTER_RELEASE */
    lks_error *error;                /* the same; NULL: `refusal` */
} guard_kept;

/* How Enter calls its function. */
typedef struct enter_call {
    const char *way, *token;
    guard_places at;             /* of the parts that it takes; base: also of the key that wakes it */
    bool locks_wait, with_locks; /* of the whole request */
} enter_call;

void enter_prepare(const lks_enter_request *request, plan *p);
void enter_finish(const lks_enter_request *request, answer *a, lks_enter_response *response);

/* A service_next. */
void enter_next(const ProtobufCMessage *request, plan *p);

/* The function's call for these parts, or the call that reads unknown policies. */
void enter_plan_call(const lks_enter_request *parts, plan *p, const enter_call *call);

const char *enter_token(const lks_enter_request *request, plan *p);
bool enter_locks_wait(const lks_enter_request *request);

/* How the function takes a call after an event. */
const char *enter_way(service_event_kind event);

/* {'QUEUED'} and {'WAIT'}; all other replies but {'MORE'}. request: the parts of the call. */
void enter_stay(const lks_enter_request *request, answer *a, const store_value *reply);
void enter_read_reply(const lks_enter_request *request, answer *a, const store_value *reply,
                      lks_enter_response *response);

/* Of {'ENTERED'}. */
bool enter_was_replayed(answer *a, const store_value *reply);

/* ---- guard_two_stores.c ---- */

/* Plans the step in p->kept; that is ENTER_LOOK if it is ENTER_WHOLE. */
void two_stores_plan(const lks_enter_request *request, plan *p, const guard_places *at);
void two_stores_finish(const lks_enter_request *request, answer *a, lks_enter_response *response);

#endif

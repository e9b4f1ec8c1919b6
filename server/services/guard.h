/* Shared by the files of GuardService. */
#ifndef LOCKSTOCK_SERVER_GUARD_H
#define LOCKSTOCK_SERVER_GUARD_H

#include "lockstock/v1/guard.lks.h"
#include "functions/arguments.h"
#include "services/ratelimit.h"
#include "services/service.h"

/* The bases of the parts of a request; a base is empty when the request lacks the part. */
typedef struct guard_places {
    lks_rpc_slice base; /* for the function's call: the base of the locks, if there are any, because alarms use it */
    lks_rpc_slice rest; /* for the call for everything except the locks; empty: the request has only locks */
    lks_rpc_slice record, rates, stock;
    bool in_two_stores; /* the locks are in the lock store, and the other parts are not */
} guard_places;

/* Checks groups and names of the parts, and returns their bases. limits may be NULL, like every part. */
guard_places guard_find_places(plan *p, const char *group, const lks_guard_once *once, const lks_guard_limits *limits,
                               const lks_guard_stock *stock, const lks_guard_locks *locks);

/* Puts the path of a part before the path in the plan's error: "rules[0].key" becomes "limits.rules[0].key". */
void guard_within(plan *p, const char *part);

/* ---- guard_enter.c ---- */

/* The step of an Enter in a round. */
typedef enum enter_step {
    ENTER_WHOLE, /* takes everything */
    /* In two stores: */
    ENTER_LOOK,        /* asks whether the rest could be taken */
    ENTER_LOCKS,       /* takes the locks */
    ENTER_REST,        /* takes the rest */
    ENTER_CHECK,       /* the rest was taken earlier: asks whether the locks are still held */
    ENTER_RELEASE,     /* releases the locks, or its place in their queue, because the call is refused */
    ENTER_LEAVE_QUEUE, /* leaves the queue of the locks, because the call will wait for another attempt */
} enter_step;

/* State that a round keeps for later rounds, until the call waits. */
typedef struct guard_kept {
    check_kept limits; /* must be the first member: the functions of ratelimit.h read p->kept as check_kept */
    enter_step step;
    bool has_policies;               /* `limits` has the policies of the limits that exist */
    bool may_be_queued;              /* the call has waited, perhaps in the queue of its locks */
    const store_value *rest, *locks; /* the replies of ENTER_REST and ENTER_LOCKS, which have taken them */
    lks_rpc_slice stock;             /* its base */
    lks_enter_response *refusal;     /* the answer after ENTER_RELEASE */
    lks_error *error;                /* the error to answer with instead; NULL: `refusal` */
} guard_kept;

/* How Enter calls its function. */
typedef struct enter_call {
    const char *way, *token;
    guard_places at;             /* places of the parts that it takes; base: also of the key that wakes the call */
    bool locks_wait, with_locks; /* for the whole request */
} enter_call;

void enter_prepare(const lks_enter_request *request, plan *p);
void enter_finish(const lks_enter_request *request, answer *a, lks_enter_response *response);

/* A service_next. */
void enter_next(const ProtobufCMessage *request, plan *p);

/* Plans the function's call for these parts, or the call that reads unknown policies. */
void enter_plan_call(const lks_enter_request *parts, plan *p, const enter_call *call);

const char *enter_token(const lks_enter_request *request, plan *p);
bool enter_locks_wait(const lks_enter_request *request);

/* Returns the function's word for a call after an event. */
const char *enter_way(service_event_kind event);

/* Handles {'QUEUED'} and {'WAIT'}; enter_read_reply handles all other replies except {'MORE'}. request: the parts of
 * the call. */
void enter_keep_waiting(const lks_enter_request *request, answer *a, const store_value *reply);
void enter_read_reply(const lks_enter_request *request, answer *a, const store_value *reply,
                      lks_enter_response *response);

/* Whether a reply {'ENTERED'} was replayed. */
bool enter_was_replayed(answer *a, const store_value *reply);

/* ---- guard_two_stores.c ---- */

/* Plans the step in p->kept; ENTER_WHOLE becomes ENTER_LOOK. */
void two_stores_plan(const lks_enter_request *request, plan *p, const guard_places *at);
void two_stores_finish(const lks_enter_request *request, answer *a, lks_enter_response *response);

#endif

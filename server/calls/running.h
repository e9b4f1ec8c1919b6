/* One call, from its plan to its end: made by dispatch.c, run by running.c. */
#ifndef LOCKSTOCK_SERVER_RUNNING_H
#define LOCKSTOCK_SERVER_RUNNING_H

#include <lockstock/rpc/exchange.h>

#include "calls/alarms.h"
#include "calls/audit.h"
#include "calls/callers.h"
#include "calls/identity.h"
#include "calls/quotas.h"
#include "calls/waiters.h"
#include "net/metrics/rpc_meter.h"
#include "services/rounds.h"
#include "store/store.h"
#include "tracing/tracing.h"

typedef struct dispatch dispatch;
typedef struct running running;

typedef struct dispatch_options {
    callers *callers;
    store *store;
    alarms *alarms;
    waiters *waiters;
    quotas *quotas;          /* NULL: no quotas */
    const char *server;      /* this server's id */
    uint32_t timeout_ms;     /* of a call without a timeout, not counting its wait */
    uint32_t timeout_max_ms; /* not counting its wait */
    uint32_t slow_call_ms;   /* a call that takes this long, without its wait, is logged; 0: none */
    struct tracing *tracing; /* NULL: calls are not traced */
    struct budget *memory;   /* counts the bytes of waiting calls */
    service_options services;
} dispatch_options;

/* The stages of a call, whose times are measured. */
typedef enum call_stage { CALL_QUEUE, CALL_STORE, CALL_WAIT, CALL_STAGES } call_stage;

/* A method, its service, and the service's state in this server. */
typedef struct call_target {
    dispatch *dispatch;
    const service_method *method;
    const service *service;
    void *state;
    bool may_wait; /* the request has a wait_ms */
} call_target;

struct dispatch {
    dispatch_options options;
    void *states[SERVICES];
    call_target *targets;
    lks_rpc_route *routes; /* target: call_target */
    size_t n_routes;
    const identity *identity; /* NULL: everyone has full access */
    audit audit;
    rpc_meter *meter;
    metrics_histogram stages[CALL_STAGES];
    bool stopped; /* no more store calls are made */
};

/* One call. call.state is its state (callers.h). Its work is in an arena that the engine lends it, except while it
 * is PARKED or WOKEN: then `parked` has what it needs to resume. */
struct running {
    const call_target *target;
    struct work *work;
    struct parked *parked; /* from its first wait on */
    caller_call call;
    service_event event; /* the event of its current round; the call owns the numbers */
    unsigned pending;    /* kinds of events that came while it was not PARKED, one bit each */
    running **handle;
    uint64_t deadline_ns;
    uint64_t received_ns, stage_ns; /* stage_ns: when its current stage began */
    uint64_t spent_ns[CALL_STAGES];
    uint32_t store_calls, waits;
    span *span; /* NULL: not traced */
    waiter waiter;
    named_entry *of_namespace; /* the count of waiting calls that includes this one; NULL: not limited */
    sink_done *done;
    const sink_lender *lender;
    void *arg;
};

/* State that does not exist while the call is parked; in the arena. */
typedef struct work {
    rounds rounds;
    const audit_origin *origin;  /* of an ADMIN call; else NULL */
    const sink_message *message; /* NULL: the call is alone in its message */
} work;

/* State that a parked call needs in addition to struct running, in one allocation. */
typedef struct parked {
    size_t held; /* bytes of its connection's share; 0 for an ordinary call */
    rounds_packed *rounds;
    watched watches[];
} parked;

/* Begins, resumes and abandons a call that was admitted. */
extern const call_ops running_ops;

/* Ends a call: its caller gets the response or the error of `work`. The call is freed. */
void running_end(running *r);

/* The answer of this call, which has not ended, will not be read: if the call waits, it is withdrawn. */
void running_abandon(running *r);

/* The error of a call that this server refuses because it is stopping. */
void running_refuse_stopping(lks_error *error);

#endif

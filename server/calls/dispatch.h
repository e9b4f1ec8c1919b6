/* From a call to its answer: finds the method, checks rights, namespace and deadline,
 * unpacks, lets the service plan, finds room (callers.h), asks the store, lets the service
 * finish. Every transport hands its calls to this. Loop thread only.
 *
 *   call --> refused (rights, deadline, unknown method, bad request, no room) ---> done
 *        \-> prepare --> queued --> answered ----------------------------------/
 *                               \-> store calls ... all replied --> finish -----/
 */
#ifndef LOCKSTOCK_SERVER_DISPATCH_H
#define LOCKSTOCK_SERVER_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "calls/alarms.h"
#include "calls/callers.h"
#include "calls/identity.h"
#include "services/service.h"
#include "store/store.h"
#include "calls/waiters.h"

typedef struct dispatch dispatch;

typedef struct dispatch_options {
    store *store;
    alarms *alarms;
    waiters *waiters;
    const char *server;      /* this server's id */
    uint32_t timeout_ms;     /* of a call that names none, beyond what it asks to wait */
    uint32_t timeout_max_ms; /* beyond what the call asks to wait */
    service_options services;
} dispatch_options;

typedef struct running running;

/* Calls of one message. Those of one group run in their order: a call of another method
 * than an earlier one of its group begins when that is done. */
typedef struct dispatch_order {
    TAILQ_HEAD(, running) calls;
    const char *full; /* why those that have not begun are refused instead, with RESOURCE_EXHAUSTED; NULL: they begin */
} dispatch_order;

/* One call as its transport read it. */
typedef struct dispatch_call {
    const char *path;
    const void *payload;
    size_t len;
    uint32_t timeout_ms;  /* 0 = none named */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    caller *caller;
    credentials who;
    dispatch_order *order; /* NULL: no other call shares its message, so it may wait */
    running **handle;      /* for dispatch_abandon: what it points to is set until done; NULL: not wanted */
} dispatch_call;

/* Runs exactly once. `response` is NULL unless error->code is LKS_OK; both live in
 * the call's arena. `method` is NULL when there is no such one. */
typedef void dispatch_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response,
                           const lks_error *error);

dispatch *dispatch_new(const dispatch_options *options);

/* Calls that come from now on are judged by it; it stays the caller's. At first, and with
 * NULL, everybody may do everything. */
void dispatch_judge_by(dispatch *d, const identity *judge);

/* No call may be under way. Takes NULL. */
void dispatch_free(dispatch *d);

/* Whether a call of that path would be let in, from there. LKS_UNIMPLEMENTED: there is no such
 * method; who may not know that hears what identity_admit says. */
lks_code dispatch_would_take(dispatch *d, const caller *from, const credentials *who, const char *path,
                             lks_error *error);

/* Whether somebody may do what `method` says: for methods that are not dispatched. */
lks_code dispatch_judge(dispatch *d, const caller *from, const credentials *who, const lks_rpc_method *method,
                        lks_error *error);

/* Takes a call. The caller, the arena, the order and the handle must live until done,
 * which may run before this returns; what else `call` points to is not kept. */
void dispatch_call_start(dispatch *d, const dispatch_call *call, lks_rpc_arena *arena, dispatch_done *done, void *arg);

/* Nobody will read the answer of a call that is not done: if it waits, it is withdrawn. */
void dispatch_abandon(running *call);

#endif

/* From a call to its answer: finds the method, checks deadline, namespace and
 * limits and rights, unpacks, lets the service plan, asks the store, lets the service
 * finish. Every transport hands its calls to this. Loop thread only.
 *
 *   call --> refused (limit, deadline, unknown method, bad request) -------> done
 *        \-> prepare --> answered --------------------------------------/
 *                    \-> store calls ... all replied --> finish --------/
 */
#ifndef LOCKSTOCK_SERVER_DISPATCH_H
#define LOCKSTOCK_SERVER_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "identity.h"
#include "services/service.h"
#include "store/store.h"
#include "waiters.h"

typedef struct dispatch dispatch;

typedef struct dispatch_options {
    store *store;
    waiters *waiters;
    const char *server; /* this server's id */
    uint32_t in_flight_max;
    uint32_t in_flight_per_peer;
    uint32_t timeout_ms;     /* of a call that names none */
    uint32_t timeout_max_ms; /* beyond what the call asks to wait */
    service_options services;
} dispatch_options;

/* One call as its transport read it. */
typedef struct dispatch_call {
    const char *path;
    const void *payload;
    size_t len;
    uint32_t timeout_ms;  /* 0 = none named */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    uint32_t peer;        /* the connection: its calls are limited together */
    uint32_t lost_with;   /* waiters_peer_lost of this abandons it: the connection, or the call alone; 0 = peer */
    bool alone;           /* no other call shares its message: it may wait */
    credentials who;
} dispatch_call;

/* Runs exactly once. `response` is NULL unless error->code is LKS_OK; both live in
 * the call's arena. `method` is NULL when there is no such one. */
typedef void dispatch_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response,
                           const lks_error *error);

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code dispatch_new(const dispatch_options *options, dispatch **ret, lks_error *error);

/* Calls that come from now on are judged by it; it stays the caller's. At first, and with
 * NULL, everybody may do everything. */
void dispatch_judge_by(dispatch *d, const identity *judge);

/* No call may be under way. Takes NULL. */
void dispatch_free(dispatch *d);

/* Whether there is a method of that path. */
bool dispatch_has_method(const dispatch *d, const char *path);

/* Whether somebody may do what `method` says: for methods that are not dispatched. */
lks_code dispatch_judge(const dispatch *d, const credentials *who, const lks_rpc_method *method, lks_error *error);

/* Takes a call. What `call` points to, and the arena, must live until done, which
 * may run before this returns when the store is not needed. */
void dispatch_call_start(dispatch *d, const dispatch_call *call, lks_rpc_arena *arena, dispatch_done *done,
                         void *arg);

#endif

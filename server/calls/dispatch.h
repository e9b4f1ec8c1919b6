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
#include "calls/quotas.h"
#include "services/service.h"
#include "store/store.h"
#include "calls/waiters.h"
#include "net/metrics/metrics.h"

typedef struct dispatch dispatch;
typedef struct running running;

typedef struct dispatch_options {
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

dispatch *dispatch_new(const dispatch_options *options);

/* Later calls are checked against `rights`, which the caller keeps. At first, and with NULL, everyone has full
 * access. */
void dispatch_set_identity(dispatch *d, const identity *rights);

/* The store is about to be closed: no more store calls are made. Those under way end normally; a call that needs
 * another one is UNAVAILABLE. */
void dispatch_stop(dispatch *d);

/* Call this when no call is under way. Takes NULL. */
void dispatch_free(dispatch *d);

/* Returns the method of a path; NULL: no such method. */
const lks_rpc_method *dispatch_method(const dispatch *d, const char *path);

/* Checks whether a call of that path would be admitted. LKS_UNIMPLEMENTED: no such method; a caller without rights gets
 * the error of identity_admit instead. */
lks_code dispatch_check_path(dispatch *d, const caller *from, const credentials *who, const char *path,
                             lks_error *error);

/* Checks whether the caller may call `method`, which this module does not dispatch. */
lks_code dispatch_check(dispatch *d, const caller *from, const credentials *who, const lks_rpc_method *method,
                        lks_error *error);

/* Starts a call, as sink.h specifies. The response lives in the arena. */
void dispatch_call_start(dispatch *d, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg);

/* Writes the metrics of calls: METRICS_STARTED to METRICS_STAGES. */
void dispatch_write_metrics(const dispatch *d, metrics_text *t);

/* The answer of this call, which has not ended, will not be read: if the call waits, it is withdrawn. */
void dispatch_abandon(running *call);

#endif

/* Counts the calls of a server by method: for lockstockd and for hosts. Loop thread only. */
#ifndef LOCKSTOCK_NET_METRICS_RPC_METER_H
#define LOCKSTOCK_NET_METRICS_RPC_METER_H

#include <lockstock/rpc/exchange.h>
#include <lockstock/status.h>

#include "net/metrics/metrics.h"

typedef struct rpc_meter rpc_meter;

/* The routes must outlive it. NULL: out of memory. */
rpc_meter *rpc_meter_new(const lks_rpc_route *routes, size_t n);

/* Takes NULL. */
void rpc_meter_free(rpc_meter *m);

/* Counts of a method that the sink adds to. */
typedef enum rpc_meter_count {
    RPC_METER_UNITS, /* of stock that its calls moved, or ids that they gave */
    RPC_METER_STORE_CALLS,
    RPC_METER_WITHOUT_STORE, /* answers without a call to the store */
    RPC_METER_RAN,           /* its guards let the handler run, */
    RPC_METER_ANSWERED,      /* answered in its place (a stored result, an outcome), */
    RPC_METER_REFUSED,       /* or refused the call */
    RPC_METER_COUNTS
} rpc_meter_count;

/* Marks the method as guarded: its guard counts are written even when they are 0. */
void rpc_meter_guards(rpc_meter *m, const lks_rpc_method *method);

/* A call arrived; a call was answered `ns` after its arrival. method NULL: its path is unknown. response NULL: an
 * error. Returns the method's counts, by rpc_meter_count, to add to. */
void rpc_meter_started(rpc_meter *m, const lks_rpc_method *method);
uint64_t *rpc_meter_handled(rpc_meter *m, const lks_rpc_method *method, const ProtobufCMessage *response,
                            const lks_error *error, uint64_t ns);

/* Writes METRICS_STARTED to METRICS_REFUSED, and the counts. Methods that were never called are left out, except in
 * METRICS_STARTED. */
void rpc_meter_write(const rpc_meter *m, metrics_text *t);

#endif

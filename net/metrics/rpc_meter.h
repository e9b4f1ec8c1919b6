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

/* A call arrived; it is answered, `ns` later. method NULL: its path is unknown. response NULL: an error. */
void rpc_meter_started(rpc_meter *m, const lks_rpc_method *method);
void rpc_meter_handled(rpc_meter *m, const lks_rpc_method *method, const ProtobufCMessage *response,
                       const lks_error *error, uint64_t ns);

/* grpc_service="lockstock.v1.StockService",grpc_method="Deduct", in the arena of t. method NULL: an unknown path. */
const char *rpc_meter_labels(const lks_rpc_method *method, metrics_text *t);

/* Writes METRICS_STARTED to METRICS_REFUSED. Methods that were never called are left out, but for METRICS_STARTED. */
void rpc_meter_write(const rpc_meter *m, metrics_text *t);

#endif

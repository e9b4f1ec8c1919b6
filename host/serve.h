/* One message of calls: a frame in, a reply out. Runs on a worker thread. */
#ifndef HOST_SERVE_H
#define HOST_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/exchange.h>
#include "net/nng/nng_rep.h"
#include <lockstock/rpc/service.h>

/* What is served; constant once the host listens. The target of a route is its
 * serve_target. */
typedef struct serve_table {
    lks_rpc_route *routes; /* sorted */
    size_t n_routes;
    uint32_t timeout_ms; /* of a call that names none, and the longest */
    size_t message_bytes_max;
    lks_rpc_scan_limits limits; /* of a request */
} serve_table;

typedef struct serve_target {
    const lks_rpc_binding *binding;
    const lks_rpc_service *service;
} serve_target;

/* Runs the calls of a message in their order and ends the request. received_ns: when
 * it arrived, CLOCK_MONOTONIC. The arena is the caller's to reset afterwards. */
void serve_message(const serve_table *table, lks_rpc_nng_request *request, uint64_t received_ns, lks_rpc_arena *arena);

#endif

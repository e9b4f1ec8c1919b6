/* One call, from its bytes to its response. Runs on a worker thread. */
#ifndef HOST_SERVE_H
#define HOST_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/service.h>

/* What is served; constant once the host listens. The target of a route is its
 * serve_target. */
typedef struct serve_table {
    lks_rpc_route *routes; /* sorted */
    size_t n_routes;
    uint32_t timeout_ms;        /* of a call that names none, and the longest */
    lks_rpc_scan_limits limits; /* of a request */
} serve_table;

typedef struct serve_target {
    const lks_rpc_binding *binding;
    const lks_rpc_service *service;
} serve_target;

/* Unpacks the payload, unless the call is overdue. The request lives in the arena. */
lks_code serve_unpack(const serve_table *table, const lks_rpc_route *route, const void *payload, size_t len,
                      const lks_rpc_context *context, lks_rpc_arena *arena, ProtobufCMessage **request,
                      lks_error *error);

/* Makes the response, in the arena, and completes `context`. */
lks_code serve_prepare(const lks_rpc_route *route, lks_rpc_context *context, lks_rpc_arena *arena,
                       ProtobufCMessage **response, lks_error *error);

/* Runs the handler. Whatever it makes of *error, the code that is returned counts. */
lks_code serve_run(const lks_rpc_route *route, lks_rpc_context *context, const ProtobufCMessage *request,
                   ProtobufCMessage *response, lks_error *error);

#endif

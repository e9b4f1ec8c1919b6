/* Invariant: a call whose handler did not run says applied NO. */
#include "serve.h"

#include "base/clock.h"

lks_code serve_unpack(const serve_table *table, const lks_rpc_route *route, const void *payload, size_t len,
                      const lks_rpc_context *context, lks_rpc_arena *arena, ProtobufCMessage **request,
                      lks_error *error)
{
    if (clock_now_ns() >= context->deadline_ns)
        return lks_error_set_reason(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                                    "the deadline passed before the call ran");
    return lks_rpc_request_unpack_within(route->method, payload, len, &table->limits, arena, request, error);
}

lks_code serve_prepare(const lks_rpc_route *route, lks_rpc_context *context, lks_rpc_arena *arena,
                       ProtobufCMessage **response, lks_error *error)
{
    *response = lks_rpc_response_new(route->method, arena);
    if (!*response)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    context->arena = arena;
    context->method = route->method;
    *error = (lks_error){0};
    return LKS_OK;
}

lks_code serve_run(const lks_rpc_route *route, lks_rpc_context *context, const ProtobufCMessage *request,
                   ProtobufCMessage *response, lks_error *error)
{
    const serve_target *target = route->target;

    return target->binding->handle(target->service, context, request, response, error);
}

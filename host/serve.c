/* Invariant: a frame is answered once, with a result for each call, in the order of
 * the calls; a call whose handler did not run says applied NO. */
#include "serve.h"

#include <lockstock/rpc/frame.h>

static const uint64_t NS_PER_MS = 1000000;

static uint64_t deadline_of(const serve_table *table, uint32_t timeout_ms, uint64_t received_ns)
{
    if (timeout_ms == 0 || timeout_ms > table->timeout_ms)
        timeout_ms = table->timeout_ms;
    return received_ns + timeout_ms * NS_PER_MS;
}

static struct lks_rpc_metadata *metadata_of(const Lockstock__Rpc__V1__Call *call, lks_rpc_arena *arena)
{
    struct lks_rpc_metadata *all = lks_rpc_arena_alloc(arena, call->n_metadata * sizeof *all);
    for (size_t i = 0; all && i < call->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = call->metadata[i];
        all[i] = (struct lks_rpc_metadata){
            .key = item->key,
            .value = {.data = (const char *)item->value.data, .len = item->value.len},
        };
    }
    return all;
}

/* Runs the handler. Whatever it makes of *error, a failure leaves it with the code
 * that was returned. */
static lks_code run(const serve_target *target, lks_rpc_context *context, const ProtobufCMessage *request,
                    ProtobufCMessage *response, lks_error *error)
{
    *error = (lks_error){0};
    lks_code code = target->binding->handle(target->service, context, request, response, error);
    error->code = code;
    return code;
}

static lks_code serve_call(const serve_table *table, const Lockstock__Rpc__V1__Call *call, uint64_t received_ns,
                           lks_rpc_arena *arena, const lks_rpc_method **method, Lockstock__Rpc__V1__Result *result,
                           lks_error *error)
{
    const lks_rpc_route *route = lks_rpc_route_find(table->routes, table->n_routes, call->method);
    if (!route)
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    *method = route->method;
    uint64_t deadline_ns = deadline_of(table, call->timeout_ms, received_ns);
    if (lks_rpc_now_ns() >= deadline_ns)
        return lks_error_set(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "the deadline passed before the call ran");
    ProtobufCMessage *request;
    lks_code code = lks_rpc_request_unpack_within(route->method, call->payload.data, call->payload.len, &table->limits,
                                                  arena, &request, error);
    if (code != LKS_OK)
        return code;
    ProtobufCMessage *response = lks_rpc_response_new(route->method, arena);
    lks_rpc_context context = {
        .arena = arena,
        .method = route->method,
        .deadline_ns = deadline_ns,
        .n_metadata = call->n_metadata,
        .metadata = metadata_of(call, arena),
    };
    if (!response || !context.metadata)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    code = run(route->target, &context, request, response, error);
    if (code == LKS_OK)
        lks_rpc_result_ok(route->method, response, arena, result);
    return code;
}

static void reply(lks_rpc_nng_request *request, Lockstock__Rpc__V1__Reply *answer, const lks_rpc_method *const *methods,
                  size_t bytes_max)
{
    void *space = lks_rpc_nng_request_answer(request, lks_rpc_reply_fit(answer, methods, bytes_max));
    if (!space) {
        /* The calls ran: an unanswered caller must learn that something is wrong, and a
         * lost connection is what it takes for "maybe". */
        lks_rpc_nng_request_close_peer(request);
        return;
    }
    lockstock__rpc__v1__reply__pack(answer, space);
    lks_rpc_nng_request_reply(request);
}

void serve_message(const serve_table *table, lks_rpc_nng_request *request, uint64_t received_ns, lks_rpc_arena *arena)
{
    size_t len;
    const void *data = lks_rpc_nng_request_data(request, &len);
    Lockstock__Rpc__V1__Frame *frame;
    lks_error error;
    lks_code code = lks_rpc_frame_decode(data, len, 0, arena, &frame, &error);
    if (code == LKS_DATA_LOSS) {
        lks_rpc_nng_request_close_peer(request);
        return;
    }
    if (code != LKS_OK) {
        lks_rpc_nng_request_refuse(request, &error);
        return;
    }
    Lockstock__Rpc__V1__Reply *answer = lks_rpc_reply_new(frame->n_calls, arena);
    const lks_rpc_method **methods = lks_rpc_arena_alloc(arena, frame->n_calls * sizeof *methods);
    if (!answer || !methods) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        lks_rpc_nng_request_refuse(request, &error);
        return;
    }
    for (size_t i = 0; i < frame->n_calls; i++)
        if (serve_call(table, frame->calls[i], received_ns, arena, &methods[i], answer->results[i], &error) != LKS_OK)
            lks_rpc_result_fail(&error, arena, answer->results[i]);
    reply(request, answer, methods, table->message_bytes_max);
}

/* Invariant: what undoes a call names it by the id that all its tries had: should a late
 * copy of it still arrive, the server knows that it is over. */
#include "client/call/undo.h"

#include <stdlib.h>

#include "client/call/request.h"

enum { TIMEOUT_MS = 86400000 }; /* until a server answers: a copy of the call may be as late */

static void start(lks_channel *channel, const Lockstock__Rpc__V1__Call *call, const lks_rpc_method *method,
                  const ProtobufCMessage *undoing)
{
    lks_metadata *metadata = calloc(call->n_metadata + 1, sizeof *metadata);

    if (!metadata)
        return;
    for (size_t i = 0; i < call->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = call->metadata[i];
        metadata[i] = (lks_metadata){.key = item->key, .value = item->value.data, .len = item->value.len};
    }
    const lks_call_options options = {
        .timeout_ms = TIMEOUT_MS, .insist = true, .metadata = metadata, .n_metadata = call->n_metadata};
    lks_call_start(channel, method, undoing, &options, NULL, NULL, NULL, NULL, NULL);
    free(metadata);
}

void call_undo(lks_channel *channel, const struct request *request)
{
    const lks_rpc_method *method = request->method;
    Lockstock__Rpc__V1__Call *call = method->undo ? request_call(request) : NULL;

    if (!call)
        return;
    ProtobufCMessage *sent = protobuf_c_message_unpack(method->request, NULL, call->payload.len, call->payload.data);
    ProtobufCMessage *undoing = sent ? lks_rpc_undo_request(method, sent) : NULL;
    if (undoing)
        start(channel, call, method->undo->method, undoing);
    free(undoing);
    lks_message_free(sent);
    lockstock__rpc__v1__call__free_unpacked(call, NULL);
}

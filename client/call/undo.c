/* Invariant: what undoes a call names it by the id that all its tries had: should a late
 * copy of it still arrive, the server knows that it is over. */
#include "client/call/undo.h"

#include <stdlib.h>

#include "client/call/request.h"

enum { TIMEOUT_MS = 10000 };

static void start(lks_channel *channel, const struct request *request, const ProtobufCMessage *undoing)
{
    lks_metadata *metadata = calloc(request->n_metadata + 1, sizeof *metadata);

    if (!metadata)
        return;
    for (size_t i = 0; i < request->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = request->metadata[i];
        metadata[i] = (lks_metadata){.key = item->key, .value = item->value.data, .len = item->value.len};
    }
    const lks_call_options options = {
        .timeout_ms = TIMEOUT_MS, .insist = true, .metadata = metadata, .n_metadata = request->n_metadata};
    lks_call_start(channel, request->method->undo->method, undoing, &options, NULL, NULL, NULL, NULL, NULL);
    free(metadata);
}

void call_undo(lks_channel *channel, const struct request *request)
{
    if (!request->method->undo)
        return;
    ProtobufCMessage *sent =
        protobuf_c_message_unpack(request->method->request, NULL, request->first.len, request->first.data);
    ProtobufCMessage *undoing = sent ? lks_rpc_undo_request(request->method, sent) : NULL;
    if (undoing)
        start(channel, request, undoing);
    free(undoing);
    lks_message_free(sent);
}

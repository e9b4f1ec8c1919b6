/* Invariant: the token of a cancelled Acquire is spent: should a late copy of it
 * still arrive, it finds the tombstone of the Release. */
#include "client/call/undo.h"

#include <stdlib.h>

#include <lockstock/v1/lock.lks_client.h>

#include "client/call/request.h"

enum { TIMEOUT_MS = 10000 };

static void release(lks_channel *channel, const struct request *request, const lks_acquire_request *acquire)
{
    lks_release_request message = LKS_RELEASE_REQUEST_INIT;
    lks_metadata *metadata = calloc(request->n_metadata + 1, sizeof *metadata);

    if (metadata == NULL)
        return;
    for (size_t i = 0; i < request->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = request->metadata[i];
        metadata[i] = (lks_metadata){.key = item->key, .value = item->value.data, .len = item->value.len};
    }
    message.group = *acquire->group == '\0' && acquire->n_targets == 1 ? acquire->targets[0]->name : acquire->group;
    message.token = acquire->token;
    const lks_call_options options = {
        .timeout_ms = TIMEOUT_MS, .insist = true, .metadata = metadata, .n_metadata = request->n_metadata};
    lks_lock_release_start(channel, &message, &options, NULL, NULL, NULL, NULL);
    free(metadata);
}

void withdraw(lks_channel *channel, const struct request *request)
{
    if (request->method != &lks_lock_acquire_method)
        return;
    ProtobufCMessage *acquire =
        protobuf_c_message_unpack(request->method->request, NULL, request->first.len, request->first.data);
    if (acquire != NULL)
        release(channel, request, (const lks_acquire_request *)(const void *)acquire);
    lks_message_free(acquire);
}

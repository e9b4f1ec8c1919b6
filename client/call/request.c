/* Invariant: all tries of a call carry the same payload but for a field with the option
 * first_try, and the same natural id; so a server can tell that they are one call. */
#include "client/call/request.h"

#include <stdlib.h>
#include <string.h>

#include "net/clock.h"

enum {
    WAIT_MARGIN_MS = 5000, /* of a waiting call's default timeout, over its wait */
    METADATA_MAX = 64,
    FRAME_HEADER_BYTES = 16 /* tag and length of the call, and SP's request id; rounded up */
};

static const char NAMESPACE[] = "lockstock-namespace", AUTHORIZATION[] = "authorization";

/* gRPC's key characters. */
static bool is_key(const char *key)
{
    return key && *key != '\0' && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(key);
}

static uint64_t timeout_ms_of(const lks_call_options *options, uint32_t default_ms, uint32_t wait_ms)
{
    if (options && options->timeout_ms != 0)
        return options->timeout_ms;
    uint64_t least_ms = wait_ms == 0 ? 0 : (uint64_t)wait_ms + WAIT_MARGIN_MS;
    return default_ms > least_ms ? default_ms : least_ms;
}

static char *put_bytes(char *at, const void *data, size_t len, ProtobufCBinaryData *ret)
{
    if (len != 0)
        memcpy(at, data, len);
    *ret = (ProtobufCBinaryData){.len = len, .data = (uint8_t *)at};
    return at + len;
}

static char *put_payload(char *at, const ProtobufCMessage *message, ProtobufCBinaryData *ret)
{
    *ret = (ProtobufCBinaryData){.data = (uint8_t *)at, .len = protobuf_c_message_pack(message, (uint8_t *)at)};
    return at + ret->len;
}

static char *put_metadata(char *at, const lks_metadata *from, Lockstock__Rpc__V1__Metadata *ret)
{
    lockstock__rpc__v1__metadata__init(ret);
    ret->key = at;
    at = stpcpy(at, from->key) + 1;
    return put_bytes(at, from->value, from->len, &ret->value);
}

static void call_of(const struct request *request, bool again, uint32_t timeout_ms, Lockstock__Rpc__V1__Call *ret)
{
    lockstock__rpc__v1__call__init(ret);
    ret->method = (char *)request->method->path;
    ret->payload = again ? request->again : request->first;
    ret->timeout_ms = timeout_ms;
    ret->n_metadata = request->n_metadata;
    ret->metadata = request->metadata;
}

/* `message` is the caller's to change. */
static lks_code request_pack(const lks_rpc_method *method, ProtobufCMessage *message, const lks_metadata *metadata,
                             size_t n_metadata, struct request **ret, lks_error *error)
{
    /* Room for two payloads: the second is longer where a default of true is not sent. */
    enum { LONGER = 16 };
    size_t payload = protobuf_c_message_get_packed_size(message);
    size_t bytes = sizeof(struct request) + n_metadata * (sizeof(Lockstock__Rpc__V1__Metadata) + sizeof(void *)) +
                   payload + (method->first_try ? payload + LONGER : 0);
    for (size_t i = 0; i < n_metadata; i++)
        bytes += strlen(metadata[i].key) + 1 + metadata[i].len;

    struct request *request = malloc(bytes);
    if (!request)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    Lockstock__Rpc__V1__Metadata *structs = (Lockstock__Rpc__V1__Metadata *)(void *)(request + 1);
    *request = (struct request){
        .method = method,
        .n_metadata = n_metadata,
        .metadata = (Lockstock__Rpc__V1__Metadata **)(void *)(structs + n_metadata),
    };
    char *at = (char *)(request->metadata + n_metadata);
    for (size_t i = 0; i < n_metadata; i++) {
        at = put_metadata(at, &metadata[i], &structs[i]);
        request->metadata[i] = &structs[i];
    }
    at = put_payload(at, message, &request->first);
    request->again = request->first;
    if (lks_rpc_end_first_try(method, message))
        put_payload(at, message, &request->again);
    *ret = request;
    return LKS_OK;
}

static lks_code check(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                      lks_error *error)
{
    if (!message || message->descriptor != method->request)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "request: not a %s", method->request->name);
    if (!options)
        return LKS_OK;
    if (options->n_metadata > METADATA_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.metadata: more than %d",
                             METADATA_MAX);
    for (size_t i = 0; i < options->n_metadata; i++)
        if (!is_key(options->metadata[i].key))
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "options.metadata[%zu].key: not of a-z, 0-9, '-', '_' and '.'", i);
    return LKS_OK;
}

/* The call's metadata, and what of the channel's it does not name itself. */
static size_t gather_metadata(const lks_call_options *options, const lks_channel_options *defaults,
                              lks_metadata metadata[METADATA_MAX + 2])
{
    bool names_ns = false, names_authorization = false;
    size_t n = 0;

    for (size_t i = 0; options && i < options->n_metadata; i++) {
        metadata[n++] = options->metadata[i];
        names_ns = names_ns || strcmp(options->metadata[i].key, NAMESPACE) == 0;
        names_authorization = names_authorization || strcmp(options->metadata[i].key, AUTHORIZATION) == 0;
    }
    if (defaults->ns && !names_ns)
        metadata[n++] = (lks_metadata){NAMESPACE, defaults->ns, strlen(defaults->ns)};
    if (defaults->token && !names_authorization)
        metadata[n++] = (lks_metadata){AUTHORIZATION, defaults->token, strlen(defaults->token)};
    return n;
}

lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error)
{
    char id[LKS_RPC_RANDOM_ID_LEN + 1];
    lks_metadata metadata[METADATA_MAX + 2];
    struct request *request = NULL;
    lks_code code = check(method, message, options, error);
    if (code != LKS_OK)
        return code;

    size_t n_metadata = gather_metadata(options, defaults, metadata);

    /* A shallow copy to fill the id in: the caller's request stays as it is. */
    ProtobufCMessage *copy = malloc(method->request->sizeof_message);
    if (!copy)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    memcpy(copy, message, method->request->sizeof_message);
    char **fill = lks_rpc_field_to_fill(method, copy);
    if (fill) {
        lks_rpc_random_id(id);
        *fill = id;
    }
    int64_t wait_ms = lks_rpc_wait_ms(method, copy);
    bool repeatable = lks_rpc_may_repeat(method, copy);
    code = request_pack(method, copy, metadata, n_metadata, &request, error);
    free(copy);
    if (code != LKS_OK)
        return code;

    Lockstock__Rpc__V1__Call call;
    call_of(request, false, UINT32_MAX, &call);
    if (lockstock__rpc__v1__call__get_packed_size(&call) + FRAME_HEADER_BYTES > defaults->message_bytes_max) {
        free(request);
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "request: longer than %zu bytes",
                             defaults->message_bytes_max);
    }
    request->wait_ms = wait_ms < UINT32_MAX ? (uint32_t)wait_ms : UINT32_MAX;
    request->no_retry = defaults->no_retry || (options && options->no_retry);
    request->insist = options && options->insist;
    request->repeatable = repeatable;
    request->deadline_ns =
        lks_rpc_now_ns() + timeout_ms_of(options, defaults->timeout_ms, request->wait_ms) * CLOCK_NS_PER_MS;
    *ret = request;
    return LKS_OK;
}

link_message *request_frame(const struct request *request, bool again, uint32_t timeout_ms)
{
    Lockstock__Rpc__V1__Call call, *calls[] = {&call};
    Lockstock__Rpc__V1__Frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;

    call_of(request, again, timeout_ms, &call);
    frame.n_calls = 1;
    frame.calls = calls;
    link_message *message = link_message_new(lockstock__rpc__v1__frame__get_packed_size(&frame));
    if (message)
        lockstock__rpc__v1__frame__pack(&frame, link_message_body(message));
    return message;
}

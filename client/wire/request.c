/* Invariant: all tries of a call carry the same natural id, and the same payload, except for a field with the option
 * first_try. So a server recognises them as one call. */
#include "client/wire/request.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <lockstock/rpc/frame.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/trace_context.h"
#include "base/varint.h"

enum {
    UNDO_TIMEOUT_MS = 86400000, /* a copy of the call may still arrive until then */
    WAIT_MARGIN_MS = 5000,      /* the default timeout of a call that waits exceeds its wait by this */
    METADATA_MAX = 64,
    TRACE_KEYS = 2,
    FRAME_HEADER_BYTES = 16 /* before a frame on the wire; rounded up */
};

#define TOKEN_METADATA_BYTES(len) (3 * HEAD_BYTES_MAX + sizeof AUTHORIZATION + (len))

static const char NAMESPACE[] = "lockstock-namespace", AUTHORIZATION[] = "authorization", TRACEPARENT[] = "traceparent";

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

/* getrandom(2) is interrupted only for longer requests. */
static void random_bytes(void *bytes, size_t len)
{
    if (getrandom(bytes, len, 0) != (ssize_t)len)
        abort();
}

/* ---- a Call's bytes ------------------------------------------------------------- */

enum { CALLS = 2 << 3 | 2 }; /* of a Frame */
enum {
    METHOD = 1 << 3 | 2,
    PAYLOAD = 2 << 3 | 2,
    TIMEOUT = 3 << 3,
    METADATA = 4 << 3 | 2,
    UNANSWERED = 5 << 3
};                                             /* of a Call */
enum { KEY = 1 << 3 | 2, VALUE = 2 << 3 | 2 }; /* of Metadata */
enum { LENGTH_BYTES_MAX = 5, HEAD_BYTES_MAX = 1 + LENGTH_BYTES_MAX, TIMEOUT_BYTES_MAX = 1 + 5, UNANSWERED_BYTES = 2 };

static uint8_t *put_head(uint8_t *at, uint8_t tag, size_t len)
{
    *at++ = tag;
    return varint_put(at, len);
}

static uint8_t *put_bytes(uint8_t *at, uint8_t tag, const void *data, size_t len)
{
    at = put_head(at, tag, len);
    if (len != 0)
        memcpy(at, data, len);
    return at + len;
}

static uint8_t *put_call(uint8_t *at, const lks_rpc_method *method, const ProtobufCMessage *message, size_t len,
                         lks_rpc_slice *ret)
{
    uint8_t *start = at;

    at = put_bytes(at, METHOD, method->path, strlen(method->path));
    if (len != 0)
        at = put_head(at, PAYLOAD, len);
    at += protobuf_c_message_pack(message, at);
    *ret = (lks_rpc_slice){.data = (const char *)start, .len = (size_t)(at - start)};
    return at;
}

static uint8_t *put_metadata(uint8_t *at, const lks_metadata *from)
{
    size_t key = strlen(from->key);

    at = put_head(at, METADATA, 1 + varint_bytes(key) + key + 1 + varint_bytes(from->len) + from->len);
    at = put_bytes(at, KEY, from->key, key);
    return put_bytes(at, VALUE, from->value, from->len);
}

/* As put_metadata, and remembers where the traceparent is. */
static uint8_t *put_traced(struct request *request, uint8_t *at, const lks_metadata *from)
{
    trace_context context;

    at = put_metadata(at, from);
    if (strcmp(from->key, TRACEPARENT) == 0 && from->len == TRACE_PARENT_CHARS &&
        trace_context_read(from->value, from->len, &context)) {
        request->traceparent = (char *)at - TRACE_PARENT_CHARS;
        memcpy(request->given_span, context.span, sizeof context.span);
    }
    return at;
}

/* Changes `message`, which must be a copy of the caller's. */
static lks_code request_pack(const lks_rpc_method *method, ProtobufCMessage *message, const lks_metadata *metadata,
                             size_t n_metadata, struct request **ret, lks_error *error)
{
    /* Room for two payloads. The second may be longer: a bool with the default `true` is sent only if false. */
    enum { LONGER = 16 };
    size_t payload = protobuf_c_message_get_packed_size(message);
    size_t call = 2 * HEAD_BYTES_MAX + strlen(method->path) + payload;
    size_t bytes = sizeof(struct request) + call + (method->first_try ? call + LONGER : 0);
    for (size_t i = 0; i < n_metadata; i++)
        bytes += 3 * HEAD_BYTES_MAX + strlen(metadata[i].key) + metadata[i].len;

    struct request *request = malloc(bytes);
    if (!request)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *request = (struct request){.method = method};
    uint8_t *at = put_call((uint8_t *)(request + 1), method, message, payload, &request->first), *start = at;
    for (size_t i = 0; i < n_metadata; i++)
        at = put_traced(request, at, &metadata[i]);
    request->metadata = (lks_rpc_slice){.data = (const char *)start, .len = (size_t)(at - start)};
    request->again = request->first;
    if (lks_rpc_end_first_try(method, message))
        put_call(at, method, message, protobuf_c_message_get_packed_size(message), &request->again);
    *ret = request;
    return LKS_OK;
}

size_t request_bytes_max(const struct request *request, bool again)
{
    return HEAD_BYTES_MAX + (again ? request->again : request->first).len + TIMEOUT_BYTES_MAX + request->metadata.len +
           request->token.len + UNANSWERED_BYTES;
}

uint8_t *request_write(const struct request *request, bool again, bool unanswered, uint32_t timeout_ms, uint8_t *at)
{
    const lks_rpc_slice *call = again ? &request->again : &request->first;

    at = put_head(at, CALLS,
                  call->len + 1 + varint_bytes(timeout_ms) + request->metadata.len + request->token.len +
                      (unanswered ? UNANSWERED_BYTES : 0));
    memcpy(at, call->data, call->len);
    at = put_head(at + call->len, TIMEOUT, timeout_ms);
    memcpy(at, request->metadata.data, request->metadata.len);
    at += request->metadata.len;
    if (request->token.len > 0)
        memcpy(at, request->token.data, request->token.len);
    at += request->token.len;
    return unanswered ? put_head(at, UNANSWERED, true) : at;
}

void request_new_span(struct request *request)
{
    uint8_t span[TRACE_SPAN_BYTES];

    random_bytes(span, sizeof span);
    hex_encode(span, sizeof span, request->traceparent + TRACE_SPAN_AT);
}

bool request_traceparents(const struct request *request, char sent[TRACE_PARENT_CHARS + 1],
                          char given[TRACE_PARENT_CHARS + 1])
{
    snprintf(sent, TRACE_PARENT_CHARS + 1, "%.*s", TRACE_PARENT_CHARS, request->traceparent);
    memcpy(given, sent, TRACE_PARENT_CHARS + 1);
    hex_encode(request->given_span, sizeof request->given_span, given + TRACE_SPAN_AT);
    return !request->begins_trace;
}

void request_free(struct request *request)
{
    if (request)
        free((void *)(uintptr_t)request->token.data);
    free(request);
}

bool request_authorize(struct request *request, const char *authorization)
{
    const lks_metadata token = {AUTHORIZATION, authorization, strlen(authorization)};
    uint8_t *bytes = malloc(TOKEN_METADATA_BYTES(token.len));

    if (!bytes)
        return false;
    free((void *)(uintptr_t)request->token.data);
    request->token = (lks_rpc_slice){.data = (const char *)bytes, .len = (size_t)(put_metadata(bytes, &token) - bytes)};
    return true;
}

/* ---- a request -------------------------------------------------------------------- */

static lks_code check(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                      lks_error *error)
{
    if (!message || message->descriptor != method->request)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "request: not a %s", method->request->name);
    if (!options)
        return LKS_OK;
    if (options->n_metadata > METADATA_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options.metadata: must have at most %d entries", METADATA_MAX);
    for (size_t i = 0; i < options->n_metadata; i++)
        if (!is_key(options->metadata[i].key))
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "options.metadata[%zu].key: must consist of a-z, 0-9, '-', '_' and '.'", i);
    return LKS_OK;
}

static bool has_key(const lks_metadata *metadata, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(metadata[i].key, key) == 0)
            return true;
    return false;
}

/* Adds the trace context (W3C) of the call's context, except for keys that the call has itself. Returns how many
 * entries were added. */
static size_t gather_trace(const lks_call_options *options, lks_metadata *metadata, size_t n)
{
    static const char *const keys[TRACE_KEYS] = {TRACEPARENT, "tracestate"};
    const lks_rpc_context *context = options ? options->context : NULL;
    bool given = has_key(metadata, n, keys[0]); /* the caller gave its own trace */
    size_t added = 0;

    for (size_t k = 0; context && k < TRACE_KEYS && !given; k++)
        for (size_t i = 0; i < context->n_metadata; i++)
            if (strcmp(context->metadata[i].key, keys[k]) == 0) {
                metadata[n + added++] =
                    (lks_metadata){keys[k], context->metadata[i].value.data, context->metadata[i].value.len};
                break;
            }
    return added;
}

static const char *begin_trace(char text[TRACE_PARENT_CHARS + 1])
{
    trace_context context = {.sampled = true};

    random_bytes(context.trace, sizeof context.trace);
    random_bytes(context.span, sizeof context.span);
    trace_context_write(&context, text);
    return text;
}

/* Collects the metadata of the call, and the channel's metadata for keys that the call does not have. Writes `trace` if
 * the call begins a trace. */
static size_t gather_metadata(const lks_call_options *options, const lks_channel_options *defaults,
                              lks_metadata metadata[METADATA_MAX + 2 + TRACE_KEYS], char trace[TRACE_PARENT_CHARS + 1])
{
    size_t n = 0;

    for (size_t i = 0; options && i < options->n_metadata; i++)
        metadata[n++] = options->metadata[i];
    n += gather_trace(options, metadata, n);
    if (defaults->on_try && !has_key(metadata, n, TRACEPARENT))
        metadata[n++] = (lks_metadata){TRACEPARENT, begin_trace(trace), TRACE_PARENT_CHARS};
    if (defaults->ns && !has_key(metadata, n, NAMESPACE))
        metadata[n++] = (lks_metadata){NAMESPACE, defaults->ns, strlen(defaults->ns)};
    if (defaults->token && !has_key(metadata, n, AUTHORIZATION))
        metadata[n++] = (lks_metadata){AUTHORIZATION, defaults->token, strlen(defaults->token)};
    return n;
}

lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error)
{
    char id[LKS_RPC_RANDOM_ID_LEN + 1], trace[TRACE_PARENT_CHARS + 1] = "";
    lks_metadata metadata[METADATA_MAX + 2 + TRACE_KEYS];
    struct request *request = NULL;
    lks_code code = check(method, message, options, error);
    if (code != LKS_OK)
        return code;

    size_t n_metadata = gather_metadata(options, defaults, metadata, trace);

    /* A shallow copy gets the id. */
    max_align_t brief[512 / sizeof(max_align_t)]; /* has room for most requests */
    size_t size = method->request->sizeof_message;
    ProtobufCMessage *copy = size <= sizeof brief ? (void *)brief : malloc(size);
    if (!copy)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    memcpy(copy, message, size);
    char **fill = lks_rpc_field_to_fill(method, copy);
    if (fill) {
        lks_rpc_random_id(id);
        *fill = id;
    }
    int64_t wait_ms = lks_rpc_wait_ms(method, copy);
    bool repeatable = lks_rpc_may_repeat(method, copy);
    code = request_pack(method, copy, metadata, n_metadata, &request, error);
    if ((void *)copy != brief)
        free(copy);
    if (code != LKS_OK)
        return code;

    size_t bytes = request_bytes_max(request, false);
    request->needs_token =
        defaults->get_token && !(options && has_key(options->metadata, options->n_metadata, AUTHORIZATION));
    if (request->needs_token) /* the token is not known yet */
        bytes += TOKEN_METADATA_BYTES(sizeof "Bearer " + LKS_TOKEN_BYTES_MAX);
    if (bytes + FRAME_HEADER_BYTES > defaults->message_bytes_max) {
        free(request);
        return lks_error_set_reason(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, LKS_REASON_TOO_LARGE,
                                    "request: longer than %zu bytes", defaults->message_bytes_max);
    }
    request->wait_ms = wait_ms < UINT32_MAX ? (uint32_t)wait_ms : UINT32_MAX;
    request->begins_trace = trace[0] != '\0';
    request->no_retry = defaults->no_retry || (options && options->no_retry);
    request->insist = options && options->insist;
    request->repeatable = repeatable;
    request->coalesces = method->coalesce && !request->no_retry && bytes <= REQUEST_FRAME_BYTES_MAX &&
                         defaults->message_bytes_max >= LKS_RPC_MESSAGE_BYTES_MAX;
    uint64_t now_ns = clock_now_ns();
    request->deadline_ns = now_ns + timeout_ms_of(options, defaults->timeout_ms, request->wait_ms) * CLOCK_NS_PER_MS;
    if (options && options->context && options->context->deadline_ns < request->deadline_ns)
        request->deadline_ns = options->context->deadline_ns;
    if (request->deadline_ns <= now_ns) {
        free(request);
        return lks_error_set(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "options.context: its deadline has passed");
    }
    *ret = request;
    return LKS_OK;
}

/* ---- undo ------------------------------------------------------------------------- */

/* NULL when out of memory. */
static Lockstock__Rpc__V1__Call *sent_call(const struct request *request)
{
    size_t len = request->first.len + request->metadata.len;
    uint8_t *bytes = malloc(len);
    Lockstock__Rpc__V1__Call *call = NULL;

    if (bytes) {
        memcpy(bytes, request->first.data, request->first.len);
        memcpy(bytes + request->first.len, request->metadata.data, request->metadata.len);
        call = lockstock__rpc__v1__call__unpack(NULL, len, bytes);
    }
    free(bytes);
    return call;
}

void request_undo(const struct request *request, lks_channel *channel)
{
    const lks_rpc_method *method = request->method;
    Lockstock__Rpc__V1__Call *sent = method->undo ? sent_call(request) : NULL;
    lks_metadata *metadata = sent ? calloc(sent->n_metadata + 1, sizeof *metadata) : NULL;
    ProtobufCMessage *message = NULL, *undoing = NULL;

    if (metadata)
        message = protobuf_c_message_unpack(method->request, NULL, sent->payload.len, sent->payload.data);
    if (message)
        undoing = lks_rpc_undo_request(method, message);
    if (undoing) {
        for (size_t i = 0; i < sent->n_metadata; i++)
            metadata[i] = (lks_metadata){.key = sent->metadata[i]->key,
                                         .value = sent->metadata[i]->value.data,
                                         .len = sent->metadata[i]->value.len};
        const lks_call_options options = {
            .timeout_ms = UNDO_TIMEOUT_MS, .insist = true, .metadata = metadata, .n_metadata = sent->n_metadata};
        lks_call_start(channel, method->undo->method, undoing, &options, NULL, NULL, NULL, NULL, NULL);
    }
    free(undoing);
    lks_message_free(message);
    free(metadata);
    if (sent)
        lockstock__rpc__v1__call__free_unpacked(sent, NULL);
}

/* Calls of the gRPC engine: a request becomes headers and DATA; headers, DATA and trailers become a Result.
 *
 * Invariant: the user data of a stream is its call while the call has its slot, then NULL. A call is in `sending`
 * exactly while its slot is SENDING and its end is packed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>
#include <lockstock/version.h>

#include "base/base64.h"
#include "client/wire/engine_grpc.h"
#include "net/grpc/grpc_status.h"

enum {
    FIELDS_MAX = 80,
    FIELD_BYTES = 32,                   /* what a field costs beyond its texts (RFC 7541, 4.1) */
    HEADER_BYTES_MAX = 64 * 1024,       /* of an answer */
    STREAM_MAX = INT32_MAX - (1 << 20), /* from then on the connection leaves; more calls may begin before it has */
};

static grpc_try *try_of(const slot *s)
{
    return s->operation;
}

/* ---- a call and its slot ---------------------------------------------------------------- */

/* NULL when out of memory. */
static grpc_try *take_try(h2 *h)
{
    grpc_try *t = TAILQ_FIRST(&h->grpc->idle);

    if (t) {
        TAILQ_REMOVE(&h->grpc->idle, t, in_list);
        return t;
    }
    return calloc(1, sizeof *t);
}

/* False when out of memory. Most answers arrive whole, one after the other, and need only one arena. */
static bool take_arena(grpc_try *t)
{
    grpc *transport = t->on->grpc;

    if (t->arena)
        return true;
    t->arena = transport->spare ? transport->spare : lks_rpc_arena_new();
    transport->spare = NULL;
    return t->arena;
}

static void give_arena(grpc_try *t)
{
    grpc *transport = t->on->grpc;

    if (transport->spare || !t->arena) {
        lks_rpc_arena_free(t->arena);
    } else {
        lks_rpc_arena_reset(t->arena);
        transport->spare = t->arena;
    }
}

static void stop_sending(grpc_try *t)
{
    if (t->end_at != 0 && t->slot->state == SLOT_SENDING)
        TAILQ_REMOVE(&t->on->sending, t, in_sending);
}

/* Separates the slot from the call. The call's answer stays until release(). */
static slot *detach(grpc_try *t)
{
    slot *s = t->slot;

    stop_sending(t);
    if (t->refusal)
        TAILQ_REMOVE(&t->on->refused, t, in_sending);
    s->operation = NULL;
    t->slot = NULL;
    if (t->on->session)
        nghttp2_session_set_stream_user_data(t->on->session, t->stream, NULL);
    if (t->on->packing == t)
        t->on->packing = NULL;
    TAILQ_REMOVE(&t->on->calls, t, in_list);
    return s;
}

static void release(grpc_try *t)
{
    grpc *transport = t->on->grpc;

    free(t->message);
    free(t->response);
    grpc_reader_end(&t->reader);
    give_arena(t);
    *t = (grpc_try){.slot = NULL};
    TAILQ_INSERT_HEAD(&transport->idle, t, in_list);
}

static void reset_stream(const grpc_try *t, uint32_t error)
{
    if (t->on->session && !t->refusal)
        nghttp2_submit_rst_stream(t->on->session, NGHTTP2_FLAG_NONE, t->stream, error);
}

static size_t bytes_of(const grpc_try *t)
{
    return GRPC_PREFIX_BYTES + t->payload.len;
}

static bool is_packed(const grpc_try *t)
{
    return t->packed == bytes_of(t);
}

/* ---- the request ------------------------------------------------------------------------ */

typedef struct fields {
    nghttp2_nv list[FIELDS_MAX];
    size_t n;
} fields;

static void put(fields *f, const char *name, const char *value, size_t len)
{
    f->list[f->n++] =
        (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), len, NGHTTP2_NV_FLAG_NONE};
}

static void put_text(fields *f, const char *name, const char *value)
{
    put(f, name, value, strlen(value));
}

/* Names that have a meaning in HTTP/2 or gRPC. */
static bool is_reserved(const char *key)
{
    static const char *const names[] = {"connection", "content-length",    "content-type",
                                        "host",       "keep-alive",        "proxy-connection",
                                        "te",         "transfer-encoding", "upgrade"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return strncmp(key, "grpc-", 5) == 0;
}

static bool is_text(const ProtobufCBinaryData *value)
{
    for (size_t i = 0; i < value->len; i++)
        if (value->data[i] < ' ' || value->data[i] > '~')
            return false;
    return true;
}

static bool is_binary(const char *key)
{
    size_t len = strlen(key);

    return len > 4 && strcmp(key + len - 4, "-bin") == 0;
}

/* False when out of memory. */
static bool put_base64(fields *f, grpc_try *t, const char *key, const ProtobufCBinaryData *value)
{
    size_t len = BASE64_ENCODED_BYTES(value->len);
    char *text = lks_rpc_arena_alloc(t->on->grpc->sending, len);

    if (!text)
        return false;
    base64_encode(value->data, value->len, text);
    while (len > 0 && text[len - 1] == '=')
        len--;
    put(f, key, text, len);
    return true;
}

/* False when out of memory. */
static bool refuse(grpc_try *t, const char *key, const char *why)
{
    if (take_arena(t))
        t->refusal = lks_rpc_arena_printf(t->arena, "options.metadata: %s is %s", key, why);
    return t->refusal;
}

/* False when out of memory. An entry that gRPC cannot carry refuses the call. */
static bool put_metadata(fields *f, grpc_try *t, const Lockstock__Rpc__V1__Call *call)
{
    for (size_t i = 0; i < call->n_metadata; i++) {
        const char *key = call->metadata[i]->key;
        const ProtobufCBinaryData *value = &call->metadata[i]->value;

        bool done = true;

        if (is_reserved(key))
            done = refuse(t, key, "reserved by gRPC");
        else if (is_binary(key))
            done = put_base64(f, t, key, value);
        else if (!is_text(value))
            done = refuse(t, key, "not printable ASCII");
        else
            put(f, key, (const char *)value->data, value->len);
        if (!done || t->refusal)
            return done;
    }
    return true;
}

static void put_head(fields *f, const h2 *h, const Lockstock__Rpc__V1__Call *call, char timeout[GRPC_TIMEOUT_BYTES])
{
    const struct link *link = h->grpc->link;
    const char *authority = h->stream.path ? "localhost" : link->address;

    grpc_format_timeout(call->timeout_ms, timeout);
    put_text(f, ":method", "POST");
    put_text(f, ":scheme", h->stream.tls_context ? "https" : "http");
    put_text(f, ":path", call->method);
    put_text(f, ":authority", link->server_name ? link->server_name : authority);
    put_text(f, "te", "trailers");
    put_text(f, "grpc-timeout", timeout);
    put_text(f, "content-type", "application/grpc");
    put_text(f, "user-agent", "lockstock/" LOCKSTOCK_VERSION);
    put_text(f, "grpc-accept-encoding", "identity,gzip");
    if (call->unanswered_before)
        put_text(f, "grpc-previous-rpc-attempts", "1");
}

static ssize_t on_output(nghttp2_session *session, int32_t stream, uint8_t *data, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    h2 *h = user;
    grpc_try *t = nghttp2_session_get_stream_user_data(session, stream);
    size_t n = 0;
    (void)source;

    if (!t)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    while (n < len && t->packed < GRPC_PREFIX_BYTES)
        data[n++] = t->prefix[t->packed++];
    size_t done = t->packed - GRPC_PREFIX_BYTES,
           more = t->payload.len - done < len - n ? t->payload.len - done : len - n;
    if (more > 0)
        memcpy(data + n, t->payload.data + done, more);
    t->packed += more;
    if (is_packed(t)) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        h->packing = t;
        free(t->message);
        t->message = NULL;
    }
    return (ssize_t)(n + more);
}

static bool submit(grpc_try *t, const Lockstock__Rpc__V1__Call *call)
{
    const nghttp2_data_provider provider = {.read_callback = on_output};
    char timeout[GRPC_TIMEOUT_BYTES];
    fields f = {.n = 0};

    put_head(&f, t->on, call, timeout);
    if (!put_metadata(&f, t, call))
        return false;
    if (t->refusal)
        return true;
    t->stream = nghttp2_submit_request(t->on->session, NULL, f.list, f.n, &provider, t);
    return t->stream > 0;
}

/* The one call of the message, or NULL when out of memory. */
static const Lockstock__Rpc__V1__Call *call_of(message *m, lks_rpc_arena *arena)
{
    Lockstock__Rpc__V1__Frame *frame;

    lks_rpc_arena_reset(arena);
    return lks_rpc_frame_decode(message_body(m), m->len, 0, arena, &frame, NULL) == LKS_OK ? frame->calls[0] : NULL;
}

bool grpc_try_send(slot *s, message *m)
{
    h2 *h = ((grpc *)s->link->transport)->current;
    grpc_try *t = take_try(h);
    const Lockstock__Rpc__V1__Call *call = t ? call_of(m, h->grpc->sending) : NULL;

    if (!t)
        return false;
    t->on = h;
    t->reader.bytes_max = s->link->message_bytes_max;
    if (call) {
        t->payload = call->payload;
        grpc_write_prefix(t->payload.len, t->prefix);
    }
    if (!call || !submit(t, call)) {
        release(t);
        return false;
    }
    t->slot = s;
    t->message = m;
    s->operation = t;
    TAILQ_INSERT_TAIL(&h->calls, t, in_list);
    if (t->refusal)
        TAILQ_INSERT_TAIL(&h->refused, t, in_sending);
    if (nghttp2_session_get_next_stream_id(h->session) > STREAM_MAX && h->state == H2_UP)
        h->state = H2_GOING;
    return true;
}

/* Packed bytes will be written, as long as the connection exists. */
bool grpc_try_withdraw(slot *s)
{
    grpc_try *t = try_of(s);
    const h2 *h = t->on;
    bool stands = s->engine_owned ? h->state != H2_OVER : link_is_up(s->link);

    if (is_packed(t) && (stands || t->end_at <= h->taken)) {
        stop_sending(t);
        return false;
    }
    reset_stream(t, NGHTTP2_CANCEL);
    detach(t);
    release(t);
    return true;
}

void grpc_try_forget(slot *s)
{
    grpc_try *t = try_of(s);

    reset_stream(t, NGHTTP2_CANCEL);
    detach(t);
    release(t);
}

/* ---- the end of a call ------------------------------------------------------------------ */

/* Ends the slot of a call that may have reached the server. */
static void answer(grpc_try *t, Lockstock__Rpc__V1__Result *result, const char *why)
{
    slot *s = t->slot;

    if (s->state == SLOT_SENDING) {
        stop_sending(t);
        slot_sent(s);
    }
    detach(t);
    slot_answer(s, result, why);
    release(t);
}

__attribute__((format(printf, 4, 5))) static void answer_error(grpc_try *t, lks_code code, lks_applied applied,
                                                               const char *format, ...)
{
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    char text[LKS_ERROR_MESSAGE_MAX];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    result.code = (uint32_t)code;
    result.applied = (Lockstock__Rpc__V1__Applied)applied;
    result.message = text;
    answer(t, &result, NULL);
}

void grpc_tries_refuse(h2 *h)
{
    grpc_try *t;

    while ((t = TAILQ_FIRST(&h->refused)))
        answer_error(t, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", t->refusal);
}

/* lockstock's servers say whether a failed call was applied; other servers may have applied it. */
static lks_applied applied_of(lks_rpc_slice text)
{
    if (text.len == 2 && memcmp(text.data, "NO", 2) == 0)
        return LKS_APPLIED_NO;
    return text.len == 3 && memcmp(text.data, "YES", 3) == 0 ? LKS_APPLIED_YES : LKS_APPLIED_MAYBE;
}

/* The answer has a grpc-status. */
static void answer_status(grpc_try *t)
{
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    grpc_details details = grpc_decode_details(t->details, t->arena);
    char *text = grpc_decode_message(t->text, t->arena);

    result.code = (uint32_t)grpc_parse_status(t->status);
    result.applied = (Lockstock__Rpc__V1__Applied)applied_of(t->applied);
    result.retry_after_ms = details.retry_after_ms;
    if (text)
        result.message = text;
    if (details.field)
        result.field = details.field;
    if (details.reason)
        result.reason = details.reason;
    result.n_headers = lks_rpc_put_metadata(&t->headers, t->arena, &result.headers);
    result.n_metadata = lks_rpc_put_metadata(&t->trailers, t->arena, &result.metadata);
    result.n_details = lks_rpc_put_metadata(&details.all, t->arena, &result.details);
    if (t->response)
        result.payload = (ProtobufCBinaryData){.len = t->response_len, .data = t->response};
    if (result.code == LKS_OK && !t->response)
        answer(t, NULL, "the answer has no message");
    else
        answer(t, &result, NULL);
}

/* The server has sent everything. */
static void conclude(grpc_try *t)
{
    if (!is_packed(t))
        reset_stream(t, NGHTTP2_CANCEL);
    if (t->status.data) {
        answer_status(t);
    } else if (t->http_status != 200) {
        answer_error(t, grpc_code_of_http(t->http_status), LKS_APPLIED_MAYBE, "HTTP status %u", t->http_status);
    } else {
        answer_error(t, LKS_UNKNOWN, LKS_APPLIED_MAYBE, "%s",
                     t->is_grpc ? "the answer has no grpc-status" : "the answer is not gRPC");
    }
}

/* The stream ended without the end of the answer. An incomplete request is not run by any server. */
static void broken_off(grpc_try *t, uint32_t error)
{
    bool unseen = error == NGHTTP2_REFUSED_STREAM || !is_packed(t);

    if (t->on->state >= H2_GOING && t->slot->state == SLOT_SENDING && unseen) {
        slot *s = detach(t);
        release(t);
        slot_end(s, SLOT_UNSENT, NULL, 0);
        return;
    }
    answer_error(t, grpc_code_of_reset(error), unseen ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE,
                 "the server reset the call: %s", nghttp2_http2_strerror(error));
}

static void give_up(grpc_try *t, lks_code code, const char *text)
{
    reset_stream(t, NGHTTP2_CANCEL);
    answer_error(t, code, LKS_APPLIED_MAYBE, "%s", text);
}

/* ---- the answer ------------------------------------------------------------------------- */

static bool is(const uint8_t *name, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(name, text, len) == 0;
}

static void keep(grpc_try *t, lks_rpc_slice *to, const uint8_t *value, size_t len)
{
    const char *copy = take_arena(t) ? lks_rpc_arena_copy(t->arena, value, len) : NULL;

    if (copy)
        *to = (lks_rpc_slice){copy, len};
}

/* A field that cannot be kept is dropped. */
static void keep_metadata(grpc_try *t, lks_rpc_list *to, const uint8_t *name, size_t name_len, const uint8_t *value,
                          size_t len)
{
    if (!take_arena(t))
        return;
    char *key = lks_rpc_arena_copy(t->arena, name, name_len), *bytes = lks_rpc_arena_copy(t->arena, value, len);
    bool is_binary = name_len > 4 && memcmp(name + name_len - 4, "-bin", 4) == 0;

    if (!to->items)
        to->items = lks_rpc_arena_alloc(t->arena, GRPC_METADATA_MAX * sizeof *to->items);
    if (!key || !bytes || !to->items || to->n == GRPC_METADATA_MAX)
        return;
    if (is_binary && !base64_decode((const char *)value, len, (uint8_t *)bytes, &len))
        return;
    to->items[to->n++] = (lks_rpc_metadata){.key = key, .value = {bytes, len}};
}

static void take_field(grpc_try *t, lks_rpc_list *metadata, const uint8_t *name, size_t name_len, const uint8_t *value,
                       size_t len)
{
    static const char type[] = "application/grpc";

    if (is(name, name_len, ":status"))
        t->http_status = (unsigned)strtoul((const char *)value, NULL, 10); /* nghttp2 checked it, and it has a NUL */
    else if (is(name, name_len, "content-type"))
        t->is_grpc = len >= sizeof type - 1 && memcmp(value, type, sizeof type - 1) == 0;
    else if (is(name, name_len, "grpc-encoding"))
        t->reader.gzip = is(value, len, "gzip");
    else if (is(name, name_len, "grpc-status"))
        keep(t, &t->status, value, len);
    else if (is(name, name_len, "grpc-message"))
        keep(t, &t->text, value, len);
    else if (is(name, name_len, "grpc-status-details-bin"))
        keep(t, &t->details, value, len);
    else if (is(name, name_len, "lockstock-applied"))
        keep(t, &t->applied, value, len);
    else if (name[0] != ':' && !(name_len > 5 && memcmp(name, "grpc-", 5) == 0))
        keep_metadata(t, metadata, name, name_len, value, len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    grpc_try *t = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    (void)user;

    if (!t)
        return 0;
    t->header_bytes += name_len + len + FIELD_BYTES;
    if (t->header_bytes > HEADER_BYTES_MAX)
        give_up(t, LKS_RESOURCE_EXHAUSTED, "the headers of the answer are too long");
    else
        take_field(t, frame->hd.flags & NGHTTP2_FLAG_END_STREAM ? &t->trailers : &t->headers, name, name_len, value,
                   len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *user)
{
    grpc_try *t = nghttp2_session_get_stream_user_data(session, stream);
    lks_error error;
    (void)flags;
    (void)user;

    if (!t || !t->is_grpc) /* an answer that is not gRPC is not read */
        return 0;
    while (len > 0) {
        uint8_t *response;
        size_t used, response_len;
        if (grpc_read(&t->reader, data, len, &used, &response, &response_len, &error) != LKS_OK) {
            give_up(t, error.code == LKS_UNIMPLEMENTED ? LKS_INTERNAL : error.code, error.message);
            return 0;
        }
        if (response && t->response) {
            free(response);
            give_up(t, LKS_INTERNAL, "the answer to a unary call has two messages");
            return 0;
        }
        if (response) {
            t->response = response;
            t->response_len = response_len;
        }
        data += used;
        len -= used;
    }
    return 0;
}

static void take_settings(h2 *h)
{
    struct link *link = h->grpc->link;

    if (h->state > H2_UP)
        return;
    link->taken_max = nghttp2_session_get_remote_settings(h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (h->state == H2_CONNECTING) {
        h->state = H2_UP;
        link_up(link);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    h2 *h = user;
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;

    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        take_settings(h);
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        h->state = h->state < H2_GOING ? H2_GOING : h->state;
    } else if (may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        grpc_try *t = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (t)
            conclude(t);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
    grpc_try *t = nghttp2_session_get_stream_user_data(session, stream);
    (void)user;

    if (t)
        broken_off(t, error);
    return 0;
}

bool grpc_calls_listen(h2 *h)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    bool made = nghttp2_session_client_new(&h->session, callbacks, h) == 0;
    nghttp2_session_callbacks_del(callbacks);
    return made;
}

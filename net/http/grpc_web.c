#include "net/http/grpc_web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "net/grpc/grpc_message.h"
#include "net/grpc/grpc_text.h"
#include "net/gzip.h"
#include "net/http/exchange_state.h"

enum { TRAILERS = 0x80 };

static const char *const types[] = {"application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json",
                                    "application/grpc-web-text", "application/grpc-web-text+proto"};

bool grpc_web_is_type(http_exchange *e, lks_rpc_slice type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!exchange_is_type(type, types[i]))
            continue;
        e->is_json = strstr(types[i], "+json");
        e->is_text = strstr(types[i], "-text");
        return true;
    }
    return false;
}

static const char *type_of(const http_exchange *e)
{
    return types[e->is_text ? 4 : e->is_json ? 2 : 1];
}

/* ---- the request ------------------------------------------------------------------------------ */

static bool begin(http_exchange *e, lks_error *error)
{
    lks_rpc_slice timeout = e->known[KNOWN_GRPC_TIMEOUT];

    e->takes_gzip = http_list_has(e->known[KNOWN_GRPC_ACCEPT_ENCODING], "gzip");
    if (timeout.len > 0 && !grpc_parse_timeout(timeout.data, timeout.len, &e->timeout_ms))
        return exchange_invalid(error, "grpc-timeout: not a timeout");
    return true;
}

/* Decodes base64 that consists of pieces, each of which may be padded. */
static bool decode_text(const char *from, size_t len, uint8_t *to, size_t *ret_len)
{
    size_t n;

    *ret_len = 0;
    while (len > 0) {
        const char *padding = memchr(from, '=', len);
        size_t piece = padding ? (size_t)(padding - from) : len;
        while (piece < len && from[piece] == '=')
            piece++;
        if (!base64_decode(from, piece, to + *ret_len, &n))
            return false;
        *ret_len += n;
        from += piece;
        len -= piece;
    }
    return true;
}

static bool read_message(http_exchange *e, lks_error *error)
{
    grpc_reader reader = {.bytes_max = e->site->message_bytes_max};
    const uint8_t *body = e->body;
    size_t len = e->body_len, used = 0, message_len = 0;
    uint8_t *message = NULL;

    grpc_reader_encoding(&reader, e->known[KNOWN_GRPC_ENCODING]);
    if (e->is_text) {
        uint8_t *bytes = lks_rpc_arena_alloc(e->arena, len + 2);
        if (!bytes || !decode_text((const char *)body, len, bytes, &len))
            return exchange_invalid(error, "the body must be base64");
        body = bytes;
    }
    lks_code code = len > 0 ? grpc_read(&reader, body, len, &used, &message, &message_len, error) : LKS_OK;
    grpc_reader_end(&reader);
    if (code != LKS_OK)
        return false;
    if (!message || used != len) {
        free(message);
        lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "a unary call must have exactly one message");
        return false;
    }
    const void *copy = lks_rpc_arena_copy(e->arena, message, message_len);
    free(message);
    if (!copy) {
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        return false;
    }
    return exchange_take(e, copy, message_len, error);
}

/* ---- the answer ------------------------------------------------------------------------------- */

/* Trailers, as lines of "name: value". */
typedef struct trailers {
    lks_rpc_arena *arena;
    char *data;
    size_t len, room;
} trailers;

static void put(trailers *t, const char *name, const char *value, size_t len)
{
    size_t name_len = strlen(name), wanted = t->len + name_len + len + 4;

    if (wanted > t->room) {
        char *grown = lks_rpc_arena_alloc(t->arena, 2 * wanted);
        if (!grown)
            return;
        if (t->len > 0)
            memcpy(grown, t->data, t->len);
        t->data = grown;
        t->room = 2 * wanted;
    }
    memcpy(t->data + t->len, name, name_len);
    memcpy(t->data + t->len + name_len, ": ", 2);
    memcpy(t->data + t->len + name_len + 2, value, len);
    memcpy(t->data + wanted - 2, "\r\n", 2);
    t->len = wanted;
}

static void put_status(trailers *t, const http_exchange *e, const lks_error *error)
{
    const char *message = e->added->text ? e->added->text : error->message;
    char *escaped = lks_rpc_arena_alloc(t->arena, 3 * strlen(message) + 1);
    char code[12];
    size_t len;

    put(t, "grpc-status", code, (size_t)snprintf(code, sizeof code, "%d", (int)error->code));
    if (error->code == LKS_OK || !escaped)
        return;
    put(t, "grpc-message", escaped, grpc_encode_message(message, escaped));
    const char *details = grpc_encode_details(error, &e->added->details, t->arena, &len);
    if (details)
        put(t, "grpc-status-details-bin", details, len);
}

/* The message, which may be absent, and the trailers. False: out of memory. */
static bool write_body(http_exchange *e, const uint8_t *framed, size_t framed_len, const lks_error *error,
                       http_answer *answer)
{
    http_fields fields = TAILQ_HEAD_INITIALIZER(fields);
    const http_field *field;
    trailers t = {.arena = e->arena};

    put_status(&t, e, error);
    http_fields_put_hints(&fields, e->arena, e->hints, error->code == LKS_OK ? NULL : error);
    http_fields_put(&fields, e->arena, "", &e->added->trailers);
    TAILQ_FOREACH(field, &fields, next)
        put(&t, field->name, field->value, field->value_len);
    size_t len = framed_len + GRPC_PREFIX_BYTES + t.len;
    uint8_t *body = lks_rpc_arena_alloc(e->arena, len + 1);
    if (!body || !t.data)
        return false;
    if (framed_len > 0)
        memcpy(body, framed, framed_len);
    grpc_write_prefix(t.len, body + framed_len);
    body[framed_len] = TRAILERS;
    memcpy(body + framed_len + GRPC_PREFIX_BYTES, t.data, t.len);
    answer->status = 200;
    answer->body = body;
    answer->len = len;
    exchange_set(e, "content-type", type_of(e));
    if (!e->is_text)
        return true;
    char *text = lks_rpc_arena_alloc(e->arena, BASE64_ENCODED_BYTES(len) + 1);
    if (!text)
        return false;
    base64_encode(body, len, text);
    answer->body = text;
    answer->len = BASE64_ENCODED_BYTES(len);
    return true;
}

static bool write_message(http_exchange *e, const void *message, size_t len, http_answer *answer, lks_error *error)
{
    const lks_error ok = {0};
    size_t framed_len;
    uint8_t *framed = grpc_write(message, len, e->takes_gzip && len >= GZIP_BYTES_MIN, &framed_len);

    if (e->takes_gzip)
        exchange_set(e, "grpc-encoding", "gzip");
    exchange_set(e, "grpc-accept-encoding", "identity,gzip");
    http_fields_put(&e->answer_fields, e->arena, "", &e->added->headers);
    bool written = framed && write_body(e, framed, framed_len, &ok, answer);
    free(framed);
    if (!written)
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, lks_rpc_applied_of(e->call), "out of memory");
    return written;
}

static void fail(http_exchange *e, unsigned status, const lks_error *error, http_answer *answer)
{
    (void)status;
    if (!write_body(e, NULL, 0, error, answer))
        answer->status = 503;
}

const http_protocol grpc_web_protocol = {.begin = begin, .read = read_message, .write = write_message, .fail = fail};

#include "net/http/connect.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/number.h"
#include "base/quote_json.h"
#include "net/gzip.h"
#include "net/grpc/grpc_status.h"
#include "net/grpc/grpc_text.h"
#include "net/http/exchange_state.h"

enum { TIMEOUT_DIGITS_MAX = 10 };

typedef struct coded {
    unsigned status;
    const char *name;
} coded;

static const coded codes[] = {
    [LKS_OK] = {200, "ok"},
    [LKS_CANCELLED] = {499, "canceled"},
    [LKS_UNKNOWN] = {500, "unknown"},
    [LKS_INVALID_ARGUMENT] = {400, "invalid_argument"},
    [LKS_DEADLINE_EXCEEDED] = {504, "deadline_exceeded"},
    [LKS_NOT_FOUND] = {404, "not_found"},
    [LKS_ALREADY_EXISTS] = {409, "already_exists"},
    [LKS_PERMISSION_DENIED] = {403, "permission_denied"},
    [LKS_RESOURCE_EXHAUSTED] = {429, "resource_exhausted"},
    [LKS_FAILED_PRECONDITION] = {400, "failed_precondition"},
    [LKS_ABORTED] = {409, "aborted"},
    [LKS_OUT_OF_RANGE] = {400, "out_of_range"},
    [LKS_UNIMPLEMENTED] = {501, "unimplemented"},
    [LKS_INTERNAL] = {500, "internal"},
    [LKS_UNAVAILABLE] = {503, "unavailable"},
    [LKS_DATA_LOSS] = {500, "data_loss"},
    [LKS_UNAUTHENTICATED] = {401, "unauthenticated"},
};

static const coded *coded_as(lks_code code)
{
    return &codes[(size_t)code < sizeof codes / sizeof codes[0] ? code : LKS_UNKNOWN];
}

/* ---- the request ------------------------------------------------------------------------------ */

/* 1 to 10 digits. A limit above 49 days is cut to 49 days. */
static bool read_timeout(lks_rpc_slice text, uint32_t *ms)
{
    int64_t value = text.len > TIMEOUT_DIGITS_MAX ? -1 : number_parse(text.data, text.len, INT64_MAX);

    if (value < 0)
        return false;
    *ms = value > UINT32_MAX ? UINT32_MAX : value == 0 ? 1 : (uint32_t)value;
    return true;
}

/* *gzip: whether the message is compressed. */
static bool read_compression(const char *name, lks_rpc_slice value, bool *gzip, lks_error *error)
{
    *gzip = value.len == 4 && memcmp(value.data, "gzip", 4) == 0;
    if (*gzip || value.len == 0 || (value.len == 8 && memcmp(value.data, "identity", 8) == 0))
        return true;
    lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "%s: only gzip and identity are supported", name);
    return false;
}

static bool begin(http_exchange *e, lks_error *error)
{
    lks_rpc_slice version = e->known[KNOWN_CONNECT_VERSION];
    lks_rpc_slice timeout = e->known[KNOWN_CONNECT_TIMEOUT];

    e->takes_gzip = http_list_has(e->known[KNOWN_ACCEPT_ENCODING], "gzip");
    if (version.len > 0 && strcmp(version.data, "1") != 0)
        return exchange_invalid(error, "connect-protocol-version: must be 1");
    if (timeout.len > 0 && !read_timeout(timeout, &e->timeout_ms))
        return exchange_invalid(error, "connect-timeout-ms: must be a positive number of up to 10 digits");
    return read_compression("content-encoding", e->known[KNOWN_ENCODING], &e->is_gzip, error);
}

/* ---- GET --------------------------------------------------------------------------------------- */

typedef struct query {
    lks_rpc_slice message, encoding, base64, compression, connect;
} query;

/* Decodes a value of a query into the arena: %xx, and + for a space. */
static bool decode(http_exchange *e, const char *text, size_t len, lks_rpc_slice *ret)
{
    char *copy = lks_rpc_arena_copy(e->arena, text, len);

    if (!copy)
        return false;
    for (size_t i = 0; i < len; i++)
        if (copy[i] == '+')
            copy[i] = ' ';
    ret->data = copy;
    ret->len = percent_decode(copy, len, copy);
    if (ret->len == SIZE_MAX)
        return false;
    copy[ret->len] = '\0';
    return true;
}

/* Unknown parameters are ignored, as the protocol requires. */
static bool read_query(http_exchange *e, query *q, lks_error *error)
{
    const struct {
        const char *name;
        lks_rpc_slice *value;
    } known_ones[] = {{"message", &q->message},
                      {"encoding", &q->encoding},
                      {"base64", &q->base64},
                      {"compression", &q->compression},
                      {"connect", &q->connect}};

    for (const char *at = e->query; *at;) {
        size_t len = strcspn(at, "&"), name_len = strcspn(at, "=&");
        for (size_t i = 0; i < sizeof known_ones / sizeof known_ones[0]; i++) {
            if (strlen(known_ones[i].name) != name_len || memcmp(known_ones[i].name, at, name_len) != 0)
                continue;
            size_t from = name_len < len ? name_len + 1 : len;
            if (known_ones[i].value->data || !decode(e, at + from, len - from, known_ones[i].value)) {
                lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", known_ones[i].name,
                              known_ones[i].value->data ? "given more than once" : "not a percent-encoded text");
                return false;
            }
        }
        at += len + (at[len] == '&');
    }
    return true;
}

static bool has(lks_rpc_slice value, const char *wanted)
{
    return value.data && strcmp(value.data, wanted) == 0;
}

static bool read_get(http_exchange *e, lks_rpc_slice *message, lks_error *error)
{
    query q = {0};

    if (!read_query(e, &q, error))
        return false;
    if (q.connect.data && !has(q.connect, "v1"))
        return exchange_invalid(error, "connect: must be v1");
    e->is_json = has(q.encoding, "json");
    if (!e->is_json && !has(q.encoding, "proto"))
        return exchange_invalid(error, "encoding: must be json or proto");
    if (!q.message.data)
        return exchange_invalid(error, "message: must be given");
    if (!read_compression("compression", q.compression, &e->is_gzip, error))
        return false;
    *message = q.message;
    if (!q.base64.data)
        return true;
    if (!has(q.base64, "1"))
        return exchange_invalid(error, "base64: must be 1");
    uint8_t *bytes = lks_rpc_arena_alloc(e->arena, q.message.len + 2);
    message->data = (const char *)bytes;
    if (!bytes || !base64_decode(q.message.data, q.message.len, bytes, &message->len))
        return exchange_invalid(error, "message: must be base64");
    return true;
}

static bool read_message(http_exchange *e, lks_error *error)
{
    lks_rpc_slice message = {.data = (const char *)e->body, .len = e->body_len};
    const void *data;

    if (e->verb == VERB_GET && !read_get(e, &message, error))
        return false;
    data = message.data;
    if (e->is_gzip && message.len > 0 && !exchange_inflate(e, message.data, message.len, &data, &message.len, error)) {
        if (error->code == LKS_INTERNAL)
            exchange_invalid(error, "content-encoding: the message is not gzip");
        return false;
    }
    return exchange_take(e, data, message.len, error);
}

/* ---- the answer ---------------------------------------------------------------------------------- */

/* Metadata after the message travels as "trailer-NAME". */
static void put_added(http_exchange *e)
{
    http_fields_put(&e->answer_fields, e->arena, "", &e->added->headers);
    http_fields_put(&e->answer_fields, e->arena, "trailer-", &e->added->trailers);
}

static bool write_message(http_exchange *e, const void *message, size_t len, http_answer *answer, lks_error *error)
{
    (void)error;

    exchange_set(e, "content-type", e->is_json ? "application/json" : "application/proto");
    answer->body = message;
    answer->len = len;
    exchange_pack(e, answer);
    http_fields_put_hints(&e->answer_fields, e->arena, e->hints, NULL);
    put_added(e);
    return true;
}

/* ---- errors -------------------------------------------------------------------------------------- */

/* Writes into memory that the arena owns and that is large enough. */
typedef struct text {
    char *at;
} text;

static void put(text *t, const char *what)
{
    size_t len = strlen(what);

    memcpy(t->at, what, len);
    t->at += len;
}

enum { RETRY_BYTES = 32 };

static void put_string(text *t, const char *what)
{
    t->at += quote_json(what, t->at);
}

static void put_detail(text *t, const lks_rpc_metadata *detail)
{
    const char *slash = strrchr(detail->key, '/');
    size_t len = BASE64_ENCODED_BYTES(detail->value.len);

    put(t, "{\"type\":");
    put_string(t, slash ? slash + 1 : detail->key);
    put(t, ",\"value\":\"");
    base64_encode((const uint8_t *)detail->value.data, detail->value.len, t->at);
    while (len > 0 && t->at[len - 1] == '=')
        len--;
    t->at += len;
    put(t, "\"}");
}

/* Repeats the `details`, which are Protobuf, as plain JSON for curl and web pages. Connect clients ignore these
 * fields. */
static void put_plainly(text *t, const lks_error *error)
{
    if (error->field[0]) {
        put(t, ",\"field\":");
        put_string(t, error->field);
    }
    if (error->reason != LKS_REASON_NONE) {
        put(t, ",\"reason\":");
        put_string(t, lks_reason_name(error->reason));
    }
    if (error->retry_after_ms > 0)
        t->at += snprintf(t->at, RETRY_BYTES, ",\"retryAfterMs\":%u", error->retry_after_ms);
    put(t, ",\"applied\":");
    put_string(t, lks_applied_name(error->applied));
}

static size_t write_error(http_exchange *e, const lks_error *error, char **ret)
{
    enum { FIXED = 256 };
    const char *message = e->added->text ? e->added->text : error->message;
    lks_rpc_slice status = {0};
    grpc_details details = {0};
    size_t bytes = FIXED + QUOTE_JSON_BYTES(strlen(message)) + QUOTE_JSON_BYTES(strlen(error->field));

    status.data = grpc_encode_details(error, &e->added->details, e->arena, &status.len);
    if (status.data)
        details = grpc_decode_details(status, e->arena);
    for (size_t i = 0; i < details.all.n; i++)
        bytes += FIXED + QUOTE_JSON_BYTES(strlen(details.all.items[i].key)) +
                 BASE64_ENCODED_BYTES(details.all.items[i].value.len);
    text t = {.at = *ret = lks_rpc_arena_alloc(e->arena, bytes)};
    if (!t.at)
        return 0;
    put(&t, "{\"code\":");
    put_string(&t, coded_as(error->code)->name);
    put(&t, ",\"message\":");
    put_string(&t, message);
    put_plainly(&t, error);
    for (size_t i = 0; i < details.all.n; i++) {
        put(&t, i == 0 ? ",\"details\":[" : ",");
        put_detail(&t, &details.all.items[i]);
    }
    put(&t, details.all.n > 0 ? "]}\n" : "}\n");
    return (size_t)(t.at - *ret);
}

static void fail(http_exchange *e, unsigned status, const lks_error *error, http_answer *answer)
{
    char *body;

    answer->status = status > 0 ? status : coded_as(error->code)->status;
    answer->len = write_error(e, error, &body);
    answer->body = body;
    exchange_set(e, "content-type", "application/json");
    http_fields_put_hints(&e->answer_fields, e->arena, e->hints, error);
    if (answer->status == 401)
        exchange_set(e, "www-authenticate", "Bearer");
    if (error->retry_after_ms > 0)
        exchange_set(e, "retry-after", lks_rpc_arena_printf(e->arena, "%u", (error->retry_after_ms + 999) / 1000));
    put_added(e);
}

const http_protocol connect_protocol = {.begin = begin, .read = read_message, .write = write_message, .fail = fail};

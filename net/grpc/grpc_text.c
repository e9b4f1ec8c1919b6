/* Invariant: the details of an lks_error fit RAW_MAX, because its message and field are bounded. Called by
 * grpc_call.c. */
#include "net/grpc/grpc_text.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/number.h"
#include "base/varint.h"

/* ---- timeouts ----------------------------------------------------------------------- */

enum { TIMEOUT_DIGITS_MAX = 8 };

bool grpc_parse_timeout(const char *text, size_t len, uint32_t *ms)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', UINT64_C(3600000000000)},
                 {'M', UINT64_C(60000000000)},
                 {'S', 1000000000},
                 {'m', 1000000},
                 {'u', 1000},
                 {'n', 1}};
    int64_t value = len < 2 || len > TIMEOUT_DIGITS_MAX + 1 ? -1 : number_parse(text, len - 1, INT64_MAX);

    if (value < 0)
        return false;
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        if (units[u].unit == text[len - 1]) {
            uint64_t whole = ((uint64_t)value * units[u].ns + 999999) / 1000000;
            *ms = whole == 0 ? 1 : whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
            return true;
        }
    }
    return false;
}

/* ---- messages ------------------------------------------------------------------------- */

size_t grpc_encode_message(const char *message, char *out)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    for (const unsigned char *c = (const unsigned char *)message; *c; c++) {
        if (*c >= ' ' && *c <= '~' && *c != '%') {
            out[n++] = (char)*c;
        } else {
            out[n++] = '%';
            out[n++] = hex[*c >> 4];
            out[n++] = hex[*c & 15];
        }
    }
    return n;
}

/* ---- details: a few fields of Protobuf, by hand ------------------------------------------- */

enum { VARINT = 0, BYTES = 2, RAW_MAX = GRPC_DETAILS_BYTES_MAX / 4 * 3, ANY_BYTES = 24 /* of tags and lengths */ };

typedef struct writer {
    unsigned char *data; /* has room */
    size_t len;
} writer;

#define WRITER ((writer){.data = (unsigned char[RAW_MAX]){0}})

static void put_varint(writer *w, uint64_t value)
{
    const unsigned char *end = varint_put(w->data + w->len, value);

    w->len = (size_t)(end - w->data);
}

static void put_number(writer *w, unsigned field, uint64_t value)
{
    put_varint(w, field << 3 | VARINT);
    put_varint(w, value);
}

static void put_bytes(writer *w, unsigned field, const void *data, size_t len)
{
    put_varint(w, field << 3 | BYTES);
    put_varint(w, len);
    memcpy(w->data + w->len, data, len);
    w->len += len;
}

static void put_text(writer *w, unsigned field, const char *text)
{
    put_bytes(w, field, text, strlen(text));
}

/* Status.details: an Any of the message in `value`. */
static void put_detail(writer *status, const char *type, const writer *value)
{
    char url[64];
    writer any = WRITER;

    snprintf(url, sizeof url, "type.googleapis.com/google.rpc.%s", type);
    put_text(&any, 1, url);
    put_bytes(&any, 2, value->data, value->len);
    put_bytes(status, 3, any.data, any.len);
}

/* BadRequest.FieldViolation: its description is the message without the leading field name. */
static void put_bad_request(writer *status, const lks_error *error)
{
    size_t len = strlen(error->field);
    bool first = strncmp(error->message, error->field, len) == 0 && strncmp(error->message + len, ": ", 2) == 0;
    writer violation = WRITER, request = WRITER;

    put_bytes(&violation, 1, error->field, len);
    put_text(&violation, 2, first ? error->message + len + 2 : error->message);
    put_bytes(&request, 1, violation.data, violation.len);
    put_detail(status, "BadRequest", &request);
}

static void put_error_info(writer *status, lks_reason reason)
{
    writer info = WRITER;

    put_text(&info, 1, lks_reason_name(reason));
    put_text(&info, 2, "lockstock");
    put_detail(status, "ErrorInfo", &info);
}

static void put_retry_info(writer *status, uint32_t ms)
{
    writer duration = WRITER, info = WRITER;

    put_number(&duration, 1, ms / 1000);
    put_number(&duration, 2, (uint64_t)(ms % 1000) * 1000000);
    put_bytes(&info, 1, duration.data, duration.len);
    put_detail(status, "RetryInfo", &info);
}

/* False: the error has no such details. */
static bool put_own_details(writer *status, const lks_error *error)
{
    put_number(status, 1, (uint64_t)error->code);
    put_text(status, 2, error->message);
    if (error->field[0])
        put_bad_request(status, error);
    if (error->reason != LKS_REASON_NONE)
        put_error_info(status, error->reason);
    if (error->retry_after_ms > 0)
        put_retry_info(status, error->retry_after_ms);
    return error->field[0] || error->reason != LKS_REASON_NONE || error->retry_after_ms > 0;
}

static size_t any_bytes(const lks_rpc_metadata *detail)
{
    return ANY_BYTES + strlen(detail->key) + detail->value.len;
}

char *grpc_encode_details(const lks_error *error, const lks_rpc_list *more, lks_rpc_arena *arena, size_t *len)
{
    writer status = WRITER;
    size_t bytes = RAW_MAX;

    if (!put_own_details(&status, error) && more->n == 0)
        return NULL;
    for (size_t i = 0; i < more->n; i++)
        bytes += any_bytes(&more->items[i]);
    writer all = {.data = lks_rpc_arena_alloc(arena, bytes), .len = status.len};
    char *out = lks_rpc_arena_alloc(arena, BASE64_ENCODED_BYTES(bytes) + 1);
    if (!all.data || !out)
        return NULL;
    memcpy(all.data, status.data, status.len);
    for (size_t i = 0; i < more->n; i++) {
        const lks_rpc_metadata *detail = &more->items[i];
        writer any = {.data = lks_rpc_arena_alloc(arena, any_bytes(detail))};
        if (!any.data)
            return NULL;
        put_text(&any, 1, detail->key);
        put_bytes(&any, 2, detail->value.data, detail->value.len);
        put_bytes(&all, 3, any.data, any.len);
    }
    base64_encode(all.data, all.len, out);
    for (*len = BASE64_ENCODED_BYTES(all.len); *len > 0 && out[*len - 1] == '=';)
        --*len;
    return out;
}

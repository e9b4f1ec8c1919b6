#include "net/grpc/grpc_status.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/number.h"
#include "rpc/wire.h"

enum { TIMEOUT_MS_MAX = 99999999 };

void grpc_format_timeout(uint32_t ms, char out[GRPC_TIMEOUT_BYTES])
{
    if (ms <= TIMEOUT_MS_MAX)
        snprintf(out, GRPC_TIMEOUT_BYTES, "%um", ms);
    else
        snprintf(out, GRPC_TIMEOUT_BYTES, "%uS", ms / 1000 + 1);
}

/* ---- codes ---------------------------------------------------------------------------- */

lks_code grpc_parse_status(lks_rpc_slice text)
{
    int64_t code = text.len > 2 ? -1 : number_parse(text.data, text.len, LKS_UNAUTHENTICATED);

    return code < 0 ? LKS_UNKNOWN : (lks_code)code;
}

lks_code grpc_code_of_http(unsigned status)
{
    switch (status) {
    case 400:
        return LKS_INTERNAL;
    case 401:
        return LKS_UNAUTHENTICATED;
    case 403:
        return LKS_PERMISSION_DENIED;
    case 404:
        return LKS_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return LKS_UNAVAILABLE;
    default:
        return LKS_UNKNOWN;
    }
}

lks_code grpc_code_of_reset(uint32_t error)
{
    enum { REFUSED_STREAM = 7, CANCEL = 8, ENHANCE_YOUR_CALM = 11, INADEQUATE_SECURITY = 12 };

    switch (error) {
    case REFUSED_STREAM:
        return LKS_UNAVAILABLE;
    case CANCEL:
        return LKS_CANCELLED;
    case ENHANCE_YOUR_CALM:
        return LKS_RESOURCE_EXHAUSTED;
    case INADEQUATE_SECURITY:
        return LKS_PERMISSION_DENIED;
    default:
        return LKS_INTERNAL;
    }
}

/* ---- texts ---------------------------------------------------------------------------- */

char *grpc_decode_message(lks_rpc_slice text, lks_rpc_arena *arena)
{
    char *copy = lks_rpc_arena_copy(arena, text.data, text.len);
    size_t len = copy ? percent_decode(text.data, text.len, copy) : 0;

    if (copy && len == SIZE_MAX)
        memcpy(copy, text.data, text.len);
    else if (copy)
        copy[len] = '\0';
    return copy;
}

/* ---- details -------------------------------------------------------------------------- */

/* The next field with bytes. False at the end, or when the rest is not Protobuf. */
static bool next_bytes(wire *from, uint32_t *number, wire *bytes)
{
    wire_type type;

    while (from->at < from->end && wire_tag(from, number, &type)) {
        if (type == WIRE_LENGTH)
            return wire_prefixed(from, bytes);
        if (!wire_skip(from, type))
            return false;
    }
    return false;
}

/* The first field of that number; empty when there is none. */
static wire find_bytes(wire from, uint32_t wanted)
{
    uint32_t number;
    wire bytes;

    while (next_bytes(&from, &number, &bytes))
        if (number == wanted)
            return bytes;
    return (wire){0};
}

static uint64_t find_number(wire from, uint32_t wanted)
{
    uint32_t number;
    uint64_t value;
    wire_type type;

    while (from.at < from.end && wire_tag(&from, &number, &type)) {
        if (number == wanted && type == WIRE_VARINT)
            return wire_varint(&from, &value) ? value : 0;
        if (!wire_skip(&from, type))
            return 0;
    }
    return 0;
}

static size_t size_of(wire bytes)
{
    return (size_t)(bytes.end - bytes.at);
}

static char *copy_text(wire text, lks_rpc_arena *arena)
{
    return size_of(text) > 0 ? lks_rpc_arena_copy(arena, text.at, size_of(text)) : NULL;
}

static bool equals(wire text, const char *what)
{
    return size_of(text) == strlen(what) && memcmp(text.at, what, strlen(what)) == 0;
}

static uint32_t milliseconds(wire duration)
{
    uint64_t seconds = find_number(duration, 1), nanoseconds = find_number(duration, 2);

    if (seconds > UINT32_MAX / 1000 - 1)
        return seconds > INT64_MAX ? 0 : UINT32_MAX; /* negative: ignored */
    return (uint32_t)(seconds * 1000 + (nanoseconds < 1000000000 ? nanoseconds / 1000000 : 0));
}

static void keep_detail(wire type, wire value, lks_rpc_arena *arena, lks_rpc_list *to)
{
    if (!to->items)
        to->items = lks_rpc_arena_alloc(arena, GRPC_METADATA_MAX * sizeof *to->items);
    const char *key = lks_rpc_arena_copy(arena, size_of(type) > 0 ? (const char *)type.at : "", size_of(type));
    if (to->items && key && to->n < GRPC_METADATA_MAX)
        to->items[to->n++] = (lks_rpc_metadata){.key = key, .value = {(const char *)value.at, size_of(value)}};
}

static void take_detail(wire any, lks_rpc_arena *arena, grpc_details *ret)
{
    static const char prefix[] = "type.googleapis.com/google.rpc.";
    wire type = find_bytes(any, 1), value = find_bytes(any, 2);

    keep_detail(type, value, arena, &ret->all);
    if (size_of(type) < sizeof prefix || memcmp(type.at, prefix, sizeof prefix - 1) != 0)
        return;
    type.at += sizeof prefix - 1;
    if (equals(type, "BadRequest") && !ret->field)
        ret->field = copy_text(find_bytes(find_bytes(value, 1), 1), arena);
    else if (equals(type, "ErrorInfo") && equals(find_bytes(value, 2), "lockstock"))
        ret->reason = copy_text(find_bytes(value, 1), arena);
    else if (equals(type, "RetryInfo"))
        ret->retry_after_ms = milliseconds(find_bytes(value, 1));
}

grpc_details grpc_decode_details(lks_rpc_slice text, lks_rpc_arena *arena)
{
    enum { DETAILS = 3 };
    grpc_details ret = {0};
    uint8_t *bytes = lks_rpc_arena_alloc(arena, text.len + 2);
    size_t len;
    uint32_t number;
    wire value;

    if (!bytes || !base64_decode(text.data, text.len, bytes, &len))
        return ret;
    for (wire status = {bytes, bytes + len}; next_bytes(&status, &number, &value);)
        if (number == DETAILS)
            take_detail(value, arena, &ret);
    return ret;
}

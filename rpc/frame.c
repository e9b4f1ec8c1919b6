/* A message is scanned before it is unpacked, so that memory is proportional to the received bytes and not to
 * claimed lengths. protobuf-c packs. Unpacking is done here: it copies only texts, which need a NUL. */
#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/scan.h>

#include "wire.h"

enum {
    ENVELOPE_DEPTH = 3, /* Frame, Call, Metadata */
    METADATA_MAX = 32,  /* for each call, on average over the frame */
    UNKNOWN_MAX = 1000,
};

static lks_rpc_scan_limits envelope_limits(size_t len, size_t n_calls)
{
    return (lks_rpc_scan_limits){
        .depth = ENVELOPE_DEPTH,
        .elements = (uint32_t)(n_calls * (1 + METADATA_MAX)),
        .string_bytes = len,
        .bytes_bytes = len,
        .unknown = UNKNOWN_MAX,
        .open_enums = true,
    };
}

/* ---- unpacking: what was scanned is well-formed, and of the declared types ------------ */

typedef Lockstock__Rpc__V1__Call wire_call;
typedef Lockstock__Rpc__V1__Frame wire_frame;
typedef Lockstock__Rpc__V1__Metadata wire_metadata;
typedef Lockstock__Rpc__V1__Reply wire_reply;
typedef Lockstock__Rpc__V1__Result wire_result;

/* A field with a value of the kinds that the envelope has. */
typedef struct field {
    uint32_t number;
    uint64_t varint;
    wire bytes;
} field;

/* Returns false at the end. */
static bool next_field(wire *from, field *ret)
{
    wire_type type;

    *ret = (field){0};
    if (from->at == from->end || !wire_tag(from, &ret->number, &type))
        return false;
    if (type == WIRE_LENGTH)
        return wire_prefixed(from, &ret->bytes);
    return type == WIRE_VARINT ? wire_varint(from, &ret->varint) : wire_skip(from, type);
}

static size_t count(wire from, uint32_t number)
{
    size_t n = 0;

    for (field f; next_field(&from, &f);)
        n += f.number == number;
    return n;
}

static bool read_text(const field *f, lks_rpc_arena *arena, char **ret)
{
    *ret = lks_rpc_arena_copy(arena, f->bytes.at, (size_t)(f->bytes.end - f->bytes.at));
    return *ret;
}

static ProtobufCBinaryData bytes_of(const field *f)
{
    return (ProtobufCBinaryData){.len = (size_t)(f->bytes.end - f->bytes.at), .data = (uint8_t *)f->bytes.at};
}

/* Allocates an array of n pointers to zeroed elements. */
static void *new_list(lks_rpc_arena *arena, size_t n, size_t size)
{
    void **list = lks_rpc_arena_alloc(arena, n * (sizeof *list + size));
    char *elements = list ? (char *)(list + n) : NULL;

    for (size_t i = 0; list && i < n; i++)
        list[i] = elements + i * size;
    return list;
}

static bool read_metadata(wire from, lks_rpc_arena *arena, wire_metadata *ret)
{
    bool has_memory = true;

    lockstock__rpc__v1__metadata__init(ret);
    for (field f; has_memory && next_field(&from, &f);)
        if (f.number == 1)
            has_memory = read_text(&f, arena, &ret->key);
        else if (f.number == 2)
            ret->value = bytes_of(&f);
    return has_memory;
}

/* All entries of that number; when the first is met. */
static bool read_list(wire from, uint32_t number, lks_rpc_arena *arena, wire_metadata ***list, size_t *n)
{
    if (*n > 0)
        return true;
    *list = new_list(arena, count(from, number), sizeof ***list);
    bool has_memory = *list != NULL;
    for (field f; has_memory && next_field(&from, &f);)
        if (f.number == number)
            has_memory = read_metadata(f.bytes, arena, (*list)[(*n)++]);
    return has_memory;
}

static bool read_call(wire from, lks_rpc_arena *arena, wire_call *ret)
{
    enum { METHOD = 1, PAYLOAD, TIMEOUT, METADATA, UNANSWERED_BEFORE };
    const wire all = from;
    bool has_memory = true;

    lockstock__rpc__v1__call__init(ret);
    for (field f; has_memory && next_field(&from, &f);)
        if (f.number == METHOD)
            has_memory = read_text(&f, arena, &ret->method);
        else if (f.number == PAYLOAD)
            ret->payload = bytes_of(&f);
        else if (f.number == TIMEOUT)
            ret->timeout_ms = (uint32_t)f.varint;
        else if (f.number == UNANSWERED_BEFORE)
            ret->unanswered_before = f.varint != 0;
        else if (f.number == METADATA)
            has_memory = read_list(all, METADATA, arena, &ret->metadata, &ret->n_metadata);
    return has_memory;
}

static bool read_result(wire from, lks_rpc_arena *arena, wire_result *ret)
{
    enum { CODE = 1, MESSAGE, APPLIED, PAYLOAD, RETRY_AFTER, METADATA, FIELD, REASON, HEADERS, DETAILS };
    const wire all = from;
    bool has_memory = true;

    lockstock__rpc__v1__result__init(ret);
    for (field f; has_memory && next_field(&from, &f);)
        if (f.number == CODE)
            ret->code = (uint32_t)f.varint;
        else if (f.number == MESSAGE)
            has_memory = read_text(&f, arena, &ret->message);
        else if (f.number == APPLIED)
            ret->applied = (Lockstock__Rpc__V1__Applied)f.varint;
        else if (f.number == PAYLOAD)
            ret->payload = bytes_of(&f);
        else if (f.number == RETRY_AFTER)
            ret->retry_after_ms = (uint32_t)f.varint;
        else if (f.number == METADATA)
            has_memory = read_list(all, METADATA, arena, &ret->metadata, &ret->n_metadata);
        else if (f.number == FIELD)
            has_memory = read_text(&f, arena, &ret->field);
        else if (f.number == REASON)
            has_memory = read_text(&f, arena, &ret->reason);
        else if (f.number == HEADERS)
            has_memory = read_list(all, HEADERS, arena, &ret->headers, &ret->n_headers);
        else if (f.number == DETAILS)
            has_memory = read_list(all, DETAILS, arena, &ret->details, &ret->n_details);
    return has_memory;
}

/* Returns NULL when out of memory. */
static wire_frame *read_frame(wire from, lks_rpc_arena *arena)
{
    enum { VERSION = 1, CALLS };
    wire_frame *frame = lks_rpc_arena_alloc(arena, sizeof *frame);
    wire_call **calls = new_list(arena, count(from, CALLS), sizeof **calls);

    if (!frame || !calls)
        return NULL;
    lockstock__rpc__v1__frame__init(frame);
    frame->calls = calls;
    for (field f; next_field(&from, &f);)
        if (f.number == VERSION)
            frame->version = (uint32_t)f.varint;
        else if (f.number == CALLS && !read_call(f.bytes, arena, calls[frame->n_calls++]))
            return NULL;
    return frame;
}

static wire_reply *read_reply(wire from, lks_rpc_arena *arena)
{
    enum { RESULTS = 1 };
    wire_reply *reply = lks_rpc_arena_alloc(arena, sizeof *reply);
    wire_result **results = new_list(arena, count(from, RESULTS), sizeof **results);

    if (!reply || !results)
        return NULL;
    lockstock__rpc__v1__reply__init(reply);
    reply->results = results;
    for (field f; next_field(&from, &f);)
        if (f.number == RESULTS && !read_result(f.bytes, arena, results[reply->n_results++]))
            return NULL;
    return reply;
}

static wire wire_of(const void *data, size_t len)
{
    return (wire){.at = data, .end = (const uint8_t *)data + len};
}

/* ---- the codec ------------------------------------------------------------------------- */

lks_code lks_rpc_frame_decode(const void *data, size_t len, uint32_t calls_max, lks_rpc_arena *arena,
                              Lockstock__Rpc__V1__Frame **ret, lks_error *error)
{
    uint32_t max = calls_max > 0 ? calls_max : LKS_RPC_FRAME_CALLS_MAX;
    lks_rpc_scan_limits limits = envelope_limits(len, max);
    lks_error problem;
    if (lks_rpc_scan(&lockstock__rpc__v1__frame__descriptor, data, len, &limits, &problem) != LKS_OK)
        return lks_error_set(error, LKS_DATA_LOSS, LKS_APPLIED_NO, "not a frame: %.200s", problem.message);
    wire_frame *frame = read_frame(wire_of(data, len), arena);
    if (!frame)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (frame->version != LKS_RPC_FRAME_VERSION)
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "version: not one of this server's");
    if (frame->n_calls == 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "calls: none");
    if (frame->n_calls > max)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "calls: more than %u", max);
    *ret = frame;
    return LKS_OK;
}

lks_code lks_rpc_reply_decode(const void *data, size_t len, size_t n_calls, lks_rpc_arena *arena,
                              Lockstock__Rpc__V1__Reply **ret, lks_error *error)
{
    lks_rpc_scan_limits limits = envelope_limits(len, n_calls > 0 ? n_calls : 1);
    lks_error problem;
    if (lks_rpc_scan(&lockstock__rpc__v1__reply__descriptor, data, len, &limits, &problem) != LKS_OK)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the peer's answer is not a valid reply: %.160s",
                             problem.message);
    wire_reply *reply = read_reply(wire_of(data, len), arena);
    if (!reply)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "out of memory for the peer's answer");
    /* A single result for several calls refuses all of them. It cannot be a success. */
    bool whole_refused = reply->n_results == 1 && reply->results[0]->code != LKS_OK;
    if (reply->n_results != n_calls && !whole_refused)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the peer's reply has %zu results for %zu calls",
                             reply->n_results, n_calls);
    *ret = reply;
    return LKS_OK;
}

void lks_rpc_result_of(const lks_error *error, Lockstock__Rpc__V1__Result *ret)
{
    lockstock__rpc__v1__result__init(ret);
    ret->code = (uint32_t)error->code;
    ret->message = (char *)error->message; /* only read through this pointer */
    ret->applied = (Lockstock__Rpc__V1__Applied)error->applied;
    ret->retry_after_ms = error->retry_after_ms;
    ret->field = (char *)error->field;
    ret->reason = (char *)lks_reason_name(error->reason);
}

lks_code lks_rpc_result_error(const Lockstock__Rpc__V1__Result *result, lks_error *error)
{
    lks_code code = result->code <= LKS_UNAUTHENTICATED ? (lks_code)result->code : LKS_UNKNOWN;
    if (code == LKS_OK) {
        lks_error_clear(error);
        return LKS_OK;
    }
    bool known = result->applied == LOCKSTOCK__RPC__V1__APPLIED__APPLIED_YES ||
                 result->applied == LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO;
    lks_error_set(error, code, known ? (lks_applied)result->applied : LKS_APPLIED_MAYBE, "%s", result->message);
    if (error) {
        error->origin = LKS_ORIGIN_PEER;
        error->retry_after_ms = result->retry_after_ms;
        error->reason = lks_reason_of(result->reason);
        snprintf(error->field, sizeof error->field, "%s",
                 strlen(result->field) < sizeof error->field ? result->field : "");
    }
    return code;
}

/* The frame codec. A message is scanned before it is unpacked, so that memory
 * grows with what arrived and not with what was claimed. Packing is protobuf-c's. */
#include <string.h>

#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/scan.h>

#include "wire.h"

enum {
    ENVELOPE_DEPTH = 3, /* Frame, Call, Metadata */
    METADATA_MAX = 32,  /* a call, on average over the frame */
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

lks_code lks_rpc_frame_decode(const void *data, size_t len, uint32_t calls_max, lks_rpc_arena *arena,
                              Lockstock__Rpc__V1__Frame **ret, lks_error *error)
{
    uint32_t max = calls_max > 0 ? calls_max : LKS_RPC_FRAME_CALLS_MAX;
    lks_rpc_scan_limits limits = envelope_limits(len, max);
    lks_error problem;
    if (lks_rpc_scan(&lockstock__rpc__v1__frame__descriptor, data, len, &limits, &problem) != LKS_OK)
        return lks_error_set(error, LKS_DATA_LOSS, LKS_APPLIED_NO, "not a frame: %.200s", problem.message);
    Lockstock__Rpc__V1__Frame *frame = lockstock__rpc__v1__frame__unpack(lks_rpc_arena_allocator(arena), len, data);
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
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the peer's answer is no reply: %.160s",
                             problem.message);
    Lockstock__Rpc__V1__Reply *reply = lockstock__rpc__v1__reply__unpack(lks_rpc_arena_allocator(arena), len, data);
    if (!reply)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "out of memory for the peer's answer");
    /* One result for several calls is the refusal of all of them, never a success. */
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
    ret->message = (char *)error->message; /* only ever read from there */
    ret->applied = (Lockstock__Rpc__V1__Applied)error->applied;
    ret->retry_after_ms = error->retry_after_ms;
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
    }
    return code;
}

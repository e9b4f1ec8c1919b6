/* A message that is taken for a frame, or for a reply, packs to one that is taken
 * for the same. */
#include <lockstock/rpc/frame.h>

#include "fuzz.h"

static uint8_t *pack(const ProtobufCMessage *message, lks_rpc_arena *arena, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = lks_rpc_arena_alloc(arena, *len);
    fuzz_expect(bytes && protobuf_c_message_pack(message, bytes) == *len);
    return bytes;
}

static void frame(const uint8_t *data, size_t len, lks_rpc_arena *arena)
{
    Lockstock__Rpc__V1__Frame *once, *twice;
    lks_error error;
    if (lks_rpc_frame_decode(data, len, 0, arena, &once, &error) != LKS_OK) {
        fuzz_expect(error.code != LKS_OK && error.applied == LKS_APPLIED_NO && error.message[0] != '\0');
        return;
    }
    fuzz_expect(once->n_calls >= 1 && once->n_calls <= LKS_RPC_FRAME_CALLS_MAX);
    uint8_t *packed = pack(&once->base, arena, &len);
    fuzz_expect(lks_rpc_frame_decode(packed, len, 0, arena, &twice, &error) == LKS_OK);
    fuzz_expect(twice->n_calls == once->n_calls);
    for (size_t i = 0; i < once->n_calls; i++)
        fuzz_expect(strcmp(once->calls[i]->method, twice->calls[i]->method) == 0);
}

static void reply(const uint8_t *data, size_t len, size_t n_calls, lks_rpc_arena *arena)
{
    Lockstock__Rpc__V1__Reply *once, *twice;
    lks_error error;
    if (lks_rpc_reply_decode(data, len, n_calls, arena, &once, &error) != LKS_OK) {
        fuzz_expect(error.code == LKS_INTERNAL && error.applied == LKS_APPLIED_MAYBE);
        return;
    }
    for (size_t i = 0; i < once->n_results; i++) {
        lks_code code = lks_rpc_result_error(once->results[i], &error);
        fuzz_expect(code == error.code);
        fuzz_expect(code == LKS_OK || (error.applied != LKS_APPLIED_UNSPECIFIED && error.origin == LKS_ORIGIN_PEER));
    }
    uint8_t *packed = pack(&once->base, arena, &len);
    fuzz_expect(lks_rpc_reply_decode(packed, len, n_calls, arena, &twice, &error) == LKS_OK);
    fuzz_expect(twice->n_results == once->n_results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    if (len > 0) {
        frame(data + 1, len - 1, arena);
        reply(data + 1, len - 1, data[0], arena);
    }
    lks_rpc_arena_free(arena);
    return 0;
}

/* Whatever text is taken as a message: once packed it passes the scan within the same limits; printed and read
 * again it is the same message. The first byte chooses the type. */
/* promise J4 */
#include <lockstock/v1/stock.lks.h>

#include "fuzz.h"
#include "json.pb-c.h"
#include "rpc/json/json.h"
#include "scan.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &lockstock__test__json__everything__descriptor,
    &lockstock__test__kinds__descriptor,
    &lockstock__v1__deduct_request__descriptor,
};

static uint8_t *pack(const ProtobufCMessage *message, lks_rpc_arena *arena, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = lks_rpc_arena_alloc(arena, *len);
    fuzz_expect(packed && protobuf_c_message_pack(message, packed) == *len);
    return packed;
}

static void parse_and_print(const ProtobufCMessageDescriptor *type, const void *text, size_t len,
                            const lks_rpc_scan_limits *limits, const lks_rpc_json_options *options)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *message = NULL, *again = NULL;
    lks_error error = {0};
    lks_rpc_slice printed;
    size_t packed_len, again_len;

    fuzz_expect(arena);
    if (lks_rpc_json_parse(type, text, len, limits, arena, &message, &error) != LKS_OK) {
        fuzz_expect(!message && error.message[0] && error.applied == LKS_APPLIED_NO);
        lks_rpc_arena_free(arena);
        return;
    }
    const uint8_t *packed = pack(message, arena, &packed_len);
    fuzz_expect(lks_rpc_scan(type, packed, packed_len, limits, &error) == LKS_OK);
    fuzz_expect(lks_rpc_json_print(message, options, arena, &printed, &error) == LKS_OK);
    fuzz_expect(lks_rpc_json_parse(type, printed.data, printed.len, limits, arena, &again, &error) == LKS_OK);
    const uint8_t *packed_again = pack(again, arena, &again_len);
    if (!options->defaults) /* in proto2 they are set once they are present */
        fuzz_expect(packed_len == again_len && memcmp(packed, packed_again, packed_len) == 0);
    lks_rpc_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const lks_rpc_scan_limits tight = {.depth = 3, .elements = 8, .string_bytes = 16, .bytes_bytes = 16};

    if (len == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof types / sizeof *types)];
    const lks_rpc_json_options plain = {0}, all = {.defaults = true, .original_names = true, .indent = true};
    parse_and_print(type, data + 1, len - 1, &lks_rpc_scan_defaults, &plain);
    parse_and_print(type, data + 1, len - 1, &lks_rpc_scan_response, &all);
    parse_and_print(type, data + 1, len - 1, &tight, &plain);
    return 0;
}

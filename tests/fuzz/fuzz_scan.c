/* Whatever the scanner passes, protobuf-c unpacks, packs and unpacks again, and the
 * scanner passes what was packed. The first byte chooses the type. */
#include <google/protobuf/descriptor.pb-c.h>
#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/scan.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "fuzz.h"
#include "scan.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &lockstock__test__kinds__descriptor,
    &lockstock__rpc__v1__frame__descriptor,
    &google__protobuf__file_descriptor_set__descriptor,
};

static void scan_and_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                            const lks_rpc_scan_limits *limits)
{
    lks_error error = {0};
    lks_code code = lks_rpc_scan(type, data, len, limits, &error);
    fuzz_expect((code == LKS_OK) == (error.message[0] == '\0'));
    fuzz_expect(strlen(error.message) < sizeof error.message);
    if (code != LKS_OK)
        return;

    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *message = protobuf_c_message_unpack(type, lks_rpc_arena_allocator(arena), len, data);
    fuzz_expect(message && protobuf_c_message_check(message));
    size_t packed_len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(packed_len + 1);
    fuzz_expect(packed && protobuf_c_message_pack(message, packed) == packed_len);
    /* Packing may bring closed-enum values or repetitions into another order, no more. */
    fuzz_expect(lks_rpc_scan(type, packed, packed_len, limits, &error) == LKS_OK);
    ProtobufCMessage *again = protobuf_c_message_unpack(type, NULL, packed_len, packed);
    fuzz_expect(again && protobuf_c_message_get_packed_size(again) == packed_len);
    protobuf_c_message_free_unpacked(again, NULL);
    free(packed);
    lks_rpc_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const lks_rpc_scan_limits tight = {
        .depth = 3, .elements = 8, .string_bytes = 16, .bytes_bytes = 16, .unknown = 2};
    if (len == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof types / sizeof *types)];
    scan_and_unpack(type, data + 1, len - 1, &lks_rpc_scan_defaults);
    scan_and_unpack(type, data + 1, len - 1, &lks_rpc_scan_response);
    scan_and_unpack(type, data + 1, len - 1, &tight);
    return 0;
}

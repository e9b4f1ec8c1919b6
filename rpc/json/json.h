/* Protobuf messages as JSON, by their descriptors: the proto3 JSON mapping
 * (https://protobuf.dev/programming-guides/json/). A library of its own, so that
 * only who uses JSON links libjansson.
 *
 * Where it differs from the mapping, because descriptors of protobuf-c do not have it: the
 * option json_name is not known (names are lowerCamelCase of the .proto's); a map is told by
 * the name and fields of its entries; google.protobuf.Timestamp and the like are messages as
 * any other. A number beyond 2^63-1 must be written as a string. */
#ifndef LOCKSTOCK_RPC_JSON_H
#define LOCKSTOCK_RPC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/scan.h>
#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

/* The message of `type` that `text` is. Fields by lowerCamelCase or by the .proto's name; null
 * is not set; 64 bits as string or number; enums by name or number; bytes in base64, also
 * url-safe, padded or not. The limits are those of lks_rpc_scan: what was parsed passes the scan
 * once packed. *ret lives in the arena and points to nothing in `text`. LKS_INVALID_ARGUMENT,
 * applied NO: not JSON, or a message that begins with the path of the field ("lines[2].sku:
 * unknown field"); LKS_RESOURCE_EXHAUSTED, applied NO: out of memory. Thread-safe. */
lks_code lks_rpc_json_parse(const ProtobufCMessageDescriptor *type, const void *text, size_t len,
                            const lks_rpc_scan_limits *limits, lks_rpc_arena *arena, ProtobufCMessage **ret,
                            lks_error *error);

typedef struct lks_rpc_json_options {
    bool defaults;       /* also what is as in a new message; but no message and no field of a oneof that is not set */
    bool original_names; /* of the .proto, rather than lowerCamelCase */
    bool indent;         /* a line for each field, two spaces a level; else all in one line */
} lks_rpc_json_options;

/* `message` as JSON: in the arena, with a NUL after it. Unknown fields are left out. An enum's
 * value without a name is its number. LKS_INVALID_ARGUMENT, applied NO, with the field's path: a
 * string that is not UTF-8; LKS_RESOURCE_EXHAUSTED, applied NO: out of memory. Thread-safe. */
lks_code lks_rpc_json_print(const ProtobufCMessage *message, const lks_rpc_json_options *options, lks_rpc_arena *arena,
                            lks_rpc_slice *ret, lks_error *error);

#endif

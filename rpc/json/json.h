/* Protobuf messages as JSON: the proto3 JSON mapping (https://protobuf.dev/programming-guides/json/). A separate
 * library, so that only programs that use JSON link libjansson. It differs from the mapping where descriptors of
 * protobuf-c lack information: the option json_name is known in code of protoc-gen-lockstock but not of protoc-c, a map
 * is recognised by the name and the fields of its entries, and google.protobuf.Any is an ordinary message. */
#ifndef LOCKSTOCK_RPC_JSON_H
#define LOCKSTOCK_RPC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/scan.h>
#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

/* Parses a message of `type`. Fields are named by their json_name or in lowerCamelCase, or as in the .proto; null means
 * not set; 64-bit numbers are strings or numbers; enums are names or numbers; bytes are base64, also url-safe, padded
 * or not. The limits are those of lks_rpc_scan: the packed message passes the scan. *ret is in the arena and does not
 * point into `text`. LKS_INVALID_ARGUMENT, applied NO: not JSON, or the error names a field ("lines[2].sku: unknown
 * field"). LKS_RESOURCE_EXHAUSTED, applied NO: out of memory. Thread-safe. */
lks_code lks_rpc_json_parse(const ProtobufCMessageDescriptor *type, const void *text, size_t len,
                            const lks_rpc_scan_limits *limits, lks_rpc_arena *arena, ProtobufCMessage **ret,
                            lks_error *error);

typedef struct lks_rpc_json_options {
    bool defaults;       /* also write default values, but no message or member of a oneof that is not set */
    bool original_names; /* use names of the .proto */
    bool indent;         /* write a line for each field, indented by two spaces a level */
} lks_rpc_json_options;

/* Prints a message as JSON into the arena, with a NUL after it. Unknown fields are left out. An enum value without a
 * name is a number. LKS_INVALID_ARGUMENT, applied NO, with the path of the field: a string is not UTF-8.
 * LKS_RESOURCE_EXHAUSTED, applied NO: out of memory. Thread-safe. */
lks_code lks_rpc_json_print(const ProtobufCMessage *message, const lks_rpc_json_options *options, lks_rpc_arena *arena,
                            lks_rpc_slice *ret, lks_error *error);

#endif

/* Checks a serialised Protobuf message against its descriptor before protobuf-c unpacks it, because protobuf-c does
 * not check UTF-8, NUL bytes, depth and counts. Allocates nothing. */
#ifndef LOCKSTOCK_RPC_SCAN_H
#define LOCKSTOCK_RPC_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_rpc_scan_limits {
    uint32_t depth;      /* nested messages; the outermost is 1 */
    uint32_t elements;   /* of all repeated fields together, packed ones counted singly; and
                              nested messages, and repetitions of a field that is not repeated */
    size_t string_bytes; /* of a string field */
    size_t bytes_bytes;  /* of a bytes field */
    uint32_t unknown;    /* unknown fields, which are skipped */
    bool open_enums;     /* allow unknown enum values, which a newer server may send */
} lks_rpc_scan_limits;

/* depth 16, 20,000 elements, 64 KiB a string, 1 MiB bytes, 1,000 unknown. */
extern const lks_rpc_scan_limits lks_rpc_scan_defaults;

/* For answers of a server: the same with open enums and 200,000 elements. */
extern const lks_rpc_scan_limits lks_rpc_scan_response;

/* Returns LKS_OK if protobuf-c may unpack `data` as `type`: well-formed, not truncated, strings valid UTF-8 without
 * NUL, enums known, wire types as declared, everything within limits. Else LKS_INVALID_ARGUMENT, applied NO, with a
 * message that begins with the path of the field ("targets[2].name: not valid UTF-8"). Thread-safe. */
lks_code lks_rpc_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                      const lks_rpc_scan_limits *limits, lks_error *error);

#ifdef __cplusplus
}
#endif

#endif

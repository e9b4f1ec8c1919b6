/* The client's side of gRPC's headers; grpc_text.h is the server's side. Pure; thread-safe. Source: "gRPC
 * over HTTP2" (PROTOCOL-HTTP2.md), http-grpc-status-mapping.md, google/rpc/status.proto and error_details.proto. */
#ifndef LOCKSTOCK_NET_GRPC_STATUS_H
#define LOCKSTOCK_NET_GRPC_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

enum { GRPC_TIMEOUT_BYTES = 10 };

/* grpc-timeout, with a NUL; rounded up to seconds when milliseconds need more than 8 digits. */
void grpc_format_timeout(uint32_t ms, char out[GRPC_TIMEOUT_BYTES]);

/* grpc-status. UNKNOWN unless it is a number of google.rpc.Code. */
lks_code grpc_parse_status(lks_rpc_slice text);

/* The code of an answer without grpc-status: by its HTTP status, or by the error of its RST_STREAM. */
lks_code grpc_code_of_http(unsigned status);
lks_code grpc_code_of_reset(uint32_t error);

/* grpc-message, decoded; unchanged when it is not well-formed. NULL when out of memory. */
char *grpc_decode_message(lks_rpc_slice text, lks_rpc_arena *arena);

/* The contents of grpc-status-details-bin: the first field of a BadRequest, the reason of an ErrorInfo of the domain
 * "lockstock", the time of a RetryInfo, and all details unparsed. */
enum { GRPC_METADATA_MAX = 32 }; /* entries of a kind that an answer may have; more are dropped */

typedef struct grpc_details {
    char *field, *reason; /* in the arena; NULL: none */
    uint32_t retry_after_ms;
    lks_rpc_list all; /* key: the type's URL */
} grpc_details;

/* Returns no details when they cannot be read. */
grpc_details grpc_decode_details(lks_rpc_slice text, lks_rpc_arena *arena);

#endif

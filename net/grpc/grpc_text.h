/* gRPC's values in HTTP/2 headers: timeouts, status messages, error details. Pure;
 * thread-safe. Source: "gRPC over HTTP2" (PROTOCOL-HTTP2.md), google/rpc/status.proto and
 * error_details.proto. */
#ifndef LOCKSTOCK_NET_GRPC_TEXT_H
#define LOCKSTOCK_NET_GRPC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

/* "100m" -> milliseconds, rounded up, at least 1, at most UINT32_MAX. False: not a timeout. */
bool grpc_parse_timeout(const char *text, size_t len, uint32_t *ms);

enum {
    GRPC_DETAILS_BYTES_MAX = 2048, /* of an error, without `more`, in base64 */
};

/* grpc-message, percent-encoded. Returns the length, 3 * strlen(message) at most. */
size_t grpc_encode_message(const char *message, char *out);

/* grpc-status-details-bin of an error: a google.rpc.Status in base64 without padding, with a BadRequest that names
 * the error's field, an ErrorInfo with its reason in the domain "lockstock", and a RetryInfo with the time to retry
 * after, and `more`. In the arena. NULL: there are no details, or no memory. */
char *grpc_encode_details(const lks_error *error, const lks_rpc_list *more, lks_rpc_arena *arena, size_t *len);

#endif

/* The steps of every server between the bytes of a call and its handler, for any transport: find the method, scan and
 * unpack the request, pack the response, keep the reply within its limit. Everything lives in the call's arena. Used by
 * lockstockd's dispatch and by host/.
 *
 *   Frame.calls[i] --route_find--> method --request_unpack--> request
 *   response --result_ok-- \
 *   lks_error --result_fail--> Reply.results[i] --reply_fit--> size --reply__pack
 */
#ifndef LOCKSTOCK_RPC_EXCHANGE_H
#define LOCKSTOCK_RPC_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/rpc/scan.h>
#include <lockstock/rpc/service.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An entry of a server's method table: a method, and data of the server. */
typedef struct lks_rpc_route {
    const lks_rpc_method *method;
    const void *target;
} lks_rpc_route;

/* Sorts a table by path. Call it once, before the first lookup. LKS_ALREADY_EXISTS: two entries have the same path,
 * which the message names. */
lks_code lks_rpc_routes_sort(lks_rpc_route *routes, size_t n, lks_error *error);

/* Returns the entry of `path` in a sorted table, or NULL. Thread-safe. */
const lks_rpc_route *lks_rpc_route_find(const lks_rpc_route *routes, size_t n, const char *path);

/* Scans (lks_rpc_scan_defaults) and unpacks a request of `method`. *ret is in the arena. LKS_INVALID_ARGUMENT,
 * applied NO: the message names the field. LKS_RESOURCE_EXHAUSTED, applied NO: out of memory. */
lks_code lks_rpc_request_unpack(const lks_rpc_method *method, const void *payload, size_t len, lks_rpc_arena *arena,
                                ProtobufCMessage **ret, lks_error *error);

/* The same with other limits. */
lks_code lks_rpc_request_unpack_within(const lks_rpc_method *method, const void *payload, size_t len,
                                       const lks_rpc_scan_limits *limits, lks_rpc_arena *arena, ProtobufCMessage **ret,
                                       lks_error *error);

/* Returns an initialised response of `method` in the arena, or NULL when out of memory. */
ProtobufCMessage *lks_rpc_response_new(const lks_rpc_method *method, lks_rpc_arena *arena);

/* Makes *ret the result of a successful call: packs the response into the arena. When out of memory, *ret becomes
 * RESOURCE_EXHAUSTED with the `applied` of lks_rpc_applied_of. */
void lks_rpc_result_ok(const lks_rpc_method *method, const ProtobufCMessage *response, lks_rpc_arena *arena,
                       Lockstock__Rpc__V1__Result *ret);

/* Makes *ret the result of a failed call, and copies the text into the arena. (lks_rpc_result_of does not copy.) */
void lks_rpc_result_fail(const lks_error *error, lks_rpc_arena *arena, Lockstock__Rpc__V1__Result *ret);

/* Makes *ret a list of metadata for a result, in the arena; does not copy the texts. Returns how many entries; 0 when
 * out of memory. */
size_t lks_rpc_put_metadata(const lks_rpc_list *from, lks_rpc_arena *arena, Lockstock__Rpc__V1__Metadata ***ret);

/* Packs a message into the arena; a message of 0 bytes is not NULL. data NULL: out of memory. */
lks_rpc_slice lks_rpc_pack(const ProtobufCMessage *message, lks_rpc_arena *arena);

/* Hints of a response for callers that do not decode it, from fields with these names. */
typedef struct lks_rpc_hints {
    bool replayed;           /* `replayed`: it repeats the answer of an earlier call */
    uint32_t retry_after_ms; /* `retry_after_ms`; 0: nothing */
} lks_rpc_hints;

lks_rpc_hints lks_rpc_hints_of(const ProtobufCMessage *response);

/* Returns the `applied` of a successful call whose response cannot be sent: NO for READ, otherwise YES. */
lks_applied lks_rpc_applied_of(const lks_rpc_method *method);

/* Returns an initialised reply of n initialised results in the arena, or NULL when out of memory. */
Lockstock__Rpc__V1__Reply *lks_rpc_reply_new(size_t n, lks_rpc_arena *arena);

/* Makes a reply fit `bytes_max`, which must be at least 64 bytes for each result. A result that does not fit becomes
 * RESOURCE_EXHAUSTED with a correct `applied`. methods[i] is the method of results[i], or NULL if unknown. Returns
 * the packed size, for lockstock__rpc__v1__reply__pack. */
size_t lks_rpc_reply_fit(Lockstock__Rpc__V1__Reply *reply, const lks_rpc_method *const *methods, size_t bytes_max);

#ifdef __cplusplus
}
#endif

#endif

/* The frame codec: lockstock.rpc.v1 Frame and Reply to and from the bytes of
 * one SP message. Decoding scans first (see scan.h), then unpacks into the
 * arena; nothing is allocated in proportion to a length that was only claimed.
 *
 *   Frame  08 version?  12 len Call ...
 *   Call   0a len method  12 len payload  18 timeout_ms?  22 len Metadata ...
 *   Reply  0a len Result ...
 *   Result 08 code?  12 len message?  18 applied?  22 len payload?
 *          28 retry_after_ms?  32 len Metadata ...  3a len field?  42 len reason?
 */
#ifndef LOCKSTOCK_RPC_FRAME_H
#define LOCKSTOCK_RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LKS_RPC_FRAME_VERSION = 0, LKS_RPC_FRAME_CALLS_MAX = 256, LKS_RPC_MESSAGE_BYTES_MAX = 1 << 20 };

/* Unpacks a request message. LKS_DATA_LOSS: not a Frame; close the connection. LKS_INVALID_ARGUMENT: no call, or
 * more than calls_max (0: LKS_RPC_FRAME_CALLS_MAX). LKS_UNIMPLEMENTED: an unknown version; answer with one result.
 * *ret is in the arena; payloads and values of metadata point into `data`. */
lks_code lks_rpc_frame_decode(const void *data, size_t len, uint32_t calls_max, lks_rpc_arena *arena,
                              Lockstock__Rpc__V1__Frame **ret, lks_error *error);

/* Unpacks a reply message. LKS_INTERNAL: not a Reply with `n_calls` results (a single result also answers a frame of
 * several calls if the whole frame was refused). Memory as above. */
lks_code lks_rpc_reply_decode(const void *data, size_t len, size_t n_calls, lks_rpc_arena *arena,
                              Lockstock__Rpc__V1__Reply **ret, lks_error *error);

/* Returns a failed result for `error`. Texts point into *error. */
void lks_rpc_result_of(const lks_error *error, Lockstock__Rpc__V1__Result *ret);

/* Converts the result of a peer, origin PEER. An unspecified `applied` becomes MAYBE, an unknown code LKS_UNKNOWN,
 * an unknown reason NONE, and a field that is too long for lks_error empty. */
lks_code lks_rpc_result_error(const Lockstock__Rpc__V1__Result *result, lks_error *error);

#ifdef __cplusplus
}
#endif

#endif

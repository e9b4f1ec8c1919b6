/* Option structs grow at their end, and a caller may be older or newer than the library. So each public function that
 * takes one is inline, and passes sizeof the struct to the exported function ..._sized. For lockstock's own
 * libraries. */
#ifndef LOCKSTOCK_RPC_OPTIONS_H
#define LOCKSTOCK_RPC_OPTIONS_H

#include <stddef.h>

#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies a caller's struct of given_bytes into *known, of known_bytes. Members that the caller's struct does not have,
 * or all if `given` is NULL, become 0. LKS_INVALID_ARGUMENT, naming `type`: the caller's struct is longer and is not 0
 * there, so it sets an option that this library does not have. */
lks_code lks_rpc_options_read(void *known, size_t known_bytes, const void *given, size_t given_bytes, const char *type,
                              lks_error *error);

#ifdef __cplusplus
}
#endif

#endif

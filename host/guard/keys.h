/* Reads keys, names and a fingerprint from a request, by the paths of a guard's option (options.proto). Pure
 * functions. The caller frees returned text. */
#ifndef HOST_GUARD_KEYS_H
#define HOST_GUARD_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>

enum { GUARD_NAMES_MAX = 16, GUARD_FINGERPRINT_BYTES = 32, GUARD_KEY_BYTES_MAX = 255 };

/* The values at `paths` (which NULL ends) joined to one key, after `prefix` and a colon if it is not empty.
 * Text is copied, bytes are in hex, integers in decimal, an enum is its number. LKS_INVALID_ARGUMENT, applied NO,
 * naming the path: a path has no value, or the key has more than bytes_max, which is
 * GUARD_KEY_BYTES_MAX at most. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code guard_key(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                   char **ret, lks_error *error);

/* The same, with each value as its own name; sorted (strcmp), each once. LKS_INVALID_ARGUMENT also when there are more
 * than GUARD_NAMES_MAX. On failure there is nothing to free. */
lks_code guard_names(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                     char *names[GUARD_NAMES_MAX], size_t *n, lks_error *error);

/* Sorts the entries of all maps by their keys, because their order has no meaning. Must be called first. */
void guard_order_maps(ProtobufCMessage *request);

/* The hash of the method's path and of the request. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code guard_fingerprint(const lks_rpc_method *method, const ProtobufCMessage *request,
                           uint8_t ret[GUARD_FINGERPRINT_BYTES], lks_error *error);

#endif

/* What a guard reads of a request, by the paths of its option (options.proto): keys, names, a fingerprint. Pure;
 * knows no service. Text that is handed back is the caller's to free. */
#ifndef HOST_GUARD_KEYS_H
#define HOST_GUARD_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>

enum { GUARD_NAMES_MAX = 16, GUARD_FINGERPRINT_BYTES = 32 };

/* The values at `paths` (which NULL ends) joined to one key, after `prefix` and a colon where that is not empty.
 * Text stands as it is, bytes in hex, integers in decimal, an enum as its number. LKS_INVALID_ARGUMENT, applied NO,
 * naming the path: one leads to nothing, or the key has more than bytes_max. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code guard_key(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                   char **ret, lks_error *error);

/* The same, each value a name of its own; in order (strcmp), each once. LKS_INVALID_ARGUMENT also when there are more
 * than GUARD_NAMES_MAX. On failure there is nothing to free. */
lks_code guard_names(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                     char *names[GUARD_NAMES_MAX], size_t *n, lks_error *error);

/* Puts the entries of all maps in the order of their keys: as they come it means nothing. To be called first. */
void guard_order_maps(ProtobufCMessage *request);

/* Of the method and of all that the request says. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code guard_fingerprint(const lks_rpc_method *method, const ProtobufCMessage *request,
                           uint8_t ret[GUARD_FINGERPRINT_BYTES], lks_error *error);

#endif

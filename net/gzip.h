/* Messages in gzip. Pure; thread-safe. */
#ifndef LOCKSTOCK_NET_GZIP_H
#define LOCKSTOCK_NET_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

enum { GZIP_BYTES_MIN = 1024 }; /* smaller answers are not compressed */

/* Decompresses into memory that doubles up to bytes_max, and that the caller frees. RESOURCE_EXHAUSTED: too long, or
 * out of memory. INTERNAL: not gzip. */
lks_code gzip_inflate(const uint8_t *data, size_t len, size_t bytes_max, uint8_t **ret, size_t *ret_len,
                      lks_error *error);

/* Compresses into `out`, which has room for len bytes. Returns the length, 0 when there is not enough room. */
size_t gzip_deflate(const void *message, size_t len, uint8_t *out);

#endif

/* SHA-256 (FIPS 180-4), by OpenSSL. */
#ifndef LOCKSTOCK_SERVER_DIGEST_H
#define LOCKSTOCK_SERVER_DIGEST_H

#include <stddef.h>

enum { DIGEST_BYTES = 32, DIGEST_HEX_LEN = 2 * DIGEST_BYTES };

/* Aborts the process if SHA-256 is not available: every answer would be wrong without it. */
void digest_of(const void *data, size_t len, unsigned char digest[DIGEST_BYTES]);

/* The same as lower-case hex digits. */
void digest_hex(const void *data, size_t len, char text[DIGEST_HEX_LEN + 1]);

/* The same for data in several parts. digest_end frees it. */
typedef struct digest_parts digest_parts;
digest_parts *digest_begin(void);
void digest_more(digest_parts *d, const void *data, size_t len);
void digest_end(digest_parts *d, char text[DIGEST_HEX_LEN + 1]);

#endif

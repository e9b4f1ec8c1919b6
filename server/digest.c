/* Called by identity.c (tokens) and envoy_ratelimit.c (long values). */
#include "digest.h"

#include <stdlib.h>

#include <openssl/evp.h>

void digest_of(const void *data, size_t len, unsigned char digest[DIGEST_BYTES])
{
    if (EVP_Digest(data, len, digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
}

void digest_hex(const void *data, size_t len, char text[DIGEST_HEX_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[DIGEST_BYTES];

    digest_of(data, len, digest);
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        text[2 * i] = hex[digest[i] >> 4];
        text[2 * i + 1] = hex[digest[i] & 15];
    }
    text[DIGEST_HEX_LEN] = '\0';
}

/* Called by identity.c (tokens) and envoy_ratelimit.c (long values). */
#include "digest.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "base/hex.h"

void digest_of(const void *data, size_t len, unsigned char digest[DIGEST_BYTES])
{
    if (EVP_Digest(data, len, digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
}

void digest_hex(const void *data, size_t len, char text[DIGEST_HEX_LEN + 1])
{
    unsigned char digest[DIGEST_BYTES];

    digest_of(data, len, digest);
    hex_encode(digest, DIGEST_BYTES, text);
    text[DIGEST_HEX_LEN] = '\0';
}

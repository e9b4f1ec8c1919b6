/* Called by identity.c (tokens, the policy) and envoy_ratelimit.c (long values). */
#include "digest.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "base/hex.h"

void digest_of(const void *data, size_t len, unsigned char digest[DIGEST_BYTES])
{
    if (EVP_Digest(data, len, digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
}

static void write_hex(const unsigned char digest[DIGEST_BYTES], char text[DIGEST_HEX_LEN + 1])
{
    hex_encode(digest, DIGEST_BYTES, text);
    text[DIGEST_HEX_LEN] = '\0';
}

void digest_hex(const void *data, size_t len, char text[DIGEST_HEX_LEN + 1])
{
    unsigned char digest[DIGEST_BYTES];

    digest_of(data, len, digest);
    write_hex(digest, text);
}

digest_parts *digest_begin(void)
{
    EVP_MD_CTX *d = EVP_MD_CTX_new();

    if (!d || EVP_DigestInit_ex(d, EVP_sha256(), NULL) != 1)
        abort();
    return (digest_parts *)d;
}

void digest_more(digest_parts *d, const void *data, size_t len)
{
    if (EVP_DigestUpdate((EVP_MD_CTX *)d, data, len) != 1)
        abort();
}

void digest_end(digest_parts *d, char text[DIGEST_HEX_LEN + 1])
{
    unsigned char digest[DIGEST_BYTES];

    if (EVP_DigestFinal_ex((EVP_MD_CTX *)d, digest, NULL) != 1)
        abort();
    EVP_MD_CTX_free((EVP_MD_CTX *)d);
    write_hex(digest, text);
}

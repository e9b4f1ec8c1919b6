/* FNV-1a of 64 bits, http://www.isthe.com/chongo/tech/comp/fnv/: for tables. */
#ifndef LOCKSTOCK_BASE_HASH_H
#define LOCKSTOCK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(14695981039346656037)

/* Of what `hash` is of (HASH_START: nothing), and these bytes behind it. */
static inline uint64_t hash_more(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Its low bits as good as its high ones. */
static inline uint64_t hash_folded(uint64_t hash)
{
    return hash ^ (hash >> 32);
}

#endif

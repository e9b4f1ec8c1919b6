/* FNV-1a of 64 bits, http://www.isthe.com/chongo/tech/comp/fnv/: for tables. */
#ifndef LOCKSTOCK_BASE_HASH_H
#define LOCKSTOCK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(14695981039346656037)

/* Extends `hash` (HASH_START: of no bytes) by these bytes. */
static inline uint64_t hash_more(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Folds the high bits into the low ones, so that the low bits are as good. */
static inline uint64_t hash_folded(uint64_t hash)
{
    return hash ^ (hash >> 32);
}

#endif

/* Unsigned LEB128, seven bits a byte, the lowest first: the numbers of Protobuf. */
#ifndef LOCKSTOCK_BASE_VARINT_H
#define LOCKSTOCK_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes a number takes: 1 to 10. */
static inline size_t varint_bytes(uint64_t number)
{
    size_t n = 1;

    for (; number > 0x7F; number >>= 7)
        n++;
    return n;
}

/* Writes a number, and returns the end of what it wrote. */
static inline void *varint_put(void *to, uint64_t number)
{
    uint8_t *at = to;

    for (; number > 0x7F; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

#endif

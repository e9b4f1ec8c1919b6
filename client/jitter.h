/* Random numbers that keep clients from acting in step; not for secrets. */
#ifndef LOCKSTOCK_CLIENT_JITTER_H
#define LOCKSTOCK_CLIENT_JITTER_H

#include <stdint.h>

/* A number below `below`, or 0 when that is 0. *state is anything but 0, and is
 * changed. xorshift64* (S. Vigna, An experimental exploration of Marsaglia's xorshift
 * generators, scrambled, 2016). */
static inline uint64_t jitter(uint64_t *state, uint64_t below)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return below == 0 ? 0 : (*state * UINT64_C(2685821657736338717) >> 11) % below;
}

#endif

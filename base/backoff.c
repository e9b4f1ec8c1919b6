/* Invariant: the state of the random numbers is never 0, because 0 would only produce 0. */
#include "base/backoff.h"

#include <stddef.h>
#include <sys/random.h>

#include "base/clock.h"

enum { DOUBLINGS_MAX = 31 };

/* xorshift64* (S. Vigna, An experimental exploration of Marsaglia's xorshift generators,
 * scrambled, 2016). */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717) >> 11;
}

uint64_t backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random)
{
    uint64_t ms = (uint64_t)least_ms << (failures < DOUBLINGS_MAX ? failures : DOUBLINGS_MAX);
    uint64_t half_ns = (ms < most_ms ? ms : most_ms) * CLOCK_NS_PER_MS / 2;

    return half_ns + (half_ns > 0 ? next_random(random) % half_ns : 0);
}

uint64_t backoff_random(void)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = clock_now_ns();
    return random | 1;
}

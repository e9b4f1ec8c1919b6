/* The client's one clock: nanoseconds of CLOCK_MONOTONIC. */
#ifndef LOCKSTOCK_CLIENT_CLOCK_H
#define LOCKSTOCK_CLIENT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER UINT64_MAX
#define CLOCK_NS_PER_MS UINT64_C(1000000)

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif

#include "base/clock.h"

static uint64_t ns_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return ns_of(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ns(void)
{
    return ns_of(CLOCK_REALTIME);
}

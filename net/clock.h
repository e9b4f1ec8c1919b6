/* Moments and spans of the one clock of every deadline: nanoseconds of CLOCK_MONOTONIC,
 * as lks_rpc_now_ns() reads it. */
#ifndef LOCKSTOCK_NET_CLOCK_H
#define LOCKSTOCK_NET_CLOCK_H

#include <stdint.h>
#include <time.h>

#include <lockstock/rpc/exchange.h>

#define CLOCK_NEVER UINT64_MAX
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

/* The moment that is so many milliseconds from now. */
static inline uint64_t clock_in_ms(uint64_t ms)
{
    return lks_rpc_now_ns() + ms * CLOCK_NS_PER_MS;
}

/* For the waits of POSIX threads, and of poll. */
static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

#endif

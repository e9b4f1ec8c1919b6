/* The clock of every deadline: nanoseconds of CLOCK_MONOTONIC. And the time of day. Thread-safe. */
#ifndef LOCKSTOCK_BASE_CLOCK_H
#define LOCKSTOCK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER UINT64_MAX
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

uint64_t clock_now_ns(void);

/* The time since 1970 by CLOCK_REALTIME, which may be set back. */
uint64_t clock_unix_ns(void);

static inline int64_t clock_unix_ms(void)
{
    return (int64_t)(clock_unix_ns() / CLOCK_NS_PER_MS);
}

/* The time `ms` milliseconds from now. */
static inline uint64_t clock_in_ms(uint64_t ms)
{
    return clock_now_ns() + ms * CLOCK_NS_PER_MS;
}

/* For poll and the waits of POSIX threads. */
static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

#endif

/* The time of a group. The clocks of servers need not agree. Each write of the group stores the time at which its
 * writer prepared it, and each server continues from the last write that it saw, with its own CLOCK_MONOTONIC.
 *
 *   Invariant: since a lease was granted, no server's time of the group has advanced by more than the real time that
 *   passed, plus GROUP_CLOCK_SLACK_MS. So a lease that is stored with that slack never ends early, however clocks are
 *   set.
 *
 * If a server sees a new write that is more than GROUP_CLOCK_APART_MS behind its time of the group, it steps back to
 * the time of the write, because that write may have granted a lease. Leases then last longer by that step, at most by
 * one lease. A server sees only the last write: it may differ from that one, that one from the previous one, and so on,
 * each written by a different server, because a server that starts is never ahead. So the slack covers
 * GROUP_CLOCK_SERVERS. The time advances 0.1 % slower than CLOCK_MONOTONIC, because clocks drift.
 *
 * A server sees a write when it is applied, which may be long after its time. If two servers write a group in turn
 * without a pause, and each write takes longer than GROUP_CLOCK_APART_MS, the time advances only between the writes. */
#ifndef LOCKSTOCK_SERVER_QUORUM_GROUP_CLOCK_H
#define LOCKSTOCK_SERVER_QUORUM_GROUP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GROUP_CLOCK_APART_MS = 100,
    GROUP_CLOCK_SERVERS = 11,
    GROUP_CLOCK_SLACK_MS = (GROUP_CLOCK_SERVERS - 1) * GROUP_CLOCK_APART_MS
};

/* Initially zero: no write was seen. */
typedef struct group_clock {
    int64_t time_us; /* the group's time at at_ns */
    uint64_t at_ns;  /* CLOCK_MONOTONIC; 0: no write was seen */
} group_clock;

/* By how many microseconds the time of a group advances. */
static inline int64_t group_clock_passed(uint64_t since_ns, uint64_t now_ns)
{
    const uint64_t passed_us = (now_ns - since_ns) / 1000;

    return (int64_t)(passed_us - passed_us / 1000);
}

/* The group's time, microseconds. */
static inline int64_t group_clock_now(const group_clock *c, uint64_t now_ns)
{
    return c->time_us + group_clock_passed(c->at_ns, now_ns);
}

/* Call this when a write that this server has not seen before was read, not for one that it has seen. The new write may
 * be very recent, so no time may have passed for a lease that it granted. time_us: the time in the write. */
static inline void group_clock_see(group_clock *c, int64_t time_us, uint64_t now_ns)
{
    const int64_t ahead_us = c->at_ns == 0 ? INT64_MIN : group_clock_now(c, now_ns) - time_us;

    if (ahead_us < 0 || ahead_us > GROUP_CLOCK_APART_MS * 1000)
        *c = (group_clock){.time_us = time_us, .at_ns = now_ns};
}

#endif

/* Invariant: a lease counts as lost before it ends, and at least two renewals of it are due before it counts as
 * lost. */
#include "client/lease/lease_time.h"

#include "base/clock.h"

enum {
    LEASE_MS_MIN = 10,
    LEASE_MS_MAX = 86400000,
    WAIT_MS_MAX = 86400000,
    RENEWALS = 3, /* in the time of a lease */
    CALL_MS_MIN = 20,
    CALL_MS_MAX = 10000,
    MARGIN_PART = 10, /* of the lease, which counts as lost this much before its end */
    MARGIN_MS_MAX = 1000,
    PAUSE_PART = 30, /* of the lease; the pause after a failed renewal */
    PAUSE_MS_MIN = 5,
    PAUSE_MS_MAX = 1000
};

static uint64_t between(uint64_t ms, uint64_t least, uint64_t most)
{
    return ms < least ? least : ms > most ? most : ms;
}

lks_code lease_check_ms(uint32_t lease_ms, lks_error *error)
{
    if (lease_ms == 0 || (lease_ms >= LEASE_MS_MIN && lease_ms <= LEASE_MS_MAX))
        return LKS_OK;
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.lease_ms: must be %d to %d",
                         LEASE_MS_MIN, LEASE_MS_MAX);
}

uint32_t lease_wait_ms(uint32_t ms)
{
    return ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;
}

uint64_t lease_lost_ns(uint64_t sent_ns, int64_t left_ms)
{
    uint64_t left = left_ms > 0 ? (uint64_t)left_ms : 0;
    uint64_t margin = between(left / MARGIN_PART, 1, MARGIN_MS_MAX);

    return sent_ns + (left > margin ? left - margin : 0) * CLOCK_NS_PER_MS;
}

uint64_t lease_renewal_ns(uint32_t lease_ms)
{
    return lease_ms * CLOCK_NS_PER_MS / RENEWALS;
}

bool lease_is_doubtful(uint32_t lease_ms, uint64_t sent_ns, uint64_t now_ns)
{
    return now_ns - sent_ns >= lease_renewal_ns(lease_ms);
}

uint32_t lease_call_ms(uint64_t left_ns)
{
    return (uint32_t)between(left_ns / CLOCK_NS_PER_MS, CALL_MS_MIN, CALL_MS_MAX);
}

uint32_t lease_retry_ms(int64_t retry_after_ms)
{
    return retry_after_ms < 0 ? 0 : retry_after_ms < UINT32_MAX ? (uint32_t)retry_after_ms : UINT32_MAX;
}

uint32_t lease_pause_ms(uint32_t lease_ms, const lks_error *error)
{
    uint32_t pause_ms = (uint32_t)between(lease_ms / PAUSE_PART, PAUSE_MS_MIN, PAUSE_MS_MAX);

    return pause_ms > error->retry_after_ms ? pause_ms : error->retry_after_ms;
}

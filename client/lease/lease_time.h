/* When a lease is renewed and when it counts as lost; the same for locks, attempts of
 * lks_once and reservations. The time of a lease is counted from when the request that set it was sent. It counts as
 * lost before it can have ended.
 *
 *   sent --- a third: renewed --- .. --- a tenth before the end: lost --- end */
#ifndef LOCKSTOCK_CLIENT_LEASE_LEASE_TIME_H
#define LOCKSTOCK_CLIENT_LEASE_LEASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

enum {
    LEASE_DEFAULT_MS = 30000,
    LEASE_BACKGROUND_MS = 30000,   /* timeout of background calls that give something back */
    LEASE_TOMBSTONE_MS = 86400000, /* timeout of background calls that also keep out a late copy of a call */
    LEASE_REFUSED_MS = 1000        /* how long the caller of a refused call waits for them */
};

/* Checks an option lease_ms. LKS_INVALID_ARGUMENT unless it is 0 (the default) or in the range that servers accept. */
lks_code lease_check_ms(uint32_t lease_ms, lks_error *error);

/* Limits a wait to the longest that a server allows, 24 hours. */
uint32_t lease_wait_ms(uint32_t ms);

/* When a lease counts as lost that was set by a request sent at sent_ns and has left_ms to run. */
uint64_t lease_lost_ns(uint64_t sent_ns, int64_t left_ms);

/* How old a lease may become before it is renewed. */
uint64_t lease_renewal_ns(uint32_t lease_ms);

/* Whether an answer came so late that the lease, counted from the sending, may have ended, so that only the answer to a
 * renewal confirms it. */
bool lease_is_doubtful(uint32_t lease_ms, uint64_t sent_ns, uint64_t now_ns);

/* The timeout of a call that renews a lease with left_ns until it counts as lost. */
uint32_t lease_call_ms(uint64_t left_ns);

/* Converts the retry time of a response to that of an error. */
uint32_t lease_retry_ms(int64_t retry_after_ms);

/* How long to wait after a renewal that failed. */
uint32_t lease_pause_ms(uint32_t lease_ms, const lks_error *error);

#endif

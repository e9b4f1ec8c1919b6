/* When a lease is renewed and when it counts as lost; the same for locks, attempts of
 * lks_once and reservations. A lease is counted from when the request was sent that set
 * it, and counts as lost before it can have ended.
 *
 *   sent --- a third: renewed --- .. --- a tenth before the end: lost --- end */
#ifndef LOCKSTOCK_CLIENT_LEASE_LEASE_TIME_H
#define LOCKSTOCK_CLIENT_LEASE_LEASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

enum {
    LEASE_DEFAULT_MS = 30000,
    LEASE_BACKGROUND_MS = 30000,   /* of calls that give something back, and that nobody waits for */
    LEASE_TOMBSTONE_MS = 86400000, /* of those that also keep a late copy of a call out: until a server answers */
    LEASE_REFUSED_MS = 1000 /* so long the caller of a refused call waits for them: a server answered a moment ago */
};

/* An option lease_ms. LKS_INVALID_ARGUMENT unless it is 0, which is the default, or what a
 * server takes. */
lks_code lease_check_ms(uint32_t lease_ms, lks_error *error);

/* How long a server is asked to let a call wait at most, which is 24 hours: who asks for
 * longer wants as long as possible. */
uint32_t lease_wait_ms(uint32_t ms);

/* When one that was set by a request sent then, and has left_ms to run, counts as lost. */
uint64_t lease_lost_ns(uint64_t sent_ns, int64_t left_ms);

/* How old it may become before it is renewed. */
uint64_t lease_renewal_ns(uint32_t lease_ms);

/* Whether an answer came so late that the lease, counted from the sending, says nothing of
 * the lease that was granted: only the answer to a renewal does. */
bool lease_is_doubtful(uint32_t lease_ms, uint64_t sent_ns, uint64_t now_ns);

/* The deadline of a call that renews it, when so much is left until it counts as lost. */
uint32_t lease_call_ms(uint64_t left_ns);

/* What a response says of when to try again, as an error has it. */
uint32_t lease_retry_ms(int64_t retry_after_ms);

/* How long to wait after a renewal that failed. */
uint32_t lease_pause_ms(uint32_t lease_ms, const lks_error *error);

#endif

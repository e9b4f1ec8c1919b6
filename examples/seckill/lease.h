/* LockService as scenes call it: one EXCLUSIVE name, its own group. All block. */
#ifndef SECKILL_LEASE_H
#define SECKILL_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/v1/lock.lks_client.h>

enum { LEASE_TOKEN_MAX = 64 };

typedef struct lease {
    char token[LEASE_TOKEN_MAX + 1]; /* "" = a new one is made */
    uint64_t fence;
} lease;

/* Acquire by held->token. *ret says how it ended; when ACQUIRED, *held is what was
 * granted. */
lks_code lease_acquire(lks_channel *channel, const char *name, const char *owner, int64_t lease_ms, int64_t wait_ms,
                       lease *held, lks_acquire_outcome *ret, lks_error *error);

/* Release. *was_held says whether it was held until now; may be NULL. */
lks_code lease_release(lks_channel *channel, const char *name, const lease *held, bool *was_held, lks_error *error);

/* How a lock is now. */
typedef struct lease_look {
    bool held;
    int64_t left_ms; /* of the lease */
    int64_t waiters;
} lease_look;
lks_code lease_inspect(lks_channel *channel, const char *name, lease_look *ret, lks_error *error);

/* CheckFence: may a write with this fence be done? */
lks_code lease_check_fence(lks_channel *channel, const char *resource, uint64_t fence, bool *ret, lks_error *error);

#endif

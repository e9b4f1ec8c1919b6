/* What the lock library keeps: a `lock` is a lock as a program names it (an lks_mutex,
 * an lks_rwlock, an lks_semaphore), a `hold` one grant of it. lock.c takes holds and
 * gives them back, watchdog.c keeps them in between. */
#ifndef LOCKSTOCK_CLIENT_LEASE_HOLD_H
#define LOCKSTOCK_CLIENT_LEASE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>
#include <lockstock/v1/lock.lks.h>

#include "base/heap.h"

struct watch;

/* Constant but for `holds`. */
struct lock {
    lks_channel *channel;
    struct watch *watch; /* over the leases of the channel */
    char *group, *name, *owner;
    int64_t capacity; /* of a semaphore */
    uint32_t lease_ms, renew_ms, max_hold_ms;
    lks_lock_lost *on_lost;
    void *arg;
    atomic_uint holds; /* holds, and attempts at one: while there are any it is not freed */
};

struct hold {
    /* Constant once it is held. While it is, its lock is not freed. */
    struct lock *lock;
    lks_lock_mode mode;
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
    uint64_t fence;
    uint64_t renew_until_ns; /* when max_hold_ms is over */

    unsigned count; /* the holding thread's: how often it is to unlock it */

    /* The watchdog's, under its lock. */
    struct timer renewal, loss;
    uint64_t lost_ns; /* from then on it counts as lost */
    lks_loss_reason reason;
    uint32_t batch_max; /* at most so many leases in the call that renews it */
    uint32_t references;
    bool ended;
};

#endif

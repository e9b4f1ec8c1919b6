/* A `lock` is a lock as a program names it (an lks_mutex, an lks_rwlock, an lks_semaphore), a `hold` one grant of it. */
#ifndef LOCKSTOCK_CLIENT_LEASE_HOLD_H
#define LOCKSTOCK_CLIENT_LEASE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>
#include <lockstock/v1/lock.lks.h>

#include "client/lease/lease.h"

/* Constant but for `holds`. */
struct lock {
    lks_channel *channel;
    char *group, *name, *owner;
    int64_t capacity; /* of a semaphore */
    uint32_t lease_ms, renew_ms, max_hold_ms;
    lks_lock_lost *on_lost;
    void *arg;
    atomic_uint holds; /* holds, and attempts at one: while there are any it is not freed */
};

/* Constant once it is held. While it is, its lock is not freed. */
struct hold {
    struct lease lease;
    struct lock *lock;
    lks_lock_mode mode;
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
    uint64_t fence;
    unsigned count; /* the holding thread's: how often it is to unlock it */
};

#endif

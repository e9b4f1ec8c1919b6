/* Locks that belong to threads, for mutexes and read-write locks; semaphores use the first part.
 * Results, codes and errors are those of the public headers. */
#ifndef LOCKSTOCK_CLIENT_LEASE_LOCK_H
#define LOCKSTOCK_CLIENT_LEASE_LOCK_H

#include "client/lease/hold.h"

/* A lock of a program: an lks_mutex, an lks_rwlock or an lks_semaphore. */
struct lock {
    struct hold_spec spec;
    atomic_uint holds; /* holds and attempts to acquire one; the lock cannot be freed unless it is 0 */
};

/* capacity: of a semaphore; otherwise 0. */
lks_code lock_new(lks_channel *channel, const char *name, int64_t capacity, const lks_lock_options *options,
                  size_t options_bytes, struct lock **ret, lks_error *error);
lks_code lock_free(struct lock *lock);

/* A hold that belongs to no thread. */
lks_lock_result lock_take(struct lock *lock, lks_lock_mode mode, int64_t permits, uint32_t timeout_ms, lks_hold **ret,
                          lks_error *error);
lks_code lock_give_back(lks_hold *hold, lks_error *error);

/* Lock and unlock for the calling thread, and count how often. */
lks_lock_result lock_enter(struct lock *lock, lks_lock_mode mode, uint32_t timeout_ms, lks_error *error);
lks_code lock_leave(struct lock *lock, lks_error *error);

/* The time until the calling thread's hold counts as lost (0 without one), and its fence. */
uint64_t lock_left_ns(const struct lock *lock);
uint64_t lock_fence(const struct lock *lock);

#endif

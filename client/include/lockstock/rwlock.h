/* A read-write lock over processes and machines: many threads read, or one writes. It is an lks_mutex (mutex.h) that
 * can also be held for reading: reentrant, renewed by the keeper, fenced, and in the queue of its group, in which
 * later readers do not overtake a waiting writer. A thread that reads may read again; a thread that writes may write
 * and read again. A thread that reads cannot lock for writing, because two such threads would wait for each other.
 *
 * All functions are thread-safe. Everything else is as in mutex.h. */
#ifndef LOCKSTOCK_RWLOCK_H
#define LOCKSTOCK_RWLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_rwlock lks_rwlock;

/* As lks_mutex_new. */
lks_code lks_rwlock_new_sized(lks_channel *channel, const char *name, const lks_lock_options *options,
                              size_t options_bytes, lks_rwlock **ret, lks_error *error);

static inline lks_code lks_rwlock_new(lks_channel *channel, const char *name, const lks_lock_options *options,
                                      lks_rwlock **ret, lks_error *error)
{
    return lks_rwlock_new_sized(channel, name, options, sizeof(lks_lock_options), ret, error);
}

/* Locks it for reading, or once more if this thread already holds it for reading or writing. As lks_mutex_lock. */
lks_lock_result lks_rwlock_read(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error);

/* Locks it for writing, or once more if this thread already holds it for writing. As lks_mutex_lock; LKS_LOCK_FAILED
 * with LKS_FAILED_PRECONDITION while this thread reads. */
lks_lock_result lks_rwlock_write(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error);

/* Unlocks one read or write lock of this thread. As lks_mutex_unlock. */
lks_code lks_rwlock_unlock(lks_rwlock *rwlock, lks_error *error);

/* As lks_mutex_is_lost. */
bool lks_rwlock_is_lost(const lks_rwlock *rwlock);

/* As lks_mutex_fence. Readers have fences too, but only the fences of writers are in the order of their writing. */
uint64_t lks_rwlock_fence(const lks_rwlock *rwlock);

/* As lks_mutex_free. */
lks_code lks_rwlock_free(lks_rwlock *rwlock);

/* The scoped form, as lks_mutex_guard. */
typedef struct lks_rwlock_guard {
    lks_rwlock *rwlock; /* NULL when there is nothing to unlock */
    lks_lock_result result;
} lks_rwlock_guard;

lks_rwlock_guard lks_rwlock_guard_read(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error);
lks_rwlock_guard lks_rwlock_guard_write(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error);
void lks_rwlock_guard_release(lks_rwlock_guard *guard);

#if defined(__GNUC__)
#define LKS_RWLOCK_GUARD lks_rwlock_guard __attribute__((cleanup(lks_rwlock_guard_release)))
#endif

#ifdef __cplusplus
}
#endif

#endif

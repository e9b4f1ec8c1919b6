/* A mutex over processes and machines: at most one thread anywhere holds it, as long as leases are kept (lease.h
 * explains leases and fences).
 *
 *     LKS_MUTEX_GUARD guard = lks_mutex_guard_take(mutex, 2000, &error);
 *     if (guard.result == LKS_LOCK_ACQUIRED)
 *         work(lks_mutex_fence(mutex));
 *
 * It is reentrant: a thread that holds it takes it again without a call to the server, and must unlock it as often. All
 * mutexes of one channel, group and name are one lock, the same as an lks_rwlock taken for writing. Threads of one
 * process are separate owners: each has its own place in the server's queue, so that no thread overtakes an earlier
 * request of another process.
 *
 * All functions are safe to call from all threads. */
#ifndef LOCKSTOCK_MUTEX_H
#define LOCKSTOCK_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_mutex lks_mutex;

/* Makes a mutex that is not locked; sends nothing. `name` is 1..128 bytes of UTF-8 and is copied; options may be NULL.
 * The caller frees *ret. LKS_INVALID_ARGUMENT: no name, or a lease out of range; LKS_RESOURCE_EXHAUSTED: out of memory;
 * LKS_FAILED_PRECONDITION: in a forked child. */
lks_code lks_mutex_new_sized(lks_channel *channel, const char *name, const lks_lock_options *options,
                             size_t options_bytes, lks_mutex **ret, lks_error *error);

static inline lks_code lks_mutex_new(lks_channel *channel, const char *name, const lks_lock_options *options,
                                     lks_mutex **ret, lks_error *error)
{
    return lks_mutex_new_sized(channel, name, options, sizeof(lks_lock_options), ret, error);
}

/* Locks it for this thread. Blocks: queues at the server for at most timeout_ms (0 = answers at once); if no server
 * answers, the channel's timeout is added. error may be NULL. See lks_lock_result; LKS_LOCK_FAILED with
 * LKS_FAILED_PRECONDITION: this thread holds it for reading (lks_rwlock), runs callbacks, or is in a forked child. */
lks_lock_result lks_mutex_lock(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error);

/* Unlocks one lock of this thread; the last unlock releases it at the server, and blocks until the server answers.
 * LKS_OK: it was held all the time. LKS_ABORTED: it had been lost, and others may have held it meanwhile (the Release
 * is still sent, in the background). LKS_FAILED_PRECONDITION: this thread does not hold it; nothing was done. Any other
 * code: it is unlocked, but no server has answered yet. The Release is retried in the background until a server
 * answers, for a day at most; the lock is free at the end of its lease at the latest. */
lks_code lks_mutex_unlock(lks_mutex *mutex, lks_error *error);

/* True unless this thread holds the mutex and its lease is valid. It becomes true as soon as the lock counts as lost,
 * even before on_lost runs. Does not block, sends nothing. */
bool lks_mutex_is_lost(const lks_mutex *mutex);

/* How long this thread's lock cannot count as lost even without a renewal, in whole milliseconds. Use it as a deadline
 * that another thread or process enforces. 0 when it is lost, or less is left. */
uint32_t lks_mutex_left_ms(const lks_mutex *mutex);

/* The fence of this thread's lock, greater than that of every earlier holder. 0 when this thread does not hold the
 * lock. */
uint64_t lks_mutex_fence(const lks_mutex *mutex);

/* Frees it, and waits for a running on_lost. LKS_FAILED_PRECONDITION, and nothing is done: it is locked or being
 * locked, its own on_lost calls this, or this is a forked child. Takes NULL. */
lks_code lks_mutex_free(lks_mutex *mutex);

/* The scoped form: unlocks the mutex at the end of the block, if it was acquired. */
typedef struct lks_mutex_guard {
    lks_mutex *mutex; /* NULL when there is nothing to unlock */
    lks_lock_result result;
} lks_mutex_guard;

/* lks_mutex_lock. */
lks_mutex_guard lks_mutex_guard_take(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error);

/* Calls lks_mutex_unlock once, at the end of the block or before. To get its result, set guard->mutex to NULL and call
 * lks_mutex_unlock yourself. */
void lks_mutex_guard_release(lks_mutex_guard *guard);

#if defined(__GNUC__)
#define LKS_MUTEX_GUARD lks_mutex_guard __attribute__((cleanup(lks_mutex_guard_release)))
#endif

#ifdef __cplusplus
}
#endif

#endif

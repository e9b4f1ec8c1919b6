/* A mutex over processes and machines: at most one thread anywhere holds it while
 * leases hold (lease.h says what that means, and what fences are for).
 *
 *     LKS_MUTEX_GUARD guard = lks_mutex_guard_take(mutex, 2000, &error);
 *     if (guard.result == LKS_LOCK_ACQUIRED)
 *         work(lks_mutex_fence(mutex));
 *
 * It is reentrant: a thread that holds it takes it again without a call to the server,
 * and unlocks it as often. All mutexes of one channel, group and name are one lock, the
 * same as an lks_rwlock taken for writing. Threads of one process are owners like any
 * other: each waits at the server in a place of its own in the one queue, so that
 * nobody overtakes another process' earlier request by way of a neighbour.
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

/* A mutex that is not locked; nothing is sent. `name` is 1..128 bytes of UTF-8 and is
 * copied; options may be NULL. *ret is the caller's to free. LKS_INVALID_ARGUMENT: no
 * name, a lease out of range; LKS_RESOURCE_EXHAUSTED: out of memory;
 * LKS_FAILED_PRECONDITION: in a forked child. */
lks_code lks_mutex_new_sized(lks_channel *channel, const char *name, const lks_lock_options *options,
                             size_t options_bytes, lks_mutex **ret, lks_error *error);

static inline lks_code lks_mutex_new(lks_channel *channel, const char *name, const lks_lock_options *options,
                                     lks_mutex **ret, lks_error *error)
{
    return lks_mutex_new_sized(channel, name, options, sizeof(lks_lock_options), ret, error);
}

/* Locks it for this thread. Blocks: queues at the server for at most timeout_ms (0 =
 * answers at once), and where no server answers the channel's own timeout comes on
 * top. error may be NULL. See lks_lock_result; LKS_LOCK_FAILED with
 * LKS_FAILED_PRECONDITION: this thread holds it in a weaker way (lks_rwlock for
 * reading), runs callbacks, or is a forked child's. */
lks_lock_result lks_mutex_lock(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error);

/* Undoes one lock of this thread; the last one releases it at the server, and blocks
 * until that is answered. LKS_OK: it was held all the time. LKS_ABORTED: it had been
 * lost, and others may have held it meanwhile (the Release is still sent, in the
 * background). LKS_FAILED_PRECONDITION: this thread does not hold it; nothing was done.
 * Any other code: it is unlocked, but no server has answered yet. The Release is tried in
 * the background until one does, for a day at most; the lock is free at the end of its lease at the latest. */
lks_code lks_mutex_unlock(lks_mutex *mutex, lks_error *error);

/* True unless this thread holds the mutex and its lease runs: from the moment on at
 * which the lock counts as lost, whether on_lost ran already or not. Does not block,
 * sends nothing. */
bool lks_mutex_is_lost(const lks_mutex *mutex);

/* For how long this thread's lock cannot count as lost even if it is not renewed any more, in whole milliseconds:
 * for a deadline that another thread or process enforces. 0 when it is lost, or less is left. */
uint32_t lks_mutex_left_ms(const lks_mutex *mutex);

/* The fence of this thread's lock: greater than that of every earlier holder. 0 when
 * this thread does not hold it. */
uint64_t lks_mutex_fence(const lks_mutex *mutex);

/* Frees it, and waits for an on_lost that runs. LKS_FAILED_PRECONDITION, and nothing is
 * done: it is being locked, what was locked through it is not unlocked, its own
 * on_lost is what calls this, or this is a forked child. Takes NULL. */
lks_code lks_mutex_free(lks_mutex *mutex);

/* The scoped form: gives the mutex back at the end of the block, if it was acquired. */
typedef struct lks_mutex_guard {
    lks_mutex *mutex; /* NULL when there is nothing to unlock */
    lks_lock_result result;
} lks_mutex_guard;

/* lks_mutex_lock. */
lks_mutex_guard lks_mutex_guard_take(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error);

/* lks_mutex_unlock, once; for the end of the block or before it. To learn what it
 * returns, set guard->mutex to NULL and call that. */
void lks_mutex_guard_release(lks_mutex_guard *guard);

#if defined(__GNUC__)
#define LKS_MUTEX_GUARD lks_mutex_guard __attribute__((cleanup(lks_mutex_guard_release)))
#endif

#ifdef __cplusplus
}
#endif

#endif

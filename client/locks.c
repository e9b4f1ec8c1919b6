/* lks_mutex, lks_rwlock and lks_semaphore: each is a struct lock, and an lks_permit is an lks_hold. A mutex is a
 * read-write lock that is only locked for writing. */
#include <lockstock/mutex.h>
#include <lockstock/rwlock.h>
#include <lockstock/semaphore.h>

#include "base/clock.h"
#include "client/lease/lock.h"

/* ---- mutexes ---------------------------------------------------------------------- */

lks_code lks_mutex_new_sized(lks_channel *channel, const char *name, const lks_lock_options *options,
                             size_t options_bytes, lks_mutex **ret, lks_error *error)
{
    struct lock *lock = NULL;
    lks_code code = lock_new(channel, name, 0, options, options_bytes, &lock, error);

    if (code == LKS_OK)
        *ret = (lks_mutex *)lock;
    return code;
}

lks_lock_result lks_mutex_lock(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter((struct lock *)mutex, LKS_LOCK_MODE_EXCLUSIVE, timeout_ms, error);
}

lks_code lks_mutex_unlock(lks_mutex *mutex, lks_error *error)
{
    return lock_leave((struct lock *)mutex, error);
}

bool lks_mutex_is_lost(const lks_mutex *mutex)
{
    return lock_left_ns((const struct lock *)mutex) == 0;
}

uint32_t lks_mutex_left_ms(const lks_mutex *mutex)
{
    return (uint32_t)(lock_left_ns((const struct lock *)mutex) / CLOCK_NS_PER_MS);
}

uint64_t lks_mutex_fence(const lks_mutex *mutex)
{
    return lock_fence((const struct lock *)mutex);
}

lks_code lks_mutex_free(lks_mutex *mutex)
{
    return lock_free((struct lock *)mutex);
}

lks_mutex_guard lks_mutex_guard_take(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error)
{
    lks_lock_result result = lks_mutex_lock(mutex, timeout_ms, error);

    return (lks_mutex_guard){.mutex = result == LKS_LOCK_ACQUIRED ? mutex : NULL, .result = result};
}

void lks_mutex_guard_release(lks_mutex_guard *guard)
{
    if (guard->mutex)
        lks_mutex_unlock(guard->mutex, NULL);
    guard->mutex = NULL;
}

/* ---- read-write locks --------------------------------------------------------------- */

lks_code lks_rwlock_new_sized(lks_channel *channel, const char *name, const lks_lock_options *options,
                              size_t options_bytes, lks_rwlock **ret, lks_error *error)
{
    struct lock *lock = NULL;
    lks_code code = lock_new(channel, name, 0, options, options_bytes, &lock, error);

    if (code == LKS_OK)
        *ret = (lks_rwlock *)lock;
    return code;
}

lks_lock_result lks_rwlock_read(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter((struct lock *)rwlock, LKS_LOCK_MODE_SHARED, timeout_ms, error);
}

lks_lock_result lks_rwlock_write(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter((struct lock *)rwlock, LKS_LOCK_MODE_EXCLUSIVE, timeout_ms, error);
}

lks_code lks_rwlock_unlock(lks_rwlock *rwlock, lks_error *error)
{
    return lock_leave((struct lock *)rwlock, error);
}

bool lks_rwlock_is_lost(const lks_rwlock *rwlock)
{
    return lock_left_ns((const struct lock *)rwlock) == 0;
}

uint64_t lks_rwlock_fence(const lks_rwlock *rwlock)
{
    return lock_fence((const struct lock *)rwlock);
}

lks_code lks_rwlock_free(lks_rwlock *rwlock)
{
    return lock_free((struct lock *)rwlock);
}

static lks_rwlock_guard guard_of(lks_rwlock *rwlock, lks_lock_result result)
{
    return (lks_rwlock_guard){.rwlock = result == LKS_LOCK_ACQUIRED ? rwlock : NULL, .result = result};
}

lks_rwlock_guard lks_rwlock_guard_read(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return guard_of(rwlock, lks_rwlock_read(rwlock, timeout_ms, error));
}

lks_rwlock_guard lks_rwlock_guard_write(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return guard_of(rwlock, lks_rwlock_write(rwlock, timeout_ms, error));
}

void lks_rwlock_guard_release(lks_rwlock_guard *guard)
{
    if (guard->rwlock)
        lks_rwlock_unlock(guard->rwlock, NULL);
    guard->rwlock = NULL;
}

/* ---- semaphores --------------------------------------------------------------------- */

lks_code lks_semaphore_new_sized(lks_channel *channel, const char *name, int64_t capacity,
                                 const lks_lock_options *options, size_t options_bytes, lks_semaphore **ret,
                                 lks_error *error)
{
    if (capacity < 1)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "capacity: must be at least 1");
    struct lock *lock = NULL;
    lks_code code = lock_new(channel, name, capacity, options, options_bytes, &lock, error);

    if (code == LKS_OK)
        *ret = (lks_semaphore *)lock;
    return code;
}

lks_lock_result lks_semaphore_acquire(lks_semaphore *semaphore, int64_t permits, uint32_t timeout_ms, lks_permit **ret,
                                      lks_error *error)
{
    lks_hold *hold = NULL;

    if (permits < 1) {
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "permits: must be at least 1");
        return LKS_LOCK_FAILED;
    }
    lks_lock_result result =
        lock_take((struct lock *)semaphore, LKS_LOCK_MODE_PERMIT, permits, timeout_ms, &hold, error);
    if (result == LKS_LOCK_ACQUIRED)
        *ret = (lks_permit *)hold;
    return result;
}

lks_code lks_permit_release(lks_permit *permit, lks_error *error)
{
    if (permit)
        return lock_give_back((lks_hold *)permit, error);
    lks_error_clear(error);
    return LKS_OK;
}

bool lks_permit_is_lost(const lks_permit *permit)
{
    return lks_hold_is_lost((const lks_hold *)permit);
}

uint64_t lks_permit_fence(const lks_permit *permit)
{
    return lks_hold_fence((const lks_hold *)permit, 0);
}

lks_code lks_semaphore_free(lks_semaphore *semaphore)
{
    return lock_free((struct lock *)semaphore);
}

void lks_permit_cleanup(lks_permit **permit)
{
    lks_permit_release(*permit, NULL);
    *permit = NULL;
}

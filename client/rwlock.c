/* lks_rwlock: a lock that is held SHARED or EXCLUSIVE. Stateless over lock.c. */
#include <lockstock/rwlock.h>

#include "client/lease/lock.h"

struct lks_rwlock {
    struct lock lock;
};

lks_code lks_rwlock_new(lks_channel *channel, const char *name, const lks_lock_options *options, lks_rwlock **ret,
                        lks_error *error)
{
    struct lock *lock = NULL;
    lks_code code = lock_new(channel, name, 0, options, &lock, error);

    if (code == LKS_OK)
        *ret = (lks_rwlock *)lock;
    return code;
}

lks_lock_result lks_rwlock_read(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter(&rwlock->lock, LKS_LOCK_MODE_SHARED, timeout_ms, error);
}

lks_lock_result lks_rwlock_write(lks_rwlock *rwlock, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter(&rwlock->lock, LKS_LOCK_MODE_EXCLUSIVE, timeout_ms, error);
}

lks_code lks_rwlock_unlock(lks_rwlock *rwlock, lks_error *error)
{
    return lock_leave(&rwlock->lock, error);
}

bool lks_rwlock_is_lost(const lks_rwlock *rwlock)
{
    return lock_left_ns(&rwlock->lock) == 0;
}

uint64_t lks_rwlock_fence(const lks_rwlock *rwlock)
{
    return lock_fence(&rwlock->lock);
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

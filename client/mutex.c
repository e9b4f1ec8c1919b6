/* lks_mutex: a lock that is held in one way, EXCLUSIVE. Stateless over lock.c. */
#include <lockstock/mutex.h>

#include "client/lease/lock.h"
#include "base/clock.h"

struct lks_mutex {
    struct lock lock;
};

lks_code lks_mutex_new(lks_channel *channel, const char *name, const lks_lock_options *options, lks_mutex **ret,
                       lks_error *error)
{
    struct lock *lock = NULL;
    lks_code code = lock_new(channel, name, 0, options, &lock, error);

    if (code == LKS_OK)
        *ret = (lks_mutex *)lock;
    return code;
}

lks_lock_result lks_mutex_lock(lks_mutex *mutex, uint32_t timeout_ms, lks_error *error)
{
    return lock_enter(&mutex->lock, LKS_LOCK_MODE_EXCLUSIVE, timeout_ms, error);
}

lks_code lks_mutex_unlock(lks_mutex *mutex, lks_error *error)
{
    return lock_leave(&mutex->lock, error);
}

bool lks_mutex_is_lost(const lks_mutex *mutex)
{
    return lock_left_ns(&mutex->lock) == 0;
}

uint32_t lks_mutex_left_ms(const lks_mutex *mutex)
{
    return (uint32_t)(lock_left_ns(&mutex->lock) / CLOCK_NS_PER_MS);
}

uint64_t lks_mutex_fence(const lks_mutex *mutex)
{
    return lock_fence(&mutex->lock);
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

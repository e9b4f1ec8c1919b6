/* lks_semaphore: a lock whose holds, in mode PERMIT, belong to no thread. An lks_permit is an lks_hold. */
#include <lockstock/semaphore.h>

#include "client/lease/lock.h"

struct lks_semaphore {
    struct lock lock;
};

lks_code lks_semaphore_new(lks_channel *channel, const char *name, int64_t capacity, const lks_lock_options *options,
                           lks_semaphore **ret, lks_error *error)
{
    struct lock *lock = NULL;

    if (capacity < 1)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "capacity: must be at least 1");
    lks_code code = lock_new(channel, name, capacity, options, &lock, error);
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
    lks_lock_result result = lock_take(&semaphore->lock, LKS_LOCK_MODE_PERMIT, permits, timeout_ms, &hold, error);
    if (result == LKS_LOCK_ACQUIRED)
        *ret = (lks_permit *)hold;
    return result;
}

lks_code lks_permit_release(lks_permit *permit, lks_error *error)
{
    return permit ? lock_give_back((lks_hold *)permit, error) : LKS_OK;
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

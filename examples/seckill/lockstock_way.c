/* The same lock, by lockstock: by the stubs, one call for each step, and by lks_mutex. */
#include "lock_way.h"

#include <lockstock/mutex.h>

static void note(lock_worker *w, lks_code code, const lks_error *error)
{
    if (code != LKS_OK && w->error.code == LKS_OK)
        w->error = *error;
}

static bool lockstock_lock(lock_worker *w)
{
    lks_acquire_outcome outcome = LKS_ACQUIRE_OUTCOME_UNSPECIFIED;
    lks_error error = {0};

    if (!barrier_reach(&w->stop, POINT_LOOKED))
        return false;
    note(w, lease_acquire(w->channel, w->key, w->name, w->lease_ms, 0, &w->lease, &outcome, &error), &error);
    return barrier_reach(&w->stop, POINT_TAKEN) && outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
}

static void lockstock_unlock(lock_worker *w)
{
    lks_error error = {0};

    if (barrier_reach(&w->stop, POINT_LEAVES))
        note(w, lease_release(w->channel, w->key, &w->lease, NULL, &error), &error);
}

static lock_end lockstock_end(lock_worker *w)
{
    lease_look look = {0};
    lks_error error = {0};
    int64_t before = wall_ms();

    note(w, lease_inspect(w->channel, w->key, &look, &error), &error);
    if (!look.held)
        return (lock_end){LOCK_FREE, LOCK_FREE};
    return (lock_end){before + look.left_ms, wall_ms() + look.left_ms + 1};
}

static bool lockstock_may_write(lock_worker *w)
{
    lks_error error = {0};
    bool good = false;

    note(w, lease_check_fence(w->channel, w->key, w->lease.fence, &good, &error), &error);
    return good;
}

static void mutex_unlock(lock_worker *w)
{
    lks_mutex_unlock(w->mutex, NULL);
    lks_mutex_free(w->mutex);
    w->mutex = NULL;
}

/* Not renewed, as if the process were frozen. Once it does not hold the mutex any more
 * it unlocks it, on the thread that locked it, and is done with it. */
static bool mutex_lock(lock_worker *w)
{
    const lks_lock_options options = {.owner = w->name, .lease_ms = (uint32_t)w->lease_ms, .max_hold_ms = 1};
    lks_error error = {0};

    if (!w->mutex)
        note(w, lks_mutex_new(w->channel, w->key, &options, &w->mutex, &error), &error);
    if (!w->mutex)
        return false;
    lks_lock_result result = lks_mutex_lock(w->mutex, 0, &error);
    if (result == LKS_LOCK_ACQUIRED) {
        w->lease.fence = lks_mutex_fence(w->mutex);
        return true;
    }
    if (result == LKS_LOCK_FAILED)
        note(w, error.code, &error);
    mutex_unlock(w);
    return false;
}

const lock_way lockstock_way = {"lockstock", lockstock_lock, lockstock_unlock, lockstock_end, lockstock_may_write};
const lock_way lockstock_mutex_way = {"lks_mutex", mutex_lock, mutex_unlock, lockstock_end, lockstock_may_write};

/* Invariant: a thread's holds are in a tree of that thread, so that no other thread can unlock them. Each hold, and
 * each attempt to acquire one, counts in its lock's `holds` until the last use of the lock. */
#include <lockstock/rpc/options.h>
#include "client/lease/lock.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local void *mine; /* the holds of this thread, by channel, group and name */

static lks_lock_result refuse(lks_error *error, lks_lock_result result, lks_code code, lks_reason reason,
                              const char *text)
{
    lks_error_set_reason(error, code, LKS_APPLIED_NO, reason, "%s", text);
    return result;
}

/* ---- locks -------------------------------------------------------------------- */

lks_code lock_new(lks_channel *channel, const char *name, int64_t capacity, const lks_lock_options *options,
                  size_t options_bytes, struct lock **ret, lks_error *error)
{
    lks_lock_options own;
    lks_code code = lks_rpc_options_read(&own, sizeof own, options, options_bytes, "lks_lock_options", error);

    if (code != LKS_OK)
        return code;
    struct hold_spec spec = {.channel = channel,
                             .group = own.group,
                             .owner = own.owner,
                             .names = &name,
                             .n_names = 1,
                             .capacity = capacity,
                             .lease_ms = own.lease_ms,
                             .renew_ms = own.renew_ms,
                             .max_hold_ms = own.max_hold_ms,
                             .on_lost = own.on_lost,
                             .arg = own.arg};
    code = lease_check_process(error);
    if (code == LKS_OK && (!name || *name == '\0'))
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "name: must not be empty");
    if (code != LKS_OK || (code = hold_check(&spec, error)) != LKS_OK)
        return code;
    struct lock *lock = malloc(sizeof *lock + hold_spec_bytes(&spec));
    if (!lock)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    hold_spec_copy(&lock->spec, &spec, lock + 1);
    atomic_init(&lock->holds, 0);
    *ret = lock;
    lks_error_clear(error);
    return LKS_OK;
}

lks_code lock_free(struct lock *lock)
{
    const lks_hold *reported = hold_reporting();

    if (!lock)
        return LKS_OK;
    if (lease_check_process(NULL) != LKS_OK || atomic_load(&lock->holds) != 0 ||
        (reported && reported->spec == &lock->spec))
        return LKS_FAILED_PRECONDITION;
    hold_quiesce(&lock->spec);
    free(lock);
    return LKS_OK;
}

lks_lock_result lock_take(struct lock *lock, lks_lock_mode mode, int64_t permits, uint32_t timeout_ms, lks_hold **ret,
                          lks_error *error)
{
    lks_error unwanted;

    error = error ? error : &unwanted;
    atomic_fetch_add(&lock->holds, 1);
    lks_lock_result result = hold_take(&lock->spec, mode, permits, timeout_ms, ret, error);
    if (result != LKS_LOCK_ACQUIRED)
        atomic_fetch_sub(&lock->holds, 1);
    return result;
}

lks_code lock_give_back(lks_hold *hold, lks_error *error)
{
    struct lock *lock = (struct lock *)(uintptr_t)hold->spec; /* its first member */
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    code = hold_give_back(hold, error);
    atomic_fetch_sub(&lock->holds, 1);
    return code;
}

/* ---- locks of a thread ---------------------------------------------------------- */

static int compare_specs(const struct hold_spec *a, const struct hold_spec *b)
{
    if (a->channel != b->channel)
        return (uintptr_t)a->channel < (uintptr_t)b->channel ? -1 : 1;
    int groups = strcmp(a->group, b->group);
    return groups != 0 ? groups : strcmp(a->names[0], b->names[0]);
}

static int compare(const void *a, const void *b)
{
    return compare_specs(((const lks_hold *)a)->spec, ((const lks_hold *)b)->spec);
}

static lks_hold *find(const struct lock *lock)
{
    const lks_hold key = {.spec = &lock->spec};
    lks_hold **node = tfind(&key, &mine, compare);

    return node ? *node : NULL;
}

/* The calling thread's hold; NULL when there is none. */
static const lks_hold *held_here(const struct lock *lock)
{
    return lease_check_process(NULL) == LKS_OK ? find(lock) : NULL;
}

uint64_t lock_left_ns(const struct lock *lock)
{
    const lks_hold *hold = held_here(lock);

    return hold ? lease_left_ns(&hold->grant.lease) : 0;
}

uint64_t lock_fence(const struct lock *lock)
{
    const lks_hold *hold = held_here(lock);

    return hold ? hold->fences[0] : 0;
}

static lks_lock_result enter_again(lks_hold *hold, lks_lock_mode mode, lks_error *error)
{
    if (lks_hold_is_lost(hold))
        return refuse(error, LKS_LOCK_LOST, LKS_FAILED_PRECONDITION, LKS_REASON_LEASE_LOST,
                      "this thread has lost the lock and must unlock it first");
    if (mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED)
        return refuse(error, LKS_LOCK_FAILED, LKS_FAILED_PRECONDITION, LKS_REASON_NONE,
                      "this thread holds the lock for reading and must unlock it before it can lock it for writing");
    hold->count++;
    lks_error_clear(error);
    return LKS_LOCK_ACQUIRED;
}

lks_lock_result lock_enter(struct lock *lock, lks_lock_mode mode, uint32_t timeout_ms, lks_error *error)
{
    if (lease_check_process(error) != LKS_OK)
        return LKS_LOCK_FAILED;
    lks_hold *hold = find(lock);
    if (hold)
        return enter_again(hold, mode, error);
    lks_lock_result result = lock_take(lock, mode, 0, timeout_ms, &hold, error);
    if (result != LKS_LOCK_ACQUIRED || tsearch(hold, &mine, compare))
        return result;
    lock_give_back(hold, NULL);
    return refuse(error, LKS_LOCK_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NONE, "out of memory");
}

lks_code lock_leave(struct lock *lock, lks_error *error)
{
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    lks_hold *reported = hold_reporting();
    if (reported && compare_specs(reported->spec, &lock->spec) == 0) {
        grant_give_back_later(&reported->grant);
        return hold_set_lost(error);
    }
    lks_hold *hold = find(lock);
    if (!hold)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "this thread does not hold the lock");
    if (--hold->count == 0) {
        tdelete(hold, &mine, compare);
        return lock_give_back(hold, error);
    }
    if (lks_hold_is_lost(hold))
        return hold_set_lost(error);
    lks_error_clear(error);
    return LKS_OK;
}

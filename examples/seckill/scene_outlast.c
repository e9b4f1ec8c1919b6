/* Scene d: work that takes longer than the lease. What is shown is an order of events,
 * recorded by who causes them; the clock says only how long the work takes. */
#include "lock_scenes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <lockstock/mutex.h>

#include "lease.h"
#include "patience.h"
#include "resource.h"

enum { KEPT_LEASE_MS = 5000, KEPT_LEASES = 2, UNKEPT_LEASE_MS = 200, LONG_MS = 60000, LOOK_MS = 5 };

typedef struct outlast {
    lks_channel *channel;
    char name[48];
    resource resource;
    atomic_bool first_done; /* set before it unlocks */
    atomic_bool second_gone;
    uint64_t first_fence, second_fence;
    bool second_came_after; /* the first had done its work when the second got the lock */
    bool first_wrote, second_wrote;
    bool register_agrees; /* CheckFence said the same as the resource, each time */
    lks_error error;      /* of the second's thread */
} outlast;

static lks_code write_as(outlast *o, const char *who, uint64_t fence, bool *wrote, lks_error *error)
{
    bool register_says = false;
    lks_code code = lease_check_fence(o->channel, o->name, fence, &register_says, error);

    *wrote = resource_write(&o->resource, who, fence);
    o->register_agrees = o->register_agrees && register_says == *wrote;
    return code;
}

/* A result of a mutex as a code of its own. */
static lks_code code_of(lks_lock_result result, lks_error *error)
{
    return result == LKS_LOCK_ACQUIRED ? LKS_OK : error->code != LKS_OK ? error->code : LKS_ABORTED;
}

static void *second_worker(void *arg)
{
    outlast *o = arg;
    lks_mutex *mutex = NULL;
    lks_code code = lks_mutex_new(o->channel, o->name, NULL, &mutex, &o->error);

    if (code == LKS_OK && code_of(lks_mutex_lock(mutex, LONG_MS, &o->error), &o->error) == LKS_OK) {
        o->second_came_after = atomic_load(&o->first_done);
        o->second_fence = lks_mutex_fence(mutex);
        code = write_as(o, "the second", o->second_fence, &o->second_wrote, &o->error);
        lks_mutex_unlock(mutex, code == LKS_OK ? &o->error : NULL);
    }
    lks_mutex_free(mutex);
    atomic_store(&o->second_gone, true);
    return NULL;
}

/* Works for so long, and until the second waits for the lock. */
static lks_code work(outlast *o, int64_t ms, lks_error *error)
{
    int64_t end_ms = clock_ms() + ms;
    lease_look look = {0};
    lks_code code = LKS_OK;

    while (code == LKS_OK && (clock_ms() < end_ms || look.waiters == 0) && !atomic_load(&o->second_gone)) {
        clock_rest(LOOK_MS);
        code = lease_inspect(o->channel, o->name, &look, error);
    }
    return code;
}

/* With the watchdog: lks_mutex. */
static lks_code kept(outlast *o, lks_error *error)
{
    const lks_lock_options options = {.lease_ms = KEPT_LEASE_MS};
    lks_mutex *mutex = NULL;
    pthread_t second;
    lks_code code = lks_mutex_new(o->channel, o->name, &options, &mutex, error);

    if (code != LKS_OK || (code = code_of(lks_mutex_lock(mutex, 0, error), error)) != LKS_OK)
        goto cleanup;
    o->first_fence = lks_mutex_fence(mutex);
    if (pthread_create(&second, NULL, second_worker, o) != 0) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread");
        lks_mutex_unlock(mutex, NULL);
        goto cleanup;
    }
    code = work(o, KEPT_LEASES * KEPT_LEASE_MS, error);
    if (code == LKS_OK)
        code = write_as(o, "the first", o->first_fence, &o->first_wrote, error);
    atomic_store(&o->first_done, true);
    lks_code unlocked = lks_mutex_unlock(mutex, code == LKS_OK ? error : NULL);
    pthread_join(second, NULL);
    code = code != LKS_OK ? code : unlocked;
    if (code == LKS_OK && o->error.code != LKS_OK) {
        *error = o->error;
        code = error->code;
    }
cleanup:
    lks_mutex_free(mutex);
    return code;
}

/* Without: the stubs, and nobody renews. The first works until the second is done. */
static lks_code unkept(outlast *o, lks_error *error)
{
    lease first = {.fence = 0}, second = {.fence = 0};
    lks_acquire_outcome got_first = LKS_ACQUIRE_OUTCOME_UNSPECIFIED, got_second = LKS_ACQUIRE_OUTCOME_UNSPECIFIED;
    bool was_held = true;
    lks_code code = lease_acquire(o->channel, o->name, "first", UNKEPT_LEASE_MS, 0, &first, &got_first, error);

    if (code != LKS_OK)
        return code;
    code = lease_acquire(o->channel, o->name, "second", LONG_MS, LONG_MS, &second, &got_second, error);
    if (code != LKS_OK)
        return code;
    o->second_came_after = atomic_load(&o->first_done);
    o->first_fence = first.fence;
    o->second_fence = got_second == LKS_ACQUIRE_OUTCOME_ACQUIRED ? second.fence : 0;
    if ((code = write_as(o, "the second", second.fence, &o->second_wrote, error)) != LKS_OK ||
        (code = write_as(o, "the first", first.fence, &o->first_wrote, error)) != LKS_OK)
        return code;
    atomic_store(&o->first_done, true);
    code = lease_release(o->channel, o->name, &first, &was_held, error);
    if (code == LKS_OK && was_held)
        code = lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "the first still held what the second got");
    lks_code released = lease_release(o->channel, o->name, &second, NULL, code == LKS_OK ? error : NULL);
    return code != LKS_OK ? code : released;
}

static void print(FILE *table, const char *lock, const outlast *o)
{
    fprintf(table, "  %-20s  %-22s  %-17s  %-18s  %s\n", lock,
            o->second_came_after ? "when the first is done" : "while the first works",
            o->first_wrote ? "written" : "refused, late", o->second_wrote ? "written" : "refused", o->resource.writer);
}

static lks_code play(const lock_setup *setup, lks_code (*how)(outlast *, lks_error *), outlast *o, lks_error *error)
{
    char run[17];
    lks_code code = lock_run_id(run, error);

    *o = (outlast){.resource = RESOURCE_INIT, .register_agrees = true};
    if (code != LKS_OK || (code = lks_channel_open(setup->urls, NULL, &o->channel, error)) != LKS_OK)
        return code;
    snprintf(o->name, sizeof o->name, "seckill:%s:report", run);
    code = how(o, error);
    lks_channel_close(o->channel);
    return code;
}

lks_code scene_outlast(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    outlast with, without;
    lks_code code = play(setup, kept, &with, error);

    if (code != LKS_OK || (code = play(setup, unkept, &without, error)) != LKS_OK)
        return code;
    fprintf(claims->table, "scene d: work that lasts longer than its lease\n");
    fprintf(claims->table, "  %-20s  %-22s  %-17s  %-18s  %s\n", "the first's lock", "the second gets it",
            "the first's write", "the second's write", "last written by");
    print(claims->table, "lks_mutex, kept", &with);
    print(claims->table, "Acquire, not renewed", &without);
    lock_claim(claims, with.second_came_after, "the second got a lock that was kept");
    lock_claim(claims, with.first_wrote && with.second_wrote, "a write in time was refused");
    lock_claim(claims, with.first_fence < with.second_fence && without.first_fence < without.second_fence,
               "a later fence is not greater");
    lock_claim(claims, !without.second_came_after, "a lease did not end");
    lock_claim(claims, without.second_wrote && !without.first_wrote, "a late write was not refused");
    lock_claim(claims, strcmp(without.resource.writer, "the second") == 0, "the last word is not the second's");
    lock_claim(claims, with.register_agrees && without.register_agrees, "CheckFence and the resource differ");
    return LKS_OK;
}

/* lock, lock-hot. */
#include <inttypes.h>
#include <stdio.h>

#include "scenario.h"

enum { LEASE_MS = 60000, WAIT_MS = 60000, ACQUIRE = 0, RELEASE = 1 };

static void on_acquire(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_acquire_response *response = message;
    bool acquired = response && response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;

    if (acquired && o->world->n_things == 1) {
        if (atomic_fetch_add(&o->world->holders, 1) > 0)
            atomic_fetch_add(&o->world->overlaps, 1);
        o->handed = atomic_exchange(&o->world->last, o->slot + 1) != o->slot + 1;
    }
    drive_ended(o, code, response ? (int)response->outcome : 0, acquired, error);
}

static void on_release(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_release_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0, false, error);
}

static lks_code start(op *o, int64_t wait_ms, lks_error *error)
{
    if (o->step == ACQUIRE) {
        lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
        lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
        lks_call_options options = *o->call_options;

        target.name = scenario_thing(o);
        request.targets = targets;
        request.n_targets = 1;
        request.token = o->id;
        request.lease_ms = LEASE_MS;
        request.wait_ms = wait_ms;
        options.timeout_ms += (uint32_t)wait_ms;
        return drive_call(o, &lks_lock_acquire_method, &request, &options, on_acquire, error);
    }
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = scenario_thing(o);
    request.token = o->id;
    if (o->world->n_things == 1)
        atomic_fetch_sub(&o->world->holders, 1);
    return drive_call(o, &lks_lock_release_method, &request, o->call_options, on_release, error);
}

lks_code start_lock(op *o, lks_error *error)
{
    return start(o, 0, error);
}

lks_code start_hot_lock(op *o, lks_error *error)
{
    return start(o, WAIT_MS, error);
}

/* What was acquired was released, and the one lock never had two holders. */
bool check_lock(world *w, const tally *all, char text[CHECK_BYTES])
{
    uint64_t acquired = tally_of(all, w->scenario, ACQUIRE, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    uint64_t released = tally_of(all, w->scenario, RELEASE, LKS_RELEASE_OUTCOME_RELEASED);
    unsigned overlaps = atomic_load(&w->overlaps);

    snprintf(text, CHECK_BYTES, "acquired %" PRIu64 ", released %" PRIu64 ", held by two %u times", acquired, released,
             overlaps);
    return overlaps == 0 && released <= acquired && released + all->not_ok >= acquired;
}

/* Locks in every mode and every end: released, run out, taken away; waiters that are
 * granted, time out, are cancelled; tombstones; fence registers, of which there are as
 * many as resources. */

#include <lockstock/v1/lock.lks_client.h>

#include "fault/memory_load.h"
#include "test.h"

enum { BRIEF_MS = 20, LONG_MS = 60000, RESOURCES = 4, NAME_MAX_BYTES = 64 };

/* "what-round", to be overwritten by the next but 63. */
static char *named(const char *what, size_t round)
{
    static char names[64][NAME_MAX_BYTES];
    static size_t next;
    char *name = names[next++ % 64];

    snprintf(name, NAME_MAX_BYTES, "%s-of-the-round-%zu", what, round);
    return name;
}

typedef struct wanted {
    lks_acquire_request request;
    lks_target targets[2], *at[2];
} wanted;

/* Points into *w and the names. */
static lks_acquire_request *want(wanted *w, size_t round, const char *token, lks_lock_mode mode, int64_t lease_ms,
                                 int64_t wait_ms)
{
    *w = (wanted){.request = LKS_ACQUIRE_REQUEST_INIT, .targets = {LKS_TARGET_INIT, LKS_TARGET_INIT}};
    w->request.group = named("group", round);
    w->request.token = named(token, round);
    w->request.lease_ms = lease_ms;
    w->request.wait_ms = wait_ms;
    w->request.n_targets = 2;
    w->request.targets = w->at;
    for (int i = 0; i < 2; i++) {
        w->at[i] = &w->targets[i];
        w->targets[i].name = named(i == 0 ? "door" : "window", round);
        w->targets[i].mode = mode;
        w->targets[i].capacity = mode == LKS_LOCK_MODE_PERMIT ? 2 : 0;
    }
    return &w->request;
}

static void acquire(lks_channel *channel, const lks_acquire_request *request, lks_acquire_outcome expected)
{
    lks_acquire_response *response = NULL;
    lks_error error;

    load_ok(lks_lock_acquire(channel, request, NULL, &response, &error), &error, "Acquire");
    assert_int_equal(response->outcome, expected);
    lks_acquire_response_free(response);
}

static void release(lks_channel *channel, size_t round, const char *token)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_error error;

    request.group = named("group", round);
    request.token = named(token, round);
    load_ok(lks_lock_release(channel, &request, NULL, NULL, &error), &error, "Release");
}

static int64_t waiters(lks_channel *channel, size_t round)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response = NULL;
    lks_error error;

    request.group = named("group", round);
    request.name = named("door", round);
    load_ok(lks_lock_inspect(channel, &request, NULL, &response, &error), &error, "Inspect");
    int64_t n = response->waiters;
    lks_inspect_response_free(response);
    return n;
}

static lks_call *wait_for(lks_channel *channel, const lks_acquire_request *request)
{
    lks_call *call = NULL;
    lks_error error;

    load_ok(lks_lock_acquire_start(channel, request, NULL, NULL, NULL, &call, &error), &error, "Acquire");
    return call;
}

/* One holds; of those who wait, one is cancelled, one gives up, one is granted. */
static void queue(lks_channel *const channels[], size_t round)
{
    wanted w;
    lks_error error;

    acquire(channels[0], want(&w, round, "first", LKS_LOCK_MODE_EXCLUSIVE, LONG_MS, 0), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    lks_call *cancelled = wait_for(channels[1], want(&w, round, "cancelled", LKS_LOCK_MODE_PERMIT, LONG_MS, LONG_MS));
    lks_call *granted = wait_for(channels[1], want(&w, round, "granted", LKS_LOCK_MODE_SHARED, LONG_MS, LONG_MS));
    while (waiters(channels[0], round) != 2)
        ;
    load_look("lock:w");
    acquire(channels[0], want(&w, round, "impatient", LKS_LOCK_MODE_EXCLUSIVE, LONG_MS, BRIEF_MS),
            LKS_ACQUIRE_OUTCOME_TIMED_OUT);
    lks_call_cancel(cancelled);
    while (waiters(channels[0], round) != 1)
        ;
    release(channels[0], round, "first");
    load_ok(lks_call_wait(granted, &error), &error, "the waiting Acquire");
    assert_int_equal(lks_lock_acquire_response(granted)->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    release(channels[1], round, "granted");
    lks_call_free(granted);
    lks_call_free(cancelled);
}

static void fence(lks_channel *channel, size_t round)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_error error;

    request.resource = named("resource", round % RESOURCES);
    request.fence = round + 1;
    load_ok(lks_lock_check_fence(channel, &request, NULL, NULL, &error), &error, "CheckFence");
}

void load_locks(lks_channel *const channels[LOAD_SERVERS], size_t round)
{
    lks_force_release_request force = LKS_FORCE_RELEASE_REQUEST_INIT;
    lks_renew_request renew = LKS_RENEW_REQUEST_INIT;
    lks_lease lease = LKS_LEASE_INIT, *leases[] = {&lease};
    lks_error error;
    wanted w;

    queue(channels, round);
    acquire(channels[0], want(&w, round, "permit", LKS_LOCK_MODE_PERMIT, LONG_MS, 0), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    lease.group = named("group", round);
    lease.token = named("permit", round);
    lease.lease_ms = 2 * LONG_MS;
    renew.n_leases = 1;
    renew.leases = leases;
    load_ok(lks_lock_renew(channels[1], &renew, NULL, NULL, &error), &error, "Renew");
    acquire(channels[1], want(&w, round, "second", LKS_LOCK_MODE_PERMIT, LONG_MS, 0), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    load_look("lock:h");
    acquire(channels[1], want(&w, round, "busy", LKS_LOCK_MODE_EXCLUSIVE, LONG_MS, 0), LKS_ACQUIRE_OUTCOME_BUSY);
    force.group = named("group", round);
    force.name = named("door", round);
    load_ok(lks_lock_force_release(channels[0], &force, NULL, NULL, &error), &error, "ForceRelease");
    release(channels[0], round, "permit");
    release(channels[0], round, "second");
    release(channels[0], round, "never-seen");
    fence(channels[0], round);
    /* The last one is left to run out, and one waits for that. */
    acquire(channels[0], want(&w, round, "forgotten", LKS_LOCK_MODE_EXCLUSIVE, BRIEF_MS, 0),
            LKS_ACQUIRE_OUTCOME_ACQUIRED);
    acquire(channels[1], want(&w, round, "heir", LKS_LOCK_MODE_EXCLUSIVE, LONG_MS, LONG_MS),
            LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

/* Leases of a namespace whose locks are in the lock store: the stored lease is longer than that of the answer, for first
 * grants, grants in a message, replays and renewals. */
#include "memory.h"
#include "services/lock.h"
#include "services/rounds.h"
#include "test.h"

enum { SLACK_MS = 100, LEASE_MS = 1000 };

static lks_rpc_arena *arena;

static int open_arena(void **unused)
{
    arena = lks_rpc_arena_new();
    return 0;
}

static int close_arena(void **unused)
{
    lks_rpc_arena_free(arena);
    return 0;
}

static const service_method *method(const char *name)
{
    for (size_t i = 0; i < lock_service.n_methods; i++)
        if (strcmp(strrchr(lock_service.methods[i].method->path, '/') + 1, name) == 0)
            return &lock_service.methods[i];
    return NULL;
}

static void plan_of(rounds *r, const char *name, const void *request)
{
    const plan settings = {.arena = arena,
                           .ns = lks_rpc_slice_of("default"),
                           .server = "me",
                           .service = &lock_service,
                           .repeat_ms = 1000,
                           .lock_slack_ms = SLACK_MS};

    assert_true(rounds_plan(r, method(name), request, &settings));
}

/* The response that this reply of the store leads to. */
static const void *answered(rounds *r, const store_value *reply)
{
    const store_result result = {.code = LKS_OK, .applied = LKS_APPLIED_YES, .message = "", .value = reply};

    assert_int_equal(rounds_start(r, 1), ROUNDS_CALLS);
    assert_int_equal(rounds_reply(r, 0, &result, 2), ROUNDS_ANSWERED);
    return r->response;
}

static lks_acquire_request acquire(int64_t wait_ms)
{
    static lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    target.name = "x";
    request.n_targets = 1;
    request.targets = targets;
    request.token = "token-of-sixteen-bytes";
    request.lease_ms = LEASE_MS;
    request.wait_ms = wait_ms;
    return request;
}

#define TEXT(text) ((store_value){.type = STORE_STRING, .string = {(text), strlen(text)}})
#define NUMBER(number) ((store_value){.type = STORE_INTEGER, .integer = (number)})

TEST(a_grant_is_stored_for_longer)
{
    const lks_acquire_request request = acquire(5000);
    const store_value fence = NUMBER(7), reply = {.type = STORE_ARRAY, .n = 1, .element = &fence};
    rounds r;

    plan_of(&r, "Acquire", &request);
    assert_string_equal(r.plan.calls[0].args[ARG_LOCK_ACQUIRE_LEASE_MS].data, "1100");
    const char *copy = r.plan.calls[0].args[ARG_LOCK_ACQUIRE_COPY].data; /* the lease of a grant to a call that waits */
    assert_string_equal(strrchr(copy, '.'), ".1100");
    const lks_acquire_response *response = answered(&r, &reply);
    assert_int_equal(response->lease_ms, LEASE_MS);
}

TEST(replay_reports_the_remaining_lease_without_slack)
{
    const lks_acquire_request request = acquire(0);
    const int64_t left[] = {600, 60}, told[] = {500, 0};

    for (size_t i = 0; i < 2; i++) {
        const store_value elements[] = {TEXT("ACQUIRED"), NUMBER(left[i]), NUMBER(7)};
        const store_value reply = {.type = STORE_ARRAY, .n = 3, .element = elements};
        rounds r;
        plan_of(&r, "Acquire", &request);
        const lks_acquire_response *response = answered(&r, &reply);
        assert_int_equal(response->lease_ms, told[i]);
    }
}

TEST(renewal_is_stored_with_slack_and_reported_without)
{
    lks_lease lease = LKS_LEASE_INIT, *leases[] = {&lease};
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    const store_value elements[] = {TEXT("RENEWED"), NUMBER(LEASE_MS + SLACK_MS)};
    const store_value reply = {.type = STORE_ARRAY, .n = 2, .element = elements};
    rounds r;

    lease.group = "g";
    lease.token = "token-of-sixteen-bytes";
    lease.lease_ms = LEASE_MS;
    request.n_leases = 1;
    request.leases = leases;
    plan_of(&r, "Renew", &request);
    assert_string_equal(r.plan.calls[0].args[ARG_LOCK_RENEW_LEASE_MS].data, "1100");
    const lks_renew_response *response = answered(&r, &reply);
    assert_int_equal(response->results[0]->lease_ms, LEASE_MS);
}

/* A call that waits is packed, and its lease is found again from its request. */
TEST(a_parked_call_keeps_the_slack)
{
    const lks_acquire_request request = acquire(5000);
    const plan settings = {.arena = arena, .server = "me", .service = &lock_service};
    rounds r, again;

    plan_of(&r, "Acquire", &request);
    rounds_packed *packed = memory_alloc(rounds_packed_bytes(&r));
    rounds_pack(&r, packed);
    rounds_unpack(&again, r.method, packed, &settings);
    assert_int_equal(again.plan.lock_slack_ms, SLACK_MS);
    free(packed);
}

TEST_MAIN(.setup = open_arena, .teardown = close_arena)

/* What changes in the store under a lockstockd that runs, seen by its callers: memory that is short, settings
 * that lose data, a clock that steps; and a register of fences that is put back. */

#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/moved_clock.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { LEASE_MS = 600000, LIMIT_MS = 120000, TOKENS = 50 };
#define HOUR_US INT64_C(3600000000)

typedef struct scene {
    char *dir;
    moved_clock clock; /* Redis' */
    redis_fixture *redis;
    server_fixture *server;
    lks_channel *channel;
} scene;

static scene s;

static int setup(void **state)
{
    s.dir = tempdir_make();
    if (!moved_clock_open(&s.clock, SHIFTED_CLOCK_PATH, s.dir))
        return -1;
    s.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true, .env = s.clock.env});
    s.server = s.redis ? server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(s.redis)}) : NULL;
    return s.server && lks_channel_open(server_fixture_url(s.server), NULL, &s.channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lks_channel_close(s.channel);
    server_fixture_free(s.server);
    redis_fixture_free(s.redis);
    moved_clock_close(&s.clock);
    tempdir_remove(s.dir);
    s = (scene){0};
    return 0;
}

static void tell_redis(const char *command)
{
    char *reply = redis_fixture_command(s.redis, command);

    if (!reply || reply[0] == '-')
        fail_msg("%s: %s", command, reply ? reply : "no reply");
    free(reply);
}

static long keys(void)
{
    char *reply = redis_fixture_command(s.redis, "DBSIZE");
    long n = reply ? strtol(reply + 1, NULL, 10) : -1;

    free(reply);
    return n;
}

/* The outcome, or -1 with *error set. A fence of the first name is in *fence. */
static int acquire(const char *token, const char *name, uint64_t *fence, lks_error *error)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;

    target.name = name;
    request.token = token;
    request.n_targets = 1;
    request.targets = targets;
    request.lease_ms = LEASE_MS;
    if (lks_lock_acquire(s.channel, &request, &(lks_call_options){.no_retry = true}, &response, error) != LKS_OK)
        return -1;
    int outcome = (int)response->outcome;
    if (fence && response->n_fences == 1)
        *fence = response->fences[0]->fence;
    lks_acquire_response_free(response);
    return outcome;
}

static int release(const char *token, const char *name, lks_error *error)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_release_response *response = NULL;

    request.token = token;
    request.group = name;
    if (lks_lock_release(s.channel, &request, &(lks_call_options){.no_retry = true}, &response, error) != LKS_OK)
        return -1;
    int outcome = (int)response->outcome;
    lks_release_response_free(response);
    return outcome;
}

TEST(a_release_of_what_nobody_took_needs_memory)
{
    char token[32];
    lks_error error;

    assert_int_equal(acquire("token-that-holds-it", "memory", NULL, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    tell_redis("CONFIG SET maxmemory 1");
    long before = keys();
    for (int i = 0; i < TOKENS; i++) {
        snprintf(token, sizeof token, "token-of-nobody-%d", i);
        assert_int_equal(release(token, "memory", &error), -1);
        assert_int_equal(error.code, LKS_RESOURCE_EXHAUSTED);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_true(error.retry_after_ms > 0);
    }
    assert_int_equal(keys(), before);
    assert_int_equal(release("token-that-holds-it", "memory", &error), LKS_RELEASE_OUTCOME_RELEASED);
    tell_redis("CONFIG SET maxmemory 0");
    assert_int_equal(release("token-of-nobody-0", "memory", &error), LKS_RELEASE_OUTCOME_NOT_HELD);
    assert_int_equal(acquire("token-of-nobody-0", "memory", NULL, &error), LKS_ACQUIRE_OUTCOME_TOKEN_SPENT);
}

/* ---- a register of fences ------------------------------------------------------------- */

static int check_fence(uint64_t fence, lks_error *error)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_check_fence_response *response = NULL;

    request.resource = "register";
    request.fence = fence;
    if (lks_lock_check_fence(s.channel, &request, NULL, &response, error) != LKS_OK)
        return -1;
    int outcome = (int)response->outcome;
    lks_check_fence_response_free(response);
    return outcome;
}

TEST(a_register_that_was_spoiled_can_be_put_back)
{
    lks_reset_fence_request request = LKS_RESET_FENCE_REQUEST_INIT;
    lks_reset_fence_response *response = NULL;
    uint64_t fence = 0;
    lks_error error;

    assert_int_equal(acquire("token-with-a-fence", "register", &fence, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    assert_int_equal(check_fence(UINT64_C(9007199254740991), &error), -1);
    assert_int_equal(error.code, LKS_INVALID_ARGUMENT);
    assert_int_equal(check_fence(fence + (uint64_t)HOUR_US, &error), LKS_CHECK_FENCE_OUTCOME_OK);
    assert_int_equal(check_fence(fence, &error), LKS_CHECK_FENCE_OUTCOME_STALE);
    request.resource = "register";
    if (lks_lock_reset_fence(s.channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    lks_reset_fence_response_free(response);
    assert_int_equal(check_fence(fence, &error), LKS_CHECK_FENCE_OUTCOME_OK);
}

/* ---- a clock that steps ------------------------------------------------------------------ */

TEST(a_clock_that_steps_gives_no_lock_twice_and_no_fence_again)
{
    uint64_t first = 0, second = 0, third = 0;
    lks_error error;

    assert_int_equal(acquire("first-holder-of-it", "clock", &first, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    atomic_fetch_sub(s.clock.shift_us, HOUR_US);
    assert_int_equal(acquire("other-holder-of-it", "clock", NULL, &error), LKS_ACQUIRE_OUTCOME_BUSY);
    assert_int_equal(release("first-holder-of-it", "clock", &error), LKS_RELEASE_OUTCOME_RELEASED);
    assert_int_equal(acquire("second-holder-of-it", "clock", &second, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    assert_true(second > first);
    atomic_fetch_add(s.clock.shift_us, 2 * HOUR_US); /* its lease is over */
    assert_int_equal(acquire("third-holder-of-it", "clock", &third, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    assert_true(third > second);
    assert_int_equal(release("second-holder-of-it", "clock", &error), LKS_RELEASE_OUTCOME_NOT_HELD);
    assert_int_equal(acquire("fourth-holder-of-it", "clock", NULL, &error), LKS_ACQUIRE_OUTCOME_BUSY);
    atomic_fetch_sub(s.clock.shift_us, HOUR_US);
}

/* ---- settings that lose data ------------------------------------------------------------- */

/* What was right at the start is looked at again each 30 s. */
TEST(a_policy_that_evicts_is_noticed_and_told)
{
    char line[400];
    lks_error error;

    tell_redis("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    assert_true(process_wait_line(server_fixture_process(s.server), "event=store-unsafe", line, sizeof line, LIMIT_MS));
    assert_non_null(strstr(line, "evicts"));
    assert_true(process_wait_line(server_fixture_process(s.server), "event=not-ready", line, sizeof line, LIMIT_MS));
    assert_int_equal(acquire("token-that-is-refused", "settings", NULL, &error), -1);
    assert_int_equal(error.code, LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    tell_redis("CONFIG SET maxmemory-policy noeviction maxmemory 0");
    assert_true(process_wait_line(server_fixture_process(s.server), "event=ready", line, sizeof line, LIMIT_MS));
    assert_int_equal(acquire("token-that-is-refused", "settings", NULL, &error), LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

TEST_MAIN(.setup_all = setup, .teardown_all = teardown)

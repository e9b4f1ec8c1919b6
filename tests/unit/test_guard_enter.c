/* Guards against scripted services: what the guards give back, and how they handle an invalid answer. */
/* promise GD23: what was refused after an unanswered Enter is given back; a REPLAY without a result is INTERNAL, MAYBE */

#include <pthread.h>

#include <lockstock/guard.h>
#include <lockstock/lockstock.h>
#include <lockstock/v1/guard.lks.h>

#include "base/clock.h"
#include "guarded.pb-c.h"
#include "unit/helpers_fixture.h"
#include "test.h"

enum { CALL_MS = 60000 };

typedef Lockstock__Test__BuyRequest buy_request;

static const char *const by_buyer[] = {"buyer_id", NULL};
static const lks_rpc_guard_limit limit = {.key = by_buyer,
                                          .group = "",
                                          .policy = "",
                                          .limit = 1,
                                          .period_ms = 1000,
                                          .denied = LOCKSTOCK__TEST__BOUGHT__BOUGHT_LIMITED};
static const lks_rpc_guard_lock lock = {
    .prefix = "buyer", .keys = by_buyer, .group = "", .busy = LOCKSTOCK__TEST__BOUGHT__BOUGHT_BUSY};
static const lks_rpc_guard_idempotency once = {.scope = "buy",
                                               .key = by_buyer,
                                               .group = "",
                                               .in_progress = LOCKSTOCK__TEST__BOUGHT__BOUGHT_RUNNING,
                                               .mismatch = LOCKSTOCK__TEST__BOUGHT__BOUGHT_OTHER};
/* Refusals by outcomes, and by codes. */
static const lks_rpc_guard told = {
    .rate_limit = &limit, .idempotency = &once, .lock = &lock, .outcome = "outcome", .retry_after = "retry_after_ms"};
static const lks_rpc_guard_lock coded_lock = {.prefix = "buyer", .keys = by_buyer, .group = ""};
static const lks_rpc_guard locks = {.lock = &coded_lock, .outcome = "", .retry_after = ""},
                           attempts = {.idempotency = &once, .outcome = "", .retry_after = ""};
static const lks_rpc_method method = {.path = "/lockstock.test.GuardedShop/Buy",
                                      .request = &lockstock__test__buy_request__descriptor,
                                      .response = &lockstock__test__buy_response__descriptor,
                                      .effect = LKS_RPC_EFFECT_WRITE};

typedef struct entering {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
} entering;

static void on_done(void *arg)
{
    entering *e = arg;

    pthread_mutex_lock(&e->lock);
    e->done = true;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
}

/* Asks the guard, which must refuse the call by an error. unanswered_before: an earlier try of it was not answered. */
static lks_error refusal_by(const lks_rpc_guard *guard, bool unanswered_before)
{
    static char buyer[] = "ann";
    entering e = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *response = NULL;
    lks_guarded *guarded = NULL;
    lks_error error = {.code = LKS_OK};

    request.buyer_id = buyer;
    assert_int_equal(lks_guarded_enter(channel, guard, &method, &request.base,
                                       clock_now_ns() + UINT64_C(1000000) * CALL_MS, unanswered_before, on_done, &e,
                                       &guarded, &error),
                     LKS_OK);
    pthread_mutex_lock(&e.lock);
    while (!e.done)
        pthread_cond_wait(&e.ended, &e.lock);
    pthread_mutex_unlock(&e.lock);
    assert_false(lks_guard_runs(guarded));
    lks_guard_answer(guarded, arena, &response, &error);
    assert_null(response);
    lks_guard_free(guarded);
    lks_rpc_arena_free(arena);
    return error;
}

/* The guard's first Enter may be granted after the refusal of its second. */
TEST(refusal_after_an_unanswered_try_is_followed_by_a_leave)
{
    fake_behave(fake, (fake_manner){.fails[FAKE_ENTER] = LKS_UNAVAILABLE,
                                    .applied = LKS_APPLIED_MAYBE,
                                    .fail_times = 1,
                                    .outcome[FAKE_ENTER] = LKS_ENTER_OUTCOME_BUSY});
    lks_error error = refusal_by(&locks, false);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO); /* the handler did not run, and will not */
    assert_true(fake_await(fake, FAKE_LEAVE, NULL, 1));
    assert_string_equal(event_of(FAKE_LEAVE, 0).token, event_of(FAKE_ENTER, 0).token);
    assert_int_equal(event_of(FAKE_LEAVE, 0).flag, LKS_LEAVE_KIND_RETRYABLE);

    fake_behave(fake, (fake_manner){.outcome[FAKE_ENTER] = LKS_ENTER_OUTCOME_BUSY});
    refusal_by(&locks, false);
    assert_int_equal(fake_calls(fake, FAKE_ENTER), 3);
    assert_int_equal(fake_calls(fake, FAKE_LEAVE), 1);
}

TEST(a_replay_without_a_result_is_an_error_of_the_call)
{
    fake_behave(fake, (fake_manner){.outcome[FAKE_ENTER] = LKS_ENTER_OUTCOME_REPLAY});
    lks_error error = refusal_by(&attempts, false);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_string_equal(error.message, "the answer has no stored result");
}

/* Each guard tells by a code and MAYBE, for what it meets may be an earlier try of the call. */
/* promise GD22: after an unanswered try a refusal is a code with MAYBE, never the outcome; a later try is marked on
 * the wire, in gRPC by its header */
TEST(a_refusal_after_an_unanswered_try_is_in_doubt)
{
    static const struct {
        lks_enter_outcome outcome;
        lks_code code;
    } rows[] = {{LKS_ENTER_OUTCOME_LIMITED, LKS_RESOURCE_EXHAUSTED},
                {LKS_ENTER_OUTCOME_IN_PROGRESS, LKS_ABORTED},
                {LKS_ENTER_OUTCOME_MISMATCH, LKS_ALREADY_EXISTS},
                {LKS_ENTER_OUTCOME_BUSY, LKS_ABORTED}};
    lks_error error;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_behave(fake, (fake_manner){.outcome[FAKE_ENTER] = rows[i].outcome});
        error = refusal_by(&told, true);
        assert_int_equal(error.code, rows[i].code);
        assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    }
    fake_behave(fake, (fake_manner){.fails[FAKE_ENTER] = LKS_FAILED_PRECONDITION});
    error = refusal_by(&told, true);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

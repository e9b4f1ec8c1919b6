/* lks_limiter against a scripted service: its requests, its decisions
 * with and without an answer, and its waits. */

#include <pthread.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "test.h"

enum { LONG_MS = 600000 };

static const lks_limiter_rule login = {.policy = "login"};

static lks_limiter *new_with(lks_limiter_options options)
{
    lks_limiter *limiter = NULL;
    lks_error error;

    if (options.n_rules == 0) {
        options.rules = &login;
        options.n_rules = 1;
    }
    options.timeout_ms = LONG_MS; /* however busy the machine is */
    if (lks_limiter_new(channel, &options, &limiter, &error) != LKS_OK)
        fail_msg("%s", error.message);
    return limiter;
}

static lks_limiter *new_plain(void)
{
    return new_with((lks_limiter_options){.n_rules = 0});
}

static fake_event check_of(size_t i)
{
    return event_of(FAKE_CHECK, i);
}

/* ---- requests --------------------------------------------------------------- */

/* promise C14: limiter: one Check with a copy of the rules; wrong rules are named */
TEST(test_an_allow_is_one_check)
{
    lks_limiter *limiter = new_plain();
    lks_limiter_decision decision;
    lks_error error = {.code = LKS_INTERNAL};

    assert_true(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_ALLOWED);
    assert_int_equal(decision.limit, 10);
    assert_int_equal(decision.remaining, 3);
    assert_int_equal(decision.retry_after_ms, 0);
    assert_int_equal(decision.reset_after_ms, 5000);
    assert_false(decision.unchecked);
    assert_string_equal(decision.request_id, "");
    assert_true(lks_limiter_allow(limiter, "user-2", 5, NULL, NULL));
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 2);
    assert_string_equal(check_of(0).group, "");
    assert_string_equal(check_of(0).id, "");
    assert_string_equal(check_of(0).keys[0], "policy login:user-1");
    assert_int_equal(check_of(0).number, 1);
    assert_string_equal(check_of(1).keys[0], "policy login:user-2");
    assert_int_equal(check_of(1).number, 5);
    lks_limiter_free(limiter);
}

/* Memory that the options point to is copied. */
/* promise C14 */
TEST(test_rules_are_copied)
{
    char policy[] = "login", key[] = "everyone", group[] = "shop";
    lks_penalty penalty = LKS_PENALTY_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_limiter_rule rules[] = {{.policy = policy, .key = key}, {.limit = &limit}};

    limit.limit = 5;
    limit.period_ms = 1000;
    limit.penalty = &penalty;
    penalty.after = 7;
    lks_limiter *limiter = new_with((lks_limiter_options){.group = group, .rules = rules, .n_rules = 2});
    memset(policy, 'x', 3);
    memset(key, 'x', 3);
    memset(group, 'x', 3);
    memset(rules, 0, sizeof rules);
    penalty.after = limit.limit = 0;
    assert_true(lks_limiter_allow(limiter, "user-1", 1, NULL, NULL));
    assert_string_equal(check_of(0).group, "shop");
    assert_int_equal(check_of(0).n, 2);
    assert_string_equal(check_of(0).keys[0], "policy login:everyone");
    assert_string_equal(check_of(0).keys[1], "limit 5 after 7:user-1");
    lks_limiter_free(limiter);
}

/* ---- decisions ---------------------------------------------------------------- */

/* promise C15: the decisive rule is reported: the one that denies for longest, or for ever, or that passes most
 * narrowly */
TEST(test_denied_and_banned)
{
    lks_limiter *limiter = new_plain();
    lks_limiter_decision decision;
    lks_error error = {.code = LKS_INTERNAL};

    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = 700});
    assert_false(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_DENIED);
    assert_int_equal(decision.retry_after_ms, 700);
    assert_int_equal(decision.remaining, 0);
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_BANNED, .retry_after_ms = 2000});
    assert_false(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_BANNED);
    assert_int_equal(decision.banned_ms, 2000);
    lks_limiter_free(limiter);
}

/* The reported rule is the one that denies for longest, or has the least remaining. */
/* promise C15 */
TEST(test_one_of_several_rules_decides)
{
    const lks_limiter_rule rules[] = {{.policy = "a"}, {.policy = "b"}, {.policy = "c"}};
    lks_limiter *limiter = new_with((lks_limiter_options){.group = "g", .rules = rules, .n_rules = 3});
    lks_limiter_decision decision;

    assert_true(lks_limiter_allow(limiter, "user-1", 1, &decision, NULL));
    assert_int_equal(decision.rule, 0);
    assert_int_equal(decision.remaining, 3);
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = 700});
    assert_false(lks_limiter_allow(limiter, "user-1", 1, &decision, NULL));
    assert_int_equal(decision.rule, 2);
    assert_int_equal(decision.limit, 30);
    assert_int_equal(decision.retry_after_ms, 702);

    /* For ever is longest. */
    fake_behave(fake,
                (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = 700, .never_rule = 2});
    assert_false(lks_limiter_allow(limiter, "user-1", 1, &decision, NULL));
    assert_int_equal(decision.rule, 1);
    assert_int_equal(decision.retry_after_ms, -1);
    size_t asked = fake_calls(fake, FAKE_CHECK);
    assert_false(lks_limiter_wait(limiter, "user-1", 1, LONG_MS, &decision, NULL));
    assert_int_equal(decision.retry_after_ms, -1);
    assert_int_equal(fake_calls(fake, FAKE_CHECK), asked + 1);
    lks_limiter_free(limiter);
}

/* promise C16: without a server a limiter refuses, or allows if it was created so; it never allows after an error in
 * the request or without an answer that passes */
TEST(test_without_a_server_it_is_closed_or_open)
{
    static const struct {
        lks_code code;
        bool away;
        uint32_t retry_ms;
    } codes[] = {
        {LKS_UNAVAILABLE, true, 0},        {LKS_DEADLINE_EXCEEDED, true, 0},   {LKS_RESOURCE_EXHAUSTED, true, 1},
        {LKS_INVALID_ARGUMENT, false, 0},  {LKS_NOT_FOUND, false, 0},          {LKS_FAILED_PRECONDITION, false, 0},
        {LKS_PERMISSION_DENIED, false, 0}, {LKS_UNAUTHENTICATED, false, 0},    {LKS_UNIMPLEMENTED, false, 0},
        {LKS_INTERNAL, false, 0},          {LKS_RESOURCE_EXHAUSTED, false, 0}, /* a key with too many counters */
    };
    lks_limiter *open = new_with((lks_limiter_options){.fail_open = true}), *closed = new_plain();
    lks_limiter_decision decision;
    lks_error error;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        /* MAYBE: there is no retry, so each call gets one answer. */
        fake_behave(fake, (fake_manner){.fails[FAKE_CHECK] = codes[i].code,
                                        .applied = LKS_APPLIED_MAYBE,
                                        .fail_retry_ms = codes[i].retry_ms});
        assert_false(lks_limiter_allow(closed, "user-1", 1, &decision, &error));
        assert_int_equal(error.code, codes[i].code);
        assert_int_equal(decision.outcome, 0);
        assert_false(decision.unchecked);
        assert_int_equal(lks_limiter_allow(open, "user-1", 1, &decision, &error), codes[i].away);
        assert_int_equal(error.code, codes[i].code);
        assert_int_equal(decision.unchecked, codes[i].away);
        assert_int_equal(decision.outcome, 0);
        assert_false(lks_limiter_wait(closed, "user-1", 1, LONG_MS, &decision, &error));
        assert_int_equal(error.code, codes[i].code);
        assert_int_equal(lks_limiter_wait(open, "user-1", 1, LONG_MS, &decision, &error), codes[i].away);
    }
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = 99});
    assert_false(lks_limiter_allow(open, "user-1", 1, &decision, &error));
    assert_int_equal(error.code, LKS_INTERNAL);
    lks_limiter_free(open);
    lks_limiter_free(closed);
}

/* A call refused by the full local queue passes too. */
/* promise C16 */
TEST(test_a_full_channel_is_not_a_lost_server)
{
    const lks_channel_options small = {.in_flight_max = 1, .queue_max = 1};
    const lks_limiter_options options = {.rules = &login, .n_rules = 1, .fail_open = true};
    lks_limiter *limiter = NULL;
    lks_channel *full = NULL;
    lks_limiter_decision decision;
    lks_get_request get = LKS_GET_REQUEST_INIT;
    lks_error error;

    assert_int_equal(lks_channel_open(fake_url(fake), &small, &full, NULL), LKS_OK);
    fake_behave(fake, (fake_manner){.holds[FAKE_GET] = true});
    for (int i = 0; i < 2; i++)
        assert_int_equal(lks_idempotency_get_start(full, &get, NULL, NULL, NULL, NULL, NULL), LKS_OK);
    assert_int_equal(lks_limiter_new(full, &options, &limiter, NULL), LKS_OK);
    assert_true(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_int_equal(error.code, LKS_RESOURCE_EXHAUSTED);
    assert_true(decision.unchecked);
    assert_true(fake_await(fake, FAKE_GET, NULL, 1));
    fake_behave(fake, (fake_manner){.body = NULL});
    while (!lks_limiter_allow(limiter, "user-1", 1, &decision, NULL) || decision.unchecked)
        process_pause();
    lks_limiter_free(limiter);
    assert_int_equal(lks_channel_close(full), LKS_OK);
}

/* ---- answers that are lost ------------------------------------------------------------- */

/* promise C17: a lost answer: the Check is sent again as the same request; Refund returns only what was allowed */
TEST(test_a_lost_answer_is_requested_again)
{
    const fake_manner lossy = {.fails[FAKE_CHECK] = LKS_UNAVAILABLE, .applied = LKS_APPLIED_MAYBE, .fail_times = 1};
    lks_limiter *limiter = new_with((lks_limiter_options){.remembered = true}), *forgetful = new_plain();
    lks_limiter_decision decision;
    lks_error error;

    fake_behave(fake, lossy);
    assert_true(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 2);
    assert_int_equal(strlen(check_of(0).id), 32);
    assert_string_equal(check_of(0).id, check_of(1).id);
    assert_string_equal(decision.request_id, check_of(0).id);
    assert_true(lks_limiter_allow(limiter, "user-1", 1, &decision, &error));
    assert_string_not_equal(decision.request_id, check_of(0).id);

    /* Without an id it might be counted twice: it is not asked again. */
    fake_behave(fake, lossy);
    assert_false(lks_limiter_allow(forgetful, "user-1", 1, &decision, &error));
    assert_int_equal(error.code, LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 4);
    lks_limiter_free(limiter);
    lks_limiter_free(forgetful);
}

/* ---- refunds ------------------------------------------------------------------------------ */

/* promise C17 */
TEST(test_a_refund_names_its_check)
{
    const lks_limiter_rule fixed = {.policy = "a", .key = "everyone"};
    lks_limiter *limiters[] = {
        new_with((lks_limiter_options){.remembered = true}),
        new_with((lks_limiter_options){.remembered = true, .group = "shop"}),
        new_with((lks_limiter_options){.remembered = true, .rules = &fixed, .n_rules = 1}),
    };
    const char *const groups[] = {"user-1", "shop", "everyone"};
    lks_limiter_decision decision;
    lks_error error;

    for (size_t i = 0; i < 3; i++) {
        assert_true(lks_limiter_allow(limiters[i], "user-1", 1, &decision, NULL));
        assert_int_equal(lks_limiter_refund(limiters[i], "user-1", &decision, &error), LKS_OK);
        fake_event refund = fake_event_at(fake, FAKE_REFUND, NULL, i);
        assert_string_equal(refund.group, groups[i]);
        assert_string_equal(refund.id, decision.request_id);
    }
    fake_behave(fake, (fake_manner){.outcome[FAKE_REFUND] = LKS_REFUND_OUTCOME_ALREADY_REFUNDED});
    assert_int_equal(lks_limiter_refund(limiters[0], "user-1", &decision, &error), LKS_OK);
    fake_behave(fake, (fake_manner){.outcome[FAKE_REFUND] = LKS_REFUND_OUTCOME_UNKNOWN});
    assert_int_equal(lks_limiter_refund(limiters[0], "user-1", &decision, &error), LKS_NOT_FOUND);
    assert_int_equal(error.code, LKS_NOT_FOUND);
    for (size_t i = 0; i < 3; i++)
        lks_limiter_free(limiters[i]);
}

/* promise C17 */
TEST(test_only_an_allowed_charge_is_refunded)
{
    lks_limiter *limiter = new_with((lks_limiter_options){.remembered = true}), *forgetful = new_plain();
    lks_limiter_decision decision;

    assert_true(lks_limiter_allow(forgetful, "user-1", 1, &decision, NULL));
    assert_int_equal(lks_limiter_refund(forgetful, "user-1", &decision, NULL), LKS_FAILED_PRECONDITION);
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED});
    assert_false(lks_limiter_allow(limiter, "user-1", 1, &decision, NULL));
    assert_int_equal(lks_limiter_refund(limiter, "user-1", &decision, NULL), LKS_FAILED_PRECONDITION);
    assert_int_equal(fake_calls(fake, FAKE_REFUND), 0);
    lks_limiter_free(limiter);
    lks_limiter_free(forgetful);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* promise C18: a wait sleeps as long as the server says, does not begin when it cannot succeed, and can be stopped */
TEST(test_a_wait_sleeps_for_the_retry_delay)
{
    enum { RETRY_MS = 120 };
    lks_limiter *limiter = new_plain();
    lks_limiter_decision decision;
    lks_error error;

    fake_behave(
        fake,
        (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = RETRY_MS, .denied_times = 3});
    assert_true(lks_limiter_wait(limiter, "user-1", 2, LONG_MS, &decision, &error));
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_ALLOWED);
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 4);
    for (size_t i = 1; i < 4; i++) {
        assert_true(check_of(i).at_ns - check_of(i - 1).at_ns >= RETRY_MS * UINT64_C(1000000));
        assert_int_equal(check_of(i).number, 2);
    }
    lks_limiter_free(limiter);
}

/* promise C18 */
TEST(test_a_wait_in_vain_does_not_wait)
{
    lks_limiter *limiter = new_plain();
    lks_limiter_decision decision;
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_BANNED, .retry_after_ms = LONG_MS + 1});
    assert_false(lks_limiter_wait(limiter, "user-1", 1, LONG_MS, &decision, &error));
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_BANNED);
    assert_int_equal(decision.retry_after_ms, LONG_MS + 1);
    /* The time is unknown: this must not lead to endless retries. */
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED});
    assert_false(lks_limiter_wait(limiter, "user-1", 1, LONG_MS, &decision, &error));
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_DENIED);
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 2);
    /* And no time is as long as that which is over. */
    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = 1});
    assert_false(lks_limiter_wait(limiter, "user-1", 1, 0, NULL, NULL));
    assert_int_equal(fake_calls(fake, FAKE_CHECK), 3);
    lks_limiter_free(limiter);
}

struct waiter {
    lks_limiter *limiter;
    lks_limiter_decision decision;
    lks_error error;
    bool allowed;
};

static void *wait_long(void *arg)
{
    struct waiter *waiter = arg;

    waiter->allowed = lks_limiter_wait(waiter->limiter, "user-1", 1, LONG_MS, &waiter->decision, &waiter->error);
    return NULL;
}

/* promise C18 */
TEST(test_a_stop_ends_those_that_wait)
{
    enum { WAITERS = 3 };
    lks_limiter *limiter = new_plain();
    struct waiter waiters[WAITERS];
    pthread_t threads[WAITERS];

    fake_behave(fake, (fake_manner){.outcome[FAKE_CHECK] = LKS_CHECK_OUTCOME_DENIED, .retry_after_ms = LONG_MS / 2});
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.limiter = limiter, .allowed = true};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_long, &waiters[i]), 0);
    }
    assert_true(fake_await(fake, FAKE_CHECK, NULL, WAITERS));
    for (int i = 0; i < 50; i++) /* so that they sleep, most likely: it must hold in any case */
        process_pause();
    lks_limiter_stop(limiter);
    for (size_t i = 0; i < WAITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(waiters[i].allowed);
        assert_int_equal(waiters[i].error.code, LKS_CANCELLED);
        assert_int_equal(waiters[i].decision.outcome, 0);
    }
    assert_false(lks_limiter_wait(limiter, "user-1", 1, LONG_MS, NULL, &waiters[0].error));
    assert_int_equal(waiters[0].error.code, LKS_CANCELLED);
    assert_int_equal(fake_calls(fake, FAKE_CHECK), WAITERS);
    /* It still says what may be. */
    fake_behave(fake, (fake_manner){.body = NULL});
    assert_true(lks_limiter_allow(limiter, "user-1", 1, NULL, NULL));
    lks_limiter_free(limiter);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

/* What people write by hand, made to fail by a schedule and not by luck: each is run step
 * by step as two clients would, and beside it the same through the service. */
#include "ratelimit_script.h"

static int64_t number(const char *text)
{
    return strtoll(text, NULL, 10);
}

/* INCR, then EXPIRE when it was the first: a client that dies between the two leaves a
 * counter that never ends, and a key that is locked out for ever. */
TEST(incr_then_expire_locks_out_for_ever)
{
    int64_t refused = 0;
    assert_int_equal(number(harness_redis(h, "INCR naive:bob")), 1);
    /* It dies here: EXPIRE naive:bob 1 is never sent. */
    for (int i = 0; i < 10; i++)
        refused += number(harness_redis(h, "INCR naive:bob")) > 5;
    assert_int_equal(number(harness_redis(h, "PTTL naive:bob")), -1);
    assert_true(refused > 0);

    /* A Check is one function: there is nothing between counting and the end. */
    expect_outcome(check_rules("bob FIXED 5/1000"), "ALLOWED");
    assert_true(number(harness_redis(h, "PTTL ls:{default/g}:rate:k:bob")) > 0);
}

/* GET, compare, INCR: two that read before either wrote are both let in. */
TEST(get_then_incr_lets_two_in)
{
    harness_redis(h, "SET naive:bob 4");
    int64_t first = number(harness_redis(h, "GET naive:bob"));
    int64_t second = number(harness_redis(h, "GET naive:bob"));
    assert_true(first < 5 && second < 5); /* both go on */
    harness_redis(h, "INCR naive:bob");
    assert_int_equal(number(harness_redis(h, "INCR naive:bob")), 6);

    check_cost("bob FIXED 5/1000", 4);
    expect_outcome(peek("bob FIXED 5/1000", 1), "ALLOWED"); /* both have looked */
    expect_outcome(peek("bob FIXED 5/1000", 1), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 5/1000"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 5/1000"), "DENIED");
}

/* A counter a window: twice the limit within two milliseconds. That is what FIXED_WINDOW
 * promises and no more; the other algorithms refuse it. */
TEST(a_counter_a_window_admits_twice_the_limit)
{
    static const char *const others[] = {"bob LOG 100/1000", "bob WINDOW 100/1000", "bob BUCKET 100/1000"};
    advance(999);
    int64_t admitted = 0;
    for (int ms = 0; ms < 2; ms++) {
        int64_t window = now_us() / 1000000;
        for (int i = 0; i < 150; i++)
            admitted += number(harness_redis(h, "INCR naive:bob:%lld", (long long)window)) <= 100;
        advance(1);
    }
    assert_int_equal(admitted, 200);

    for (int o = 0; o < 3; o++) {
        ratelimit_reset(state);
        advance(999);
        int64_t bounded = 0;
        for (int ms = 0; ms < 2; ms++) {
            for (int i = 0; i < 150; i++)
                bounded += check_rules(others[o])->outcome == LKS_CHECK_OUTCOME_ALLOWED;
            advance(1);
            harness_forget(h);
        }
        assert_int_equal(bounded, 100);
    }
}

/* Two counters, one after the other: the second refuses, and the first was charged for
 * nothing. */
TEST(one_limit_after_the_other_charges_for_nothing)
{
    harness_redis(h, "SET naive:all 100");
    for (int i = 0; i < 5; i++) {
        assert_true(number(harness_redis(h, "INCR naive:bob")) <= 5);  /* passes */
        assert_true(number(harness_redis(h, "INCR naive:all")) > 100); /* does not */
    }
    harness_redis(h, "SET naive:all 0"); /* there is room again, but not for bob */
    assert_true(number(harness_redis(h, "INCR naive:bob")) > 5);

    expect_outcome(check_cost("all FIXED 100/1000", 100), "ALLOWED");
    for (int i = 0; i < 5; i++)
        expect_outcome(check_rules("bob FIXED 5/60000;all FIXED 100/1000"), "DENIED");
    advance(1000);
    assert_int_equal(check_rules("bob FIXED 5/60000;all FIXED 100/1000")->rules[0]->remaining, 4);
}

/* A client that sends again what it got no answer to is charged twice. */
TEST(a_repeat_is_charged_twice)
{
    harness_redis(h, "INCR naive:bob"); /* the reply is lost */
    assert_int_equal(number(harness_redis(h, "INCR naive:bob")), 2);

    check_id("bob FIXED 5/1000", 1, "r"); /* the reply is lost */
    assert_int_equal(check_id("bob FIXED 5/1000", 1, "r")->rules[0]->remaining, 4);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

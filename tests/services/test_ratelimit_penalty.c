/* RateLimitService, penalties: what counts as a try, how long a ban is, and that a ban
 * never shortens a wait. */
#include "ratelimit_script.h"

static void expect_banned(const lks_check_response *response, int64_t banned_ms)
{
    expect_outcome(response, "BANNED");
    assert_int_equal(response->rules[0]->banned_ms, banned_ms);
}

TEST(allowed_tries_count_too)
{
    const char *rule = "bob FIXED 9/1000 after=3 ban=100";
    for (int i = 0; i < 3; i++)
        expect_outcome(check_rules(rule), "ALLOWED");
    expect_told(check_rules(rule), "BANNED: BANNED 9 6 100 1000 100"); /* and is not charged */
}

TEST(a_try_is_one_whatever_it_costs)
{
    const char *rule = "bob FIXED 9/1000 after=3 ban=100";
    expect_outcome(check_cost(rule, 4), "ALLOWED");
    expect_outcome(check_cost(rule, 99), "DENIED");
    expect_outcome(check_cost(rule, 4), "ALLOWED");
    expect_banned(check_cost(rule, 1), 100);
}

TEST(banned_tries_neither_count_nor_lengthen)
{
    const char *rule = "bob FIXED 1/1000 after=2 ban=1500";
    check_rules(rule);
    check_rules(rule);
    expect_banned(check_rules(rule), 1500);
    remember();
    for (int i = 0; i < 9; i++)
        expect_banned(check_rules(rule), 1500);
    expect_unchanged();
    advance(1499);
    expect_banned(check_rules(rule), 1);
    advance(1);
    expect_outcome(check_rules(rule), "ALLOWED");
    expect_outcome(check_rules(rule), "DENIED");
    expect_banned(check_rules(rule), 1500);
}

/* Tries are counted in windows of the clock, for every algorithm. */
TEST(tries_of_another_window_do_not_count)
{
    static const char *const rules[] = {"bob FIXED 1/1000 after=2 ban=100", "bob LOG 1/1000 after=2 ban=100",
                                        "bob WINDOW 1/1000 after=2 ban=100", "bob BUCKET 1/1000 after=2 ban=100"};

    for (int i = 0; i < 4; i++) {
        ratelimit_reset(state);
        check_rules(rules[i]);
        check_rules(rules[i]);
        advance(1000);
        assert_true(check_rules(rules[i])->outcome != LKS_CHECK_OUTCOME_BANNED);
        assert_true(check_rules(rules[i])->outcome != LKS_CHECK_OUTCOME_BANNED);
        expect_banned(check_rules(rules[i]), 100);
    }
}

/* The window's own wait is the longer one. */
TEST(a_ban_never_shortens_a_wait)
{
    const char *rule = "bob FIXED 1/1000 after=1 ban=100";
    check_rules(rule);
    expect_told(check_rules(rule), "BANNED: BANNED 1 0 1000 1000 100");
    advance(100);
    expect_told(check_rules(rule), "DENIED: DENIED 1 0 900 900 0");
    advance(900);
    expect_outcome(check_rules(rule), "ALLOWED");
}

/* Where units flow back sooner than the tries' window ends, the next try would begin a
 * ban: the wait that is told leads past it. */
TEST(a_wait_leads_past_the_next_ban)
{
    const char *rule = "bob BUCKET 10/1000 burst=1 after=2 ban=100";
    expect_told(check_rules(rule), "ALLOWED: ALLOWED 10 0 0 100 0");
    expect_told(check_rules(rule), "DENIED: DENIED 10 0 1000 100 0");
    advance(1000);
    expect_outcome(check_rules(rule), "ALLOWED");
}

/* 100, 200, 400, at most 700. */
TEST(each_further_ban_is_longer)
{
    const char *rule = "bob FIXED 1/100 after=1 ban=100 factor=2 max=700";
    static const int64_t bans[] = {100, 200, 400, 700, 700};
    for (int i = 0; i < 5; i++) {
        expect_outcome(check_rules(rule), "ALLOWED");
        expect_banned(check_rules(rule), bans[i]);
        advance(bans[i]);
    }
}

TEST(without_a_factor_bans_are_alike)
{
    const char *rule = "bob FIXED 1/100 after=1 ban=100";
    for (int i = 0; i < 3; i++) {
        expect_outcome(check_rules(rule), "ALLOWED");
        expect_banned(check_rules(rule), 100);
        advance(100);
    }
}

/* As long free as the last ban was, or a period: then the next is a first one. */
TEST(escalation_is_forgotten)
{
    const char *rule = "bob FIXED 1/100 after=1 ban=300 factor=3";
    const char *slow = "bob FIXED 1/1000 after=1 ban=300 factor=3";
    check_rules(rule);
    expect_banned(check_rules(rule), 300);
    advance(300 + 299);
    check_rules(rule);
    expect_banned(check_rules(rule), 900);
    advance(900 + 900);
    check_rules(rule);
    expect_banned(check_rules(rule), 300);

    ratelimit_reset(state);
    check_rules(slow);
    expect_banned(check_rules(slow), 300);
    advance(1000);
    check_rules(slow);
    expect_banned(check_rules(slow), 900);
    advance(900 + 1000);
    check_rules(slow);
    expect_banned(check_rules(slow), 300);

    /* Also while tries are counted from before that on. */
    const char *slower = "eve FIXED 100/10000 after=1 ban=1000 factor=3";
    ratelimit_reset(state);
    check_rules(slower);
    expect_banned(check_rules(slower), 1000);
    advance(10500);
    check_rules(slower);
    advance(4500);
    expect_banned(check_rules(slower), 1000);
}

TEST(tries_count_on_the_rules_that_deny)
{
    const char *rules = "bob FIXED 1/1000 after=2 ban=500;bob LOG 9/1000 after=2 ban=500";
    expect_outcome(check_rules(rules), "ALLOWED");
    expect_outcome(check_rules(rules), "DENIED");
    expect_outcome(check_rules(rules), "BANNED");
    expect_outcome(check_rules(rules), "BANNED");
    /* One try of the second rule so far; this is its second. */
    expect_outcome(check_rules("bob LOG 9/1000 after=2 ban=500"), "ALLOWED");
    expect_outcome(check_rules("bob LOG 9/1000 after=2 ban=500"), "BANNED");
}

TEST(tries_count_on_all_when_all_pass)
{
    const char *rules = "bob FIXED 9/1000 after=2 ban=500;bob LOG 9/1000 after=2 ban=500";
    check_rules(rules);
    check_rules(rules);
    expect_told(check_rules(rules), "BANNED: BANNED 9 7 500 1000 500: BANNED 9 7 500 1000 500");
}

TEST(independent_rules_count_each_try)
{
    lks_check_request request = message(check_request, .group = "g", .mode = LKS_CHECK_MODE_INDEPENDENT);
    set_rules(&request, "bob FIXED 1/1000;bob LOG 9/1000 after=2 ban=500");
    check(&request);
    check(&request);
    expect_told(check(&request), "BANNED: DENIED 1 0 1000 1000 0: BANNED 9 7 500 1000 500");
}

/* What is banned is the key under that limit: nothing else. */
TEST(a_ban_is_of_one_counter)
{
    check_rules("bob FIXED 1/1000 after=1 ban=500");
    expect_outcome(check_rules("bob FIXED 1/1000 after=1 ban=500"), "BANNED");
    expect_outcome(check_rules("eve FIXED 1/1000 after=1 ban=500"), "ALLOWED");
    expect_outcome(check_rules("bob LOG 1/1000 after=1 ban=500"), "ALLOWED");
}

/* A ban outlives the window and the counter. */
TEST(a_ban_is_kept_until_it_is_forgotten)
{
    check_rules("bob FIXED 1/100 after=1 ban=9000 factor=2");
    expect_outcome(check_rules("bob FIXED 1/100 after=1 ban=9000 factor=2"), "BANNED");
    int64_t left = strtoll(harness_redis(h, "PTTL ls:{default/g}:rate:k:bob"), NULL, 10);
    assert_in_range(left, 3610000, 3618000); /* see ratelimit_reset */
    advance(8999);
    expect_banned(check_rules("bob FIXED 1/100 after=1 ban=9000 factor=2"), 1);
}

/* Numbers of a policy may change under a ban: it stays, the next is as the policy says. */
TEST(a_policy_may_change_under_a_ban)
{
    put_policy("api", "FIXED 1/1000 after=1 ban=500 factor=10", false, 0);
    check_rules("bob @api");
    expect_banned(check_rules("bob @api"), 500);
    put_policy("api", "FIXED 1/1000 after=1 ban=50 factor=10 max=60", false, 0);
    expect_banned(check_rules("bob @api"), 500);
    advance(1000);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    expect_banned(check_rules("bob @api"), 60);
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_outcome(check_rules("bob @api"), "DENIED");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

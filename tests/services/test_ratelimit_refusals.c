/* DENIED and BANNED from a server's memory: only where the store would have said it too, at most 20 ms ago, never past
 * the moment at which it was told that the check may pass, and not past a change through this server. */
#include "ratelimit_script.h"

enum { KNOWN_MS = 20, ASK_MS = 10 };

static int setup(void **state)
{
    if (ratelimit_reset(state) != 0)
        return -1;
    harness_service_options(h, &(service_options){.sequence_block = 1, .remembers_refusals = true});
    harness_server(h, "A");
    return 0;
}

static int teardown(void **state)
{
    harness_server_ends(h, "A");
    harness_server_ends(h, "B");
    return 0;
}

/* The answer comes from the store, or from memory. */
#define asks(expression, expected) \
    (fcalls_made(), expect_told(expression, expected), assert_int_equal(fcalls_made(), 1))
#define remembers(expression, expected) \
    (fcalls_made(), expect_told(expression, expected), assert_int_equal(fcalls_made(), 0))

static void use_up(const char *rule, int n)
{
    for (int i = 0; i < n; i++)
        expect_outcome(check_rules(rule), "ALLOWED");
}

TEST(over_the_limit_is_told_again_without_the_store)
{
    static const char *const rules[][3] = {
        {"bob FIXED 2/1000", "DENIED: DENIED 2 0 1000 1000 0", "DENIED: DENIED 2 0 995 995 0"},
        {"bob LOG 2/1000", "DENIED: DENIED 2 0 1000 1000 0", "DENIED: DENIED 2 0 995 995 0"},
        {"bob WINDOW 2/1000", "DENIED: DENIED 2 0 1500 2000 0", "DENIED: DENIED 2 0 1495 1995 0"},
        {"bob BUCKET 2/1000", "DENIED: DENIED 2 0 500 1000 0", "DENIED: DENIED 2 0 495 995 0"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        assert_int_equal(setup(state), 0);
        use_up(rules[i][0], 2);
        asks(check_rules(rules[i][0]), rules[i][1]);
        remembers(check_rules(rules[i][0]), rules[i][1]);
        advance(5);
        remembers(check_rules(rules[i][0]), rules[i][2]);
        harness_server_ends(h, "A");
        asks(check_rules(rules[i][0]), rules[i][2]); /* of the store too */
    }
}

TEST(it_is_known_for_20_ms_and_asked_for_once_from_10_ms_on)
{
    const char *rule = "bob FIXED 1/1000";
    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    advance(ASK_MS - 1);
    remembers(check_rules(rule), "DENIED: DENIED 1 0 991 991 0");
    advance(1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 990 990 0");
    remembers(check_rules(rule), "DENIED: DENIED 1 0 990 990 0");
    advance(KNOWN_MS);
    asks(check_rules(rule), "DENIED: DENIED 1 0 970 970 0");
}

/* When the call that asks again gets no answer, what is known still ends. */
TEST(it_is_not_known_for_longer_when_asking_fails)
{
    const char *rule = "bob FIXED 1/1000";
    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    advance(ASK_MS);
    harness_alter(h, "local remaining = algorithm.remaining(record, rule, now, key)",
                  "error('x') local remaining = algorithm.remaining(record, rule, now, key)");
    assert_null(check_rules(rule));
    remembers(check_rules(rule), "DENIED: DENIED 1 0 990 990 0");
    advance(KNOWN_MS - ASK_MS - 1);
    remembers(check_rules(rule), "DENIED: DENIED 1 0 981 981 0");
    advance(1);
    assert_null(check_rules(rule));
}

/* Durations are rounded up: the last millisecond is the store's. */
TEST(it_is_not_known_when_it_may_pass)
{
    const char *rule = "bob FIXED 1/1000";
    use_up(rule, 1);
    advance(995);
    asks(check_rules(rule), "DENIED: DENIED 1 0 5 5 0");
    advance(3);
    remembers(check_rules(rule), "DENIED: DENIED 1 0 2 2 0");
    advance(1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1 1 0");
    asks(check_rules(rule), "DENIED: DENIED 1 0 1 1 0");
    advance(1);
    asks(check_rules(rule), "ALLOWED: ALLOWED 1 0 0 1000 0");
}

TEST(what_is_another_question_is_asked)
{
    const char *rule = "bob FIXED 1/1000";
    lks_check_request other = message(check_request, .group = "h");

    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_rules("eve FIXED 1/1000"), "ALLOWED: ALLOWED 1 0 0 1000 0");
    asks(check_rules("bob FIXED 2/1000"), "ALLOWED: ALLOWED 2 1 0 1000 0");
    set_rules(&other, rule);
    asks(check(&other), "ALLOWED: ALLOWED 1 0 0 1000 0");
    harness_namespace(h, "other");
    asks(check_rules(rule), "ALLOWED: ALLOWED 1 0 0 1000 0");
    harness_namespace(h, "default");
    /* These look, may be repeats, or are of more than one rule or unit. */
    asks(peek(rule, 1), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_id(rule, 1, "r"), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_rules("bob FIXED 1/1000;bob FIXED 3/1000"), "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 3 3 0 0 0");
    asks(check_cost(rule, 2), "DENIED: DENIED 1 0 -1 1000 0");
    asks(check_cost(rule, 2), "DENIED: DENIED 1 0 -1 1000 0");
    remembers(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
}

/* A denied try counts towards the ban; one that is banned does not. */
TEST(of_a_rule_with_a_penalty_only_the_ban_is_remembered)
{
    const char *rule = "bob FIXED 1/1000 after=3 ban=2000";
    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_rules(rule), "BANNED: BANNED 1 0 2000 1000 2000");
    remembers(check_rules(rule), "BANNED: BANNED 1 0 2000 1000 2000");
    advance(7);
    remembers(check_rules(rule), "BANNED: BANNED 1 0 1993 993 1993");
    advance(1988);
    asks(check_rules(rule), "BANNED: BANNED 1 1 5 0 5");
    advance(3);
    remembers(check_rules(rule), "BANNED: BANNED 1 1 2 0 2");
    advance(1);
    asks(check_rules(rule), "BANNED: BANNED 1 1 1 0 1");
    asks(check_rules(rule), "BANNED: BANNED 1 1 1 0 1");
    advance(1);
    asks(check_rules(rule), "ALLOWED: ALLOWED 1 0 0 1000 0");
}

TEST(a_policy_and_its_shadow)
{
    put_policy("api", "FIXED 1/1000", false, 0);
    use_up("bob @api", 1);
    asks(check_rules("bob @api"), "DENIED: DENIED 1 0 1000 1000 0");
    remembers(check_rules("bob @api"), "DENIED: DENIED 1 0 1000 1000 0");
    put_policy("api", "FIXED 1/1000", true, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 1000 1000 0");
    asks(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 1000 1000 0");
    put_policy("api", "FIXED 2/1000", false, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 2 0 0 1000 0");
    asks(check_rules("bob @api"), "DENIED: DENIED 2 0 1000 1000 0");
    assert_true(delete_policy("api", 0));
    assert_null(check_rules("bob @api"));
    assert_int_equal(err.code, LKS_NOT_FOUND);
}

TEST(what_gives_back_through_this_server_ends_it_at_once)
{
    const char *rule = "bob FIXED 1/1000";
    expect_outcome(check_id(rule, 1, "r"), "ALLOWED");
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    asks(check_rules(rule), "ALLOWED: ALLOWED 1 0 0 1000 0");
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    assert_true(reset("g", "bob"));
    asks(check_rules(rule), "ALLOWED: ALLOWED 1 0 0 1000 0");
}

/* Through another one, and a store that was emptied: within 20 ms, and the call that asks again ends it for all. */
TEST(what_gives_back_elsewhere_is_seen_within_20_ms)
{
    const char *rule = "bob FIXED 3/1000";
    use_up(rule, 3);
    asks(check_rules(rule), "DENIED: DENIED 3 0 1000 1000 0");
    harness_server(h, "B");
    assert_true(reset("g", "bob"));
    harness_server(h, "A");
    remembers(check_rules(rule), "DENIED: DENIED 3 0 1000 1000 0");
    advance(ASK_MS);
    asks(check_rules(rule), "ALLOWED: ALLOWED 3 2 0 990 0");
    asks(check_rules(rule), "ALLOWED: ALLOWED 3 1 0 990 0");

    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 3 0 990 990 0");
    harness_redis(h, "DEL ls:{default/g}:rate:k:bob");
    remembers(check_rules(rule), "DENIED: DENIED 3 0 990 990 0");
    advance(KNOWN_MS);
    asks(check_rules(rule), "ALLOWED: ALLOWED 3 2 0 970 0");
}

TEST(the_switch)
{
    const char *rule = "bob FIXED 1/1000";
    harness_service_options(h, &(service_options){.sequence_block = 1});
    harness_server(h, "B");
    use_up(rule, 1);
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
    asks(check_rules(rule), "DENIED: DENIED 1 0 1000 1000 0");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = setup, .teardown = teardown)

/* RateLimitService, Check: what each outcome and number of an answer means, what is
 * charged, and that a repeat is the first answer. */
#include "ratelimit_script.h"

/* The example of the contract. */
TEST(five_a_second_over_seven_tries_locked_for_two)
{
    const char *rule = "bob FIXED 5/1000 after=7 ban=2000";
    for (int i = 0; i < 5; i++)
        expect_outcome(check_rules(rule), "ALLOWED");
    expect_outcome(check_rules(rule), "DENIED");
    expect_outcome(check_rules(rule), "DENIED");
    for (int ms = 0; ms < 2000; ms += 100) {
        expect_outcome(check_rules(rule), "BANNED");
        advance(100);
    }
    expect_outcome(check_rules(rule), "ALLOWED");
}

TEST(each_algorithm_tells_its_numbers)
{
    expect_told(check_rules("bob FIXED 2/1000"), "ALLOWED: ALLOWED 2 1 0 1000 0");
    expect_told(check_rules("bob LOG 2/1000"), "ALLOWED: ALLOWED 2 1 0 1000 0");
    expect_told(check_rules("bob WINDOW 2/1000"), "ALLOWED: ALLOWED 2 1 0 2000 0");
    expect_told(check_rules("bob BUCKET 2/1000"), "ALLOWED: ALLOWED 2 1 0 500 0");
    advance(100);
    expect_told(check_rules("bob FIXED 2/1000"), "ALLOWED: ALLOWED 2 0 0 900 0");
    expect_told(check_rules("bob LOG 2/1000"), "ALLOWED: ALLOWED 2 0 0 1000 0");
    expect_told(check_rules("bob WINDOW 2/1000"), "ALLOWED: ALLOWED 2 0 0 1900 0");
    expect_told(check_rules("bob BUCKET 2/1000"), "ALLOWED: ALLOWED 2 0 0 900 0");
    expect_told(check_rules("bob FIXED 2/1000"), "DENIED: DENIED 2 0 900 900 0");
    expect_told(check_rules("bob LOG 2/1000"), "DENIED: DENIED 2 0 900 1000 0");
    expect_told(check_rules("bob WINDOW 2/1000"), "DENIED: DENIED 2 0 1400 1900 0");
    expect_told(check_rules("bob BUCKET 2/1000"), "DENIED: DENIED 2 0 400 900 0");
}

/* What a burst does at the edge of a window: the first algorithm's weakness, which the
 * others are for. */
TEST(at_the_edge_of_a_window)
{
    advance(999);
    expect_outcome(check_cost("bob FIXED 5/1000", 5), "ALLOWED");
    expect_outcome(check_cost("bob LOG 5/1000", 5), "ALLOWED");
    expect_outcome(check_cost("bob WINDOW 5/1000", 5), "ALLOWED");
    expect_outcome(check_cost("bob BUCKET 5/1000", 5), "ALLOWED");
    advance(1);
    expect_outcome(check_cost("bob FIXED 5/1000", 5), "ALLOWED");
    expect_outcome(check_cost("bob LOG 5/1000", 1), "DENIED");
    expect_outcome(check_cost("bob WINDOW 5/1000", 1), "DENIED");
    expect_outcome(check_cost("bob BUCKET 5/1000", 1), "DENIED");
}

/* The window before counts for the part of it that the sliding window covers. */
TEST(the_window_before_fades)
{
    expect_told(check_cost("bob WINDOW 10/1000", 10), "ALLOWED: ALLOWED 10 0 0 2000 0");
    advance(1000);
    expect_told(check_cost("bob WINDOW 10/1000", 1), "DENIED: DENIED 10 0 100 1000 0");
    advance(500);
    expect_told(peek("bob WINDOW 10/1000", 1), "ALLOWED: ALLOWED 10 5 0 500 0");
    expect_told(check_cost("bob WINDOW 10/1000", 5), "ALLOWED: ALLOWED 10 0 0 1500 0");
    advance(499);
    expect_told(peek("bob WINDOW 10/1000", 1), "ALLOWED: ALLOWED 10 4 0 1001 0");
    advance(1);
    expect_told(peek("bob WINDOW 10/1000", 1), "ALLOWED: ALLOWED 10 5 0 1000 0");
    advance(1000);
    expect_told(peek("bob WINDOW 10/1000", 1), "ALLOWED: ALLOWED 10 10 0 0 0");
}

TEST(a_bucket_holds_its_burst)
{
    const char *rule = "bob BUCKET 1/1000 burst=3";
    expect_told(check_cost(rule, 3), "ALLOWED: ALLOWED 1 0 0 3000 0");
    expect_told(check_cost(rule, 2), "DENIED: DENIED 1 0 2000 3000 0");
    advance(1999);
    expect_told(check_cost(rule, 2), "DENIED: DENIED 1 1 1 1001 0");
    advance(1);
    expect_told(check_cost(rule, 2), "ALLOWED: ALLOWED 1 0 0 3000 0");
    advance(100000);
    expect_told(check_rules(rule), "ALLOWED: ALLOWED 1 2 0 1000 0");
}

/* Ten million a second is a unit each tenth of a microsecond; three a second is one each
 * 333,333 and a third. */
TEST(rates_are_exact_below_a_microsecond)
{
    const char *fast = "bob BUCKET 10000000/1000 burst=10", *third = "bob BUCKET 3/1000 burst=2";
    expect_outcome(check_cost(fast, 7), "ALLOWED");
    expect_outcome(check_cost(fast, 4), "DENIED");
    advance_us(1);
    expect_outcome(check_cost(fast, 10), "ALLOWED");
    expect_outcome(check_cost(fast, 1), "DENIED");
    expect_outcome(check_cost(third, 2), "ALLOWED");
    advance_us(333333);
    expect_outcome(check_rules(third), "DENIED");
    advance_us(1);
    expect_outcome(check_rules(third), "ALLOWED");
    for (int i = 0; i < 2; i++) { /* the two thirds of a microsecond more are not lost */
        advance_us(333332);
        expect_outcome(check_rules(third), "DENIED");
        advance_us(1);
        expect_outcome(check_rules(third), "ALLOWED");
    }
}

TEST(a_cost_is_that_many_units)
{
    static const char *const rules[] = {"bob FIXED 10/1000", "bob LOG 10/1000", "bob WINDOW 10/1000",
                                        "bob BUCKET 10/1000"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(check_cost(rules[i], 0)->rules[0]->remaining, 9);
        assert_int_equal(check_cost(rules[i], 5)->rules[0]->remaining, 4);
        expect_outcome(check_cost(rules[i], 5), "DENIED");
        assert_int_equal(check_cost(rules[i], 4)->rules[0]->remaining, 0);
        expect_outcome(check_cost(rules[i], 1), "DENIED");
    }
}

/* More than fits at once never passes: that is a refusal like any other, for a policy may
 * have become smaller than what its callers ask. */
TEST(more_than_ever_fits_is_denied_for_good)
{
    remember();
    expect_told(check_cost("bob FIXED 5/1000", 6), "DENIED: DENIED 5 5 -1 0 0");
    expect_told(check_cost("bob LOG 5/1000", 6), "DENIED: DENIED 5 5 -1 0 0");
    expect_told(check_cost("bob WINDOW 5/1000", 6), "DENIED: DENIED 5 5 -1 0 0");
    expect_told(check_cost("bob BUCKET 5/1000 burst=7", 8), "DENIED: DENIED 5 7 -1 0 0");
    expect_told(check_cost("bob LOG 5/1000", SERVICE_QUANTITY_MAX), "DENIED: DENIED 5 5 -1 0 0");
    expect_unchanged();
}

/* ---- several rules ---- */

TEST(none_is_charged_unless_all_pass)
{
    const char *rules = "bob FIXED 1/1000;bob LOG 2/1000;bob WINDOW 3/1000;eve BUCKET 4/1000";
    expect_told(check_rules(rules), "ALLOWED: ALLOWED 1 0 0 1000 0: ALLOWED 2 1 0 1000 0: ALLOWED 3 2 0 2000 0"
                                    ": ALLOWED 4 3 0 250 0");
    remember();
    expect_told(check_rules(rules), "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 2 1 0 1000 0: ALLOWED 3 2 0 2000 0"
                                    ": ALLOWED 4 3 0 250 0");
    expect_unchanged();
}

TEST(independent_rules_are_charged_each_for_itself)
{
    lks_check_request request = message(check_request, .group = "g", .mode = LKS_CHECK_MODE_INDEPENDENT);
    set_rules(&request, "bob FIXED 1/1000;bob LOG 3/1000");
    expect_outcome(check(&request), "ALLOWED");
    expect_told(check(&request), "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 3 1 0 1000 0");
    expect_told(check(&request), "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 3 0 0 1000 0");
    expect_told(check(&request), "DENIED: DENIED 1 0 1000 1000 0: DENIED 3 0 1000 1000 0");
}

TEST(the_worst_outcome_is_that_of_the_check)
{
    check_rules("bob FIXED 1/1000 after=1 ban=1000");
    expect_outcome(check_rules("bob FIXED 1/1000 after=1 ban=1000"), "BANNED");
    check_rules("bob LOG 1/1000");
    expect_told(check_rules("bob LOG 1/1000;bob FIXED 1/1000 after=1 ban=1000;bob FIXED 9/1000"),
                "BANNED: DENIED 1 0 1000 1000 0: BANNED 1 0 1000 1000 1000: ALLOWED 9 9 0 0 0");
}

TEST(one_key_may_have_rules_of_many_periods)
{
    const char *rules = "bob FIXED 2/1000;bob FIXED 3/60000;bob FIXED 100/86400000";
    check_rules(rules);
    check_rules(rules);
    advance(1000);
    expect_outcome(check_rules(rules), "ALLOWED");
    expect_told(check_rules(rules), "DENIED: ALLOWED 2 1 0 1000 0: DENIED 3 0 59000 59000 0: "
                                    "ALLOWED 100 97 0 86399000 0");
}

/* ---- who is counted ---- */

TEST(a_counter_is_group_key_and_limit)
{
    lks_check_request request = message(check_request, );
    set_rules(&request, "bob FIXED 1/1000");
    expect_outcome(check(&request), "ALLOWED"); /* the group is "bob" */
    request.group = "bob";
    expect_outcome(check(&request), "DENIED");
    request.group = "other";
    expect_outcome(check(&request), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 1/1000"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 1/1000"), "DENIED");
    expect_outcome(check_rules("eve FIXED 1/1000"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 1/1001"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 2/1000"), "ALLOWED");
    expect_outcome(check_rules("bob LOG 1/1000"), "ALLOWED");
    harness_namespace(h, "other");
    expect_outcome(check_rules("bob FIXED 1/1000"), "ALLOWED");
}

TEST(what_is_said_twice_is_one_counter)
{
    expect_outcome(check_rules("bob BUCKET 1/1000"), "ALLOWED");
    expect_outcome(check_rules("bob BUCKET 1/1000 burst=1"), "DENIED");
    expect_outcome(check_rules("bob FIXED 1/1000 after=9 ban=5"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 1/1000 after=9 ban=5 factor=1"), "DENIED");
}

TEST(names_are_only_names)
{
    static const char *const keys[] = {"a:b", "a}", "{a", "a*", "a%3Ab", "a,F", "\xc3\xa9", "a\nb"};
    char rules[64];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        snprintf(rules, sizeof rules, "%s LOG 1/1000", keys[i]);
        expect_outcome(check_id(rules, 1, keys[i]), "ALLOWED");
        expect_outcome(check_rules(rules), "DENIED");
        assert_string_equal(refund("g", keys[i]), "REFUNDED");
    }
}

TEST(many_servers_share_a_counter)
{
    static const char *const servers[] = {"one", "two", "three"};
    int allowed = 0;
    for (int i = 0; i < 30; i++) {
        harness_server(h, servers[i % 3]);
        allowed += check_rules("bob FIXED 7/1000")->outcome == LKS_CHECK_OUTCOME_ALLOWED;
    }
    assert_int_equal(allowed, 7);
}

/* Calls that travel in one FCALL are charged one after the other. */
TEST(calls_may_travel_together)
{
    enum { N = 6 };
    lks_check_request request = message(check_request, .group = "g");
    const void *requests[N], *responses[N];
    lks_error errors[N];
    set_rules(&request, "bob FIXED 2/1000 after=4 ban=500;bob LOG 3/1000;eve BUCKET 5/1000");
    for (int i = 0; i < N; i++)
        requests[i] = &request;
    ask_together(N, requests, responses, errors);
    for (int i = 0; i < N; i++)
        expect_outcome(responses[i], i < 2 ? "ALLOWED" : i < 4 ? "DENIED" : "BANNED");
}

/* ---- peek ---- */

TEST(a_peek_tells_and_charges_nothing)
{
    const char *rules = "bob FIXED 2/1000 after=3 ban=500;bob LOG 2/1000 after=3 ban=500;"
                        "bob WINDOW 2/1000 after=3 ban=500;bob BUCKET 2/1000 after=3 ban=500";
    remember();
    for (int i = 0; i < 5; i++)
        expect_outcome(peek(rules, 1), "ALLOWED");
    expect_outcome(peek(rules, 3), "DENIED");
    expect_unchanged();
    check_rules(rules);
    check_rules(rules);
    remember();
    for (int i = 0; i < 5; i++)
        expect_outcome(peek(rules, 1), "DENIED");
    expect_unchanged();
    check_rules(rules);
    expect_outcome(check_rules(rules), "BANNED");
    remember();
    expect_outcome(peek(rules, 1), "BANNED");
    expect_unchanged();
}

/* Where the next try would begin a ban: it would not pass, though nobody is banned. */
TEST(a_peek_foresees_a_ban)
{
    check_rules("bob FIXED 9/1000 after=1 ban=500");
    advance(100);
    expect_told(peek("bob FIXED 9/1000 after=1 ban=500", 1), "DENIED: DENIED 9 8 900 900 0");
    advance(900);
    expect_told(peek("bob FIXED 9/1000 after=1 ban=500", 1), "ALLOWED: ALLOWED 9 9 0 0 0");
}

TEST(a_peek_has_no_identity)
{
    lks_check_request request = message(check_request, );
    request.request_id = "r";
    set_rules(&request, "g FIXED 2/1000");
    expect_outcome(check(&request), "ALLOWED");
    request.peek = true;
    expect_told(check(&request), "ALLOWED: ALLOWED 2 1 0 1000 0");
}

/* ---- request_id ---- */

TEST(a_repeat_is_the_first_answer)
{
    const char *rules = "bob FIXED 3/90000;bob LOG 3/90000;bob WINDOW 3/90000;bob BUCKET 3/90000";
    char first[512];
    snprintf(first, sizeof first, "%s", told(check_id(rules, 2, "r")));
    remember();
    advance(1000);
    const char *again = told(check_id(rules, 2, "r"));
    assert_true(strncmp(again, "ALLOWED replayed: ", 18) == 0);
    assert_string_equal(again + strlen("ALLOWED replayed"), first + strlen("ALLOWED"));
    expect_unchanged();
}

TEST(a_request_id_means_one_check)
{
    lks_check_request request = message(check_request, );
    static const char *const others[] = {"bob FIXED 6/1000", "eve FIXED 5/1000", "bob LOG 5/1000",
                                         "bob FIXED 5/1000;bob LOG 5/1000", "bob @api"};
    put_policy("api", "FIXED 5/1000", false, 0);
    expect_outcome(check_id("bob FIXED 5/1000", 1, "r"), "ALLOWED");
    remember();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(check_id(others[i], 1, "r"));
        expect_error(LKS_ALREADY_EXISTS, "request_id");
    }
    assert_null(check_id("bob FIXED 5/1000", 2, "r"));
    expect_error(LKS_ALREADY_EXISTS, "request_id");
    request.group = "g";
    request.request_id = "r";
    request.mode = LKS_CHECK_MODE_INDEPENDENT;
    set_rules(&request, "bob FIXED 5/1000");
    assert_null(check(&request));
    expect_error(LKS_ALREADY_EXISTS, "request_id");
    expect_unchanged();
}

/* A policy may get other numbers between a call and its repeat. */
TEST(a_repeat_survives_a_change_of_its_policy)
{
    put_policy("api", "FIXED 5/10000", false, 0);
    expect_told(check_id("bob @api", 1, "r"), "ALLOWED: ALLOWED 5 4 0 10000 0");
    put_policy("api", "LOG 1/1000", false, 0);
    expect_told(check_id("bob @api", 1, "r"), "ALLOWED replayed: ALLOWED 5 4 0 10000 0");
}

/* Or be deleted. */
TEST(a_repeat_survives_the_end_of_its_policy)
{
    put_policy("api", "FIXED 5/10000", false, 0);
    expect_outcome(check_id("bob FIXED 5/10000;bob @api", 1, "r"), "ALLOWED");
    assert_true(delete_policy("api", 0));
    expect_outcome(check_id("bob FIXED 5/10000;bob @api", 1, "r"), "ALLOWED replayed");
    remember();
    assert_null(check_id("bob FIXED 5/10000;bob @api", 1, "s"));
    expect_error(LKS_NOT_FOUND, "rules[1].policy");
    expect_unchanged();
}

TEST(a_refusal_leaves_no_record_and_may_change)
{
    check_rules("bob FIXED 1/1000");
    remember();
    expect_outcome(check_id("bob FIXED 1/1000", 1, "r"), "DENIED");
    expect_unchanged();
    advance(1000);
    expect_outcome(check_id("bob FIXED 1/1000", 1, "r"), "ALLOWED");
}

/* What charged anything is an effect, whatever the outcome of the whole. */
TEST(a_partly_charged_check_is_recorded)
{
    lks_check_request request =
        message(check_request, .group = "g", .request_id = "r", .mode = LKS_CHECK_MODE_INDEPENDENT);
    check_rules("bob FIXED 1/1000");
    set_rules(&request, "bob FIXED 1/1000;bob LOG 3/1000");
    expect_outcome(check(&request), "DENIED");
    expect_outcome(check(&request), "DENIED replayed");
    expect_told(peek("bob LOG 3/1000", 1), "ALLOWED: ALLOWED 3 2 0 1000 0");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(peek("bob LOG 3/1000", 1), "ALLOWED: ALLOWED 3 3 0 0 0");
}

/* min(period, 60 s); of several rules the shortest period. */
TEST(a_request_is_remembered_while_it_may_come_again)
{
    static const struct {
        const char *rules;
        uint32_t repeat_ms;
        int64_t kept_ms;
    } rows[] = {
        /* As long as its caller goes on, and 5 s more. */
        {"bob FIXED 5/1000", 1000, 6000},
        {"eve FIXED 5/1000", 30000, 35000},
        {"ann FIXED 5/1000", UINT32_MAX, 86405000},
        /* As long as the charge counts. */
        {"bob BUCKET 1/1000 burst=100", 1000, 90000},
        {"bob FIXED 90/3600000", 1000, 3600000},
        {"bob WINDOW 90/60000", 1000, 120000},
        {"bob LOG 90/400000;bob FIXED 90/20000", 1000, 400000},
    };
    char id[8];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t units = strstr(rows[i].rules, "/1000") && !strstr(rows[i].rules, "burst") ? 1 : 90;
        ratelimit_reset(state);
        snprintf(id, sizeof id, "r%zu", i);
        harness_repeat_ms(h, rows[i].repeat_ms);
        expect_outcome(check_id(rows[i].rules, units, id), "ALLOWED");
        int64_t left = strtoll(harness_redis(h, "PTTL ls:{default/g}:rate:q:%s", id), NULL, 10);
        assert_in_range(left, 3590000 + rows[i].kept_ms, 3600000 + rows[i].kept_ms); /* see ratelimit_reset */
        advance(rows[i].kept_ms - 1);
        expect_outcome(check_id(rows[i].rules, units, id), "ALLOWED replayed");
        advance(1);
        const lks_check_response *after = check_id(rows[i].rules, units, id);
        assert_true(after && !after->replayed);
    }
}

/* A bucket of 100 that gets one back a second: the first answer is lost, the same comes
 * again after more than a period, and nobody pays twice or cannot be paid back. */
TEST(a_slow_retry_is_charged_once)
{
    const char *rules = "bob BUCKET 1/1000 burst=100";
    expect_outcome(check_id(rules, 60, "r"), "ALLOWED");
    advance(2500);
    expect_outcome(check_id(rules, 60, "r"), "ALLOWED replayed");
    assert_int_equal(peek(rules, 1)->rules[0]->remaining, 42);
    advance(7500);
    assert_string_equal(refund("g", "r"), "REFUNDED");
    assert_int_equal(peek(rules, 1)->rules[0]->remaining, 100);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

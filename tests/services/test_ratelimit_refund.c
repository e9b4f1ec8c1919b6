/* RateLimitService, Refund and Reset: what was charged is given back once, and never more
 * than the counter still holds; and what a counter leaves in the store. */
#include "ratelimit_script.h"

static const char *const all_rules = "bob FIXED 9/1000;bob LOG 9/1000;bob WINDOW 9/1000;eve BUCKET 9/1000";

TEST(each_algorithm_gives_back)
{
    check_cost(all_rules, 3);
    expect_outcome(check_id(all_rules, 5, "r"), "ALLOWED");
    expect_outcome(check_cost(all_rules, 2), "DENIED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(peek(all_rules, 1), "ALLOWED: ALLOWED 9 6 0 1000 0: ALLOWED 9 6 0 1000 0: ALLOWED 9 6 0 2000 0"
                                    ": ALLOWED 9 6 0 334 0");
    expect_outcome(check_cost(all_rules, 6), "ALLOWED");
    expect_outcome(check_cost(all_rules, 1), "DENIED");
}

static int64_t pttl(const char *key)
{
    return strtoll(harness_redis(h, "PTTL %s", key), NULL, 10);
}

TEST(a_check_is_refunded_once)
{
    expect_outcome(check_id(all_rules, 2, "r"), "ALLOWED");
    expect_outcome(check_id(all_rules, 4, "s"), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    remember();
    assert_string_equal(refund("g", "r"), "ALREADY_REFUNDED");
    expect_unchanged();
    assert_true(pttl("ls:{default/g}:rate:q:r") > 0);
    expect_told(peek(all_rules, 1), "ALLOWED: ALLOWED 9 5 0 1000 0: ALLOWED 9 5 0 1000 0: ALLOWED 9 5 0 2000 0"
                                    ": ALLOWED 9 5 0 445 0");
}

TEST(what_was_never_charged_cannot_be_refunded)
{
    remember();
    assert_string_equal(refund("g", "r"), "UNKNOWN");
    check_rules("bob FIXED 1/1000");
    remember();
    check_id("bob FIXED 1/1000", 1, "r"); /* denied */
    assert_string_equal(refund("g", "r"), "UNKNOWN");
    expect_unchanged();
    check_id("bob LOG 1/1000", 1, "s");
    assert_string_equal(refund("other", "s"), "UNKNOWN");
    harness_namespace(h, "other");
    assert_string_equal(refund("g", "s"), "UNKNOWN");
    harness_namespace(h, "default");
    advance(6000); /* as long as the check is remembered */
    assert_string_equal(refund("g", "s"), "UNKNOWN");
}

/* A check with an empty group is in that of its one key. */
TEST(a_refund_needs_the_group_of_its_check)
{
    lks_check_request request = message(check_request, .request_id = "r");
    set_rules(&request, "bob FIXED 1/1000");
    expect_outcome(check(&request), "ALLOWED");
    assert_string_equal(refund("bob", "r"), "REFUNDED");
}

TEST(the_repeat_of_a_refunded_check_charges_nothing)
{
    expect_outcome(check_id("bob FIXED 2/1000", 2, "r"), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(check_id("bob FIXED 2/1000", 2, "r"), "ALLOWED replayed: ALLOWED 2 0 0 1000 0");
    assert_int_equal(peek("bob FIXED 2/1000", 1)->rules[0]->remaining, 2);
}

/* The window has passed: that is still a refund, of nothing. */
TEST(a_fixed_window_that_is_over_gives_nothing_back)
{
    const char *rules = "bob FIXED 9/1000;bob LOG 9/1000;bob WINDOW 9/1000;bob BUCKET 9/1000;bob LOG 90000/90000";
    advance(900);
    expect_outcome(check_id(rules, 5, "r"), "ALLOWED");
    advance(99);
    check_cost("bob FIXED 9/1000", 4);
    advance(1);
    check_cost("bob FIXED 9/1000", 7);
    assert_string_equal(refund("g", "r"), "REFUNDED");
    assert_int_equal(peek("bob FIXED 9/1000", 1)->rules[0]->remaining, 2);
}

/* Of the window before, what it counts for is given back. */
TEST(a_sliding_window_gives_back_what_it_still_counts)
{
    const char *rule = "bob WINDOW 10/1000";
    advance(900);
    expect_outcome(check_id(rule, 8, "r"), "ALLOWED");
    advance(600);
    expect_outcome(check_cost(rule, 6), "ALLOWED");
    expect_outcome(check_rules(rule), "DENIED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    assert_int_equal(peek(rule, 1)->rules[0]->remaining, 4);
}

/* What has flowed back is not given back a second time. */
TEST(a_bucket_gives_back_what_has_not_flowed_back)
{
    const char *rule = "bob BUCKET 10/1000 burst=10";
    expect_outcome(check_id(rule, 6, "r"), "ALLOWED");
    advance(500); /* 5 of 6 */
    expect_outcome(check_cost(rule, 9), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(peek(rule, 1), "ALLOWED: ALLOWED 10 1 0 900 0");

    ratelimit_reset(state);
    expect_outcome(check_id(rule, 5, "r"), "ALLOWED");
    advance(500);
    expect_outcome(check_cost(rule, 10), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(peek(rule, 1), "DENIED: DENIED 10 0 100 1000 0");

    ratelimit_reset(state);
    expect_outcome(check_id(rule, 5, "r"), "ALLOWED");
    expect_outcome(check_cost(rule, 3), "ALLOWED");
    advance(600); /* more than all 5 of it */
    expect_outcome(check_cost(rule, 8), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_told(peek(rule, 1), "DENIED: DENIED 10 0 100 1000 0");
}

TEST(a_log_gives_back_its_own_entries)
{
    const char *rule = "bob LOG 10/1000";
    expect_outcome(check_id(rule, 1, "a"), "ALLOWED");
    advance(100);
    expect_outcome(check_id(rule, 3, "b"), "ALLOWED"); /* two entries, of one and of two units */
    advance(100);
    expect_outcome(check_id(rule, 6, "c"), "ALLOWED");
    assert_string_equal(refund("g", "c"), "REFUNDED");
    expect_told(peek(rule, 1), "ALLOWED: ALLOWED 10 6 0 900 0");
    assert_string_equal(refund("g", "a"), "REFUNDED");
    expect_told(peek(rule, 8), "DENIED: DENIED 10 7 900 900 0");
    assert_string_equal(refund("g", "b"), "REFUNDED");
    expect_told(peek(rule, 8), "ALLOWED: ALLOWED 10 10 0 0 0");
}

TEST(a_log_is_as_new_when_the_last_charge_that_stands_is_over)
{
    const char *rule = "bob LOG 10/1000";
    expect_outcome(check_id(rule, 1, "a"), "ALLOWED");
    advance(100);
    expect_outcome(check_id(rule, 2, "b"), "ALLOWED");
    advance(100);
    expect_outcome(check_id(rule, 3, "c"), "ALLOWED");
    assert_string_equal(refund("g", "b"), "REFUNDED");
    expect_told(peek(rule, 1), "ALLOWED: ALLOWED 10 6 0 1000 0");
    assert_string_equal(refund("g", "c"), "REFUNDED");
    expect_told(peek(rule, 1), "ALLOWED: ALLOWED 10 9 0 800 0");
}

/* A counter that began anew does not give back what another one was charged. */
TEST(a_reset_counter_gives_nothing_back)
{
    advance(10);
    expect_outcome(check_id(all_rules, 5, "r"), "ALLOWED");
    assert_true(reset("g", "bob"));
    assert_true(reset("g", "eve"));
    advance(1);
    expect_outcome(check_cost(all_rules, 9), "ALLOWED");
    assert_string_equal(refund("g", "r"), "REFUNDED");
    expect_outcome(check_rules("bob FIXED 9/1000"), "DENIED");
    expect_outcome(check_rules("bob LOG 9/1000"), "DENIED");
    expect_outcome(check_rules("bob WINDOW 9/1000"), "DENIED");
    expect_outcome(check_rules("eve BUCKET 9/1000"), "DENIED");
}

/* Nor one whose policy was changed in between. */
TEST(a_changed_policy_gives_nothing_back)
{
    static const char *const before[] = {"FIXED 9/1000", "LOG 9/1000", "WINDOW 9/1000", "BUCKET 9/1000"};
    static const char *const after[] = {"FIXED 9/2000", "LOG 9/2000", "WINDOW 9/2000", "BUCKET 9/2000"};
    for (int i = 0; i < 4; i++) {
        ratelimit_reset(state);
        put_policy("api", before[i], false, 0);
        expect_outcome(check_id("bob @api", 5, "r"), "ALLOWED");
        put_policy("api", after[i], false, 0);
        expect_outcome(check_cost("bob @api", 4), "ALLOWED");
        assert_string_equal(refund("g", "r"), "REFUNDED");
        expect_outcome(check_rules("bob @api"), "DENIED");
    }
}

/* ---- Reset ---- */

TEST(reset_forgets_counters_and_bans_of_a_key)
{
    const char *rules = "bob FIXED 1/1000 after=1 ban=9000;bob LOG 3/1000;bob WINDOW 1/1000;bob BUCKET 1/1000;"
                        "eve FIXED 1/1000";
    expect_outcome(check_rules(rules), "ALLOWED");
    expect_outcome(check_cost("bob LOG 3/1000", 2), "ALLOWED");
    expect_outcome(check_rules(rules), "BANNED");
    assert_true(reset("g", "bob"));
    assert_string_equal(harness_redis(h, "KEYS ls:{*"), "ls:{default/g}:rate:k:eve\n");
    expect_outcome(check_rules(rules), "DENIED");
    assert_true(reset("g", "eve"));
    expect_outcome(check_rules(rules), "ALLOWED");
    assert_true(reset("g", "nobody"));
}

TEST(the_group_of_a_reset_is_its_key)
{
    lks_check_request request = message(check_request, );
    set_rules(&request, "bob FIXED 1/1000");
    check(&request);
    assert_true(reset("", "bob"));
    expect_outcome(check(&request), "ALLOWED");
}

/* ---- what is left in the store ---- */

TEST(every_key_ends_when_it_matters_no_more)
{
    const int64_t hour = 3600000, slack = 60000;
    let_keys_end();
    advance(hour / 4);
    check_rules("a FIXED 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:a"), hour * 3 / 4 - slack, hour * 3 / 4);
    check_rules("b LOG 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:b"), hour - slack, hour);
    assert_in_range(pttl("ls:{default/g}:rate:l:b:L,2,3600000:0"), hour * 7 / 4 - slack, hour * 7 / 4);
    check_rules("c WINDOW 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:c"), hour * 7 / 4 - slack, hour * 7 / 4);
    check_rules("d BUCKET 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:d"), hour / 2 - slack, hour / 2);
    /* A log whose policy has a longer period than before. */
    put_policy("api", "LOG 5/3600000", false, 0);
    check_rules("e @api");
    put_policy("api", "LOG 5/7200000", false, 0);
    check_rules("e @api");
    assert_in_range(pttl("ls:{default/g}:rate:l:e:@api,L:0"), hour * 15 / 4 - slack, hour * 15 / 4);
    /* Of several counters the last one's end. */
    check_rules("a FIXED 2/7200000");
    assert_in_range(pttl("ls:{default/g}:rate:k:a"), hour * 7 / 4 - slack, hour * 7 / 4);
    check_rules("a FIXED 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:a"), hour * 7 / 4 - slack, hour * 7 / 4);
    advance(hour * 2);
    check_rules("a FIXED 2/3600000");
    assert_in_range(pttl("ls:{default/g}:rate:k:a"), hour * 3 / 4 - slack, hour * 3 / 4);
}

TEST(a_denied_check_writes_nothing)
{
    check_cost("bob FIXED 1/1000;bob LOG 1/1000;bob WINDOW 1/1000;bob BUCKET 1/1000", 1);
    remember();
    check_rules("bob FIXED 1/1000");
    check_rules("bob LOG 1/1000");
    check_rules("bob WINDOW 1/1000");
    check_rules("bob BUCKET 1/1000");
    expect_unchanged();
}

/* Counters of a key that are over go with the next write; there are at most 128. */
TEST(counters_of_a_key_are_bounded)
{
    char rules[64];
    for (int i = 1; i <= 128; i++) {
        snprintf(rules, sizeof rules, "bob FIXED %d/1000", i);
        expect_outcome(check_rules(rules), "ALLOWED");
    }
    remember();
    assert_null(check_rules("bob FIXED 129/1000"));
    assert_int_equal(err.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    expect_unchanged();
    assert_null(check_rules("eve FIXED 1/1000;bob FIXED 129/1000"));
    assert_int_equal(err.code, LKS_RESOURCE_EXHAUSTED);
    expect_unchanged();
    expect_outcome(check_rules("bob FIXED 128/1000"), "ALLOWED");
    advance(1000);
    expect_outcome(check_rules("bob FIXED 129/1000;bob FIXED 130/1000"), "ALLOWED");
    assert_string_equal(harness_redis(h, "STRLEN ls:{default/g}:rate:k:bob"), "104"); /* of two counters */
}

static void expect_chunks(const char *log, const char *expected)
{
    char found[16] = "";
    for (size_t i = 0; i < strlen(expected); i++)
        strcat(found, harness_redis(h, "EXISTS %s%d", log, (int)i));
    assert_string_equal(found, expected);
}

/* A log is kept in chunks of 512 entries. What is over goes with the next charge, and the count is exact all the same. */
TEST(chunks_of_a_log_go_when_all_of_them_is_over)
{
    const char *rule = "bob LOG 1000/1000", *log = "ls:{default/g}:rate:l:bob:L,1000,1000:";
    for (int i = 0; i < 1000; i++) {
        expect_outcome(check_rules(rule), "ALLOWED");
        harness_forget(h);
        if (i % 100 == 99)
            advance(1);
    }
    expect_told(check_rules(rule), "DENIED: DENIED 1000 0 990 999 0");
    expect_told(peek(rule, 300), "DENIED: DENIED 1000 0 992 999 0");
    expect_told(peek(rule, 700), "DENIED: DENIED 1000 0 996 999 0");
    expect_told(peek(rule, 701), "DENIED: DENIED 1000 0 997 999 0");
    expect_chunks(log, "110");
    advance(995); /* entries of the first six milliseconds are over */
    expect_told(peek(rule, 601), "DENIED: DENIED 1000 600 1 4 0");
    expect_chunks(log, "110");
    expect_told(check_rules(rule), "ALLOWED: ALLOWED 1000 599 0 1000 0");
    expect_chunks(log, "011"); /* another window has begun, and with it another chunk */
    for (int i = 0; i < 599; i++) {
        expect_outcome(check_rules(rule), "ALLOWED");
        harness_forget(h);
    }
    expect_told(check_rules(rule), "DENIED: DENIED 1000 0 1 1000 0");
    expect_told(peek(rule, 401), "DENIED: DENIED 1000 0 1000 1000 0");
    expect_chunks(log, "01110");
    assert_true(reset("g", "bob"));
    expect_chunks(log, "00000");
}

/* What was given back does not count in what its chunk costs as a whole. */
TEST(a_chunk_costs_what_was_not_given_back)
{
    const char *rule = "bob LOG 1000/1000";
    char id[16];
    for (int i = 0; i < 600; i++) {
        snprintf(id, sizeof id, "r%d", i);
        expect_outcome(check_id(rule, 1, id), "ALLOWED");
        harness_forget(h);
    }
    assert_string_equal(refund("g", "r10"), "REFUNDED");
    assert_string_equal(refund("g", "r511"), "REFUNDED");
    assert_string_equal(refund("g", "r599"), "REFUNDED");
    advance(1);
    expect_outcome(check_cost(rule, 400), "ALLOWED");
    expect_told(peek(rule, 4), "DENIED: DENIED 1000 3 999 1000 0");
    advance(999);
    expect_told(peek(rule, 601), "DENIED: DENIED 1000 600 1 1 0");
    expect_told(check_cost(rule, 600), "ALLOWED: ALLOWED 1000 0 0 1000 0");
}

/* A clock that steps back lets nothing pass a second time. */
TEST(a_clock_set_back_admits_no_more)
{
    const char *rules = "bob FIXED 5/1000;bob LOG 5/1000;bob WINDOW 5/1000;bob BUCKET 5/1000";
    advance(100000);
    expect_outcome(check_cost(rules, 5), "ALLOWED");
    advance(-1500);
    for (int ms = 0; ms < 1500; ms += 300) {
        expect_outcome(check_rules("bob FIXED 5/1000"), "DENIED");
        expect_outcome(check_rules("bob LOG 5/1000"), "DENIED");
        expect_outcome(check_rules("bob WINDOW 5/1000"), "DENIED");
        expect_outcome(check_rules("bob BUCKET 5/1000"), "DENIED");
        advance(300);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

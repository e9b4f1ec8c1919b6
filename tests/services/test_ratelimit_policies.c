/* RateLimitService: limits by name, on several servers; each has a cache of its own. */
#include "ratelimit_script.h"

static const lks_list_policies_response *list(int32_t size, const char *token)
{
    return ask(list_policies, .page_size = size, .page_token = token);
}

TEST(a_policy_is_what_was_put)
{
    const lks_policy *put = put_policy("api", "BUCKET 5/1000 burst=10 after=7 ban=2000 factor=3 max=9000", true, 0);
    assert_non_null(put);
    assert_string_equal(put->name, "api");
    assert_int_equal(put->version, now_us());
    const lks_policy *got = get_policy("api");
    assert_int_equal(got->version, put->version);
    assert_true(got->shadow);
    assert_int_equal(got->limit->algorithm, LKS_ALGORITHM_TOKEN_BUCKET);
    assert_int_equal(got->limit->limit, 5);
    assert_int_equal(got->limit->period_ms, 1000);
    assert_int_equal(got->limit->burst, 10);
    assert_int_equal(got->limit->penalty->after, 7);
    assert_int_equal(got->limit->penalty->ban_ms, 2000);
    assert_int_equal(got->limit->penalty->factor, 3);
    assert_int_equal(got->limit->penalty->max_ban_ms, 9000);
}

/* What holds when a field was left out is told. */
TEST(defaults_are_told)
{
    const lks_policy *put = put_policy("api", "BUCKET 5/1000 after=1 ban=1", false, 0);
    assert_false(put->shadow);
    assert_int_equal(put->limit->burst, 5);
    assert_int_equal(put->limit->penalty->factor, 1);
    assert_int_equal(put->limit->penalty->max_ban_ms, INT64_C(366) * 24 * 3600 * 1000);
    assert_null(put_policy("api", "FIXED 5/1000", false, 0)->limit->penalty);
}

TEST(versions_are_compared_and_never_used_twice)
{
    assert_null(put_policy("api", "FIXED 5/1000", false, 3));
    expect_error(LKS_ABORTED, "expected_version");
    assert_non_null(strstr(err.message, "the current one is 0"));
    int64_t first = put_policy("api", "FIXED 5/1000", false, 0)->version;
    int64_t second = put_policy("api", "FIXED 6/1000", false, first)->version;
    assert_true(second > first);
    remember();
    assert_null(put_policy("api", "FIXED 7/1000", false, first));
    expect_error(LKS_ABORTED, "expected_version");
    char current[64];
    snprintf(current, sizeof current, "the current one is %lld", (long long)second);
    assert_non_null(strstr(err.message, current));
    assert_false(delete_policy("api", first));
    expect_error(LKS_ABORTED, "expected_version");
    expect_unchanged();
    assert_true(delete_policy("api", second));
    assert_null(get_policy("api"));
    expect_error(LKS_NOT_FOUND, "name");
    assert_false(delete_policy("api", 0));
    expect_error(LKS_NOT_FOUND, "name");
    advance(-10000);
    assert_true(put_policy("api", "FIXED 5/1000", false, 0)->version > second);
}

/* The marks of what was deleted, and of the last change, go when the clock is a day past them. */
TEST(what_is_left_of_policies_ends)
{
    put_policy("api", "FIXED 5/1000", false, 0);
    assert_true(delete_policy("api", 0));
    static const char *const marks[] = {"PTTL ls:{default/policies}:rate:v", "PTTL ls:{default/policies}:rate:c"};
    for (size_t i = 0; i < 2; i++) {
        int64_t left = strtoll(harness_redis(h, marks[i]), NULL, 10);
        assert_true(left > 86000000 && left <= 86400001); /* a version may be a microsecond ahead */
    }
    harness_redis(h, "DEL ls:{default/policies}:rate:v ls:{default/policies}:rate:c");
    assert_string_equal(harness_redis(h, "KEYS ls:*rate*"), "");
}

TEST(pages_are_in_order)
{
    static const char *const names[] = {"a", "a/b", "b", "c", "\xc3\xa9"};
    assert_int_equal(list(0, "")->n_policies, 0);
    for (int i = 4; i >= 0; i--)
        put_policy(names[i], "FIXED 5/1000", false, 0);
    const char *token = "";
    for (size_t at = 0; at < 5;) {
        const lks_list_policies_response *page = list(2, token);
        for (size_t i = 0; i < page->n_policies; i++)
            assert_string_equal(page->policies[i]->name, names[at++]);
        token = page->next_page_token;
        assert_int_equal(token[0] == '\0', at == 5);
    }
    assert_int_equal(list(0, "")->n_policies, 5);
    delete_policy("b", 0);
    assert_int_equal(list(0, "")->n_policies, 4);
    harness_namespace(h, "other");
    assert_int_equal(list(0, "")->n_policies, 0);
}

TEST(a_check_goes_by_the_policy)
{
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 0 1000 0");
    expect_told(check_rules("bob @api"), "DENIED: DENIED 1 0 1000 1000 0");
    expect_outcome(check_rules("eve @api"), "ALLOWED");
    expect_outcome(check_rules("bob FIXED 1/1000"), "ALLOWED"); /* another counter */
    expect_outcome(check_rules("bob @api;bob FIXED 9/1000"), "DENIED");
}

TEST(an_unknown_policy_is_named)
{
    put_policy("api", "FIXED 1/1000", false, 0);
    remember();
    assert_null(check_rules("bob @api;bob @none"));
    expect_error(LKS_NOT_FOUND, "rules[1].policy");
    assert_null(check_rules("bob @api;bob @none")); /* from memory */
    expect_error(LKS_NOT_FOUND, "rules[1].policy");
    expect_unchanged();
}

TEST(namespaces_have_policies_of_their_own)
{
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    harness_namespace(h, "other");
    assert_null(check_rules("bob @api"));
    expect_error(LKS_NOT_FOUND, "rules[0].policy");
    put_policy("api", "FIXED 2/1000", false, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 2 1 0 1000 0");
}

/* ---- several servers ---- */

static long long policy_reads(void)
{
    return harness_commands(h, "hmget");
}

TEST(a_policy_is_read_once_a_second)
{
    put_policy("api", "FIXED 1000/60000", false, 0);
    check_rules("bob @api");
    long long before = policy_reads();
    for (int i = 0; i < 8; i++) {
        check_rules("bob @api");
        advance(100);
    }
    assert_int_equal(policy_reads(), before);
    advance(200);
    check_rules("bob @api");
    assert_int_equal(policy_reads(), before + 1);
    harness_server(h, "two");
    check_rules("bob @api");
    assert_int_equal(policy_reads(), before + 2);
}

TEST(that_there_is_none_is_known_as_long)
{
    assert_null(check_rules("bob @api"));
    long long before = policy_reads();
    assert_null(check_rules("bob @api"));
    assert_int_equal(policy_reads(), before);
    harness_server(h, "two");
    put_policy("api", "FIXED 1/1000", false, 0);
    harness_server(h, "harness");
    advance(1000);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
}

/* Put through one server; in force on it at once, on the others within a second. */
TEST(a_change_is_in_force_within_a_second)
{
    static const char *const servers[] = {"one", "two", "three"};
    put_policy("api", "FIXED 100/60000", false, 0);
    for (int s = 0; s < 3; s++) {
        harness_server(h, servers[s]);
        expect_outcome(check_rules("bob @api"), "ALLOWED");
    }
    harness_server(h, servers[0]);
    put_policy("api", "FIXED 1/60000", false, 0);
    expect_told(check_rules("bob @api"), "DENIED: DENIED 1 0 60000 60000 0");
    advance(1000);
    for (int s = 0; s < 3; s++) {
        harness_server(h, servers[s]);
        expect_told(check_rules("bob @api"), "DENIED: DENIED 1 0 59000 59000 0");
    }
    harness_server(h, servers[1]);
    delete_policy("api", 0);
    assert_null(check_rules("bob @api"));
    advance(1000);
    for (int s = 0; s < 3; s++) {
        harness_server(h, servers[s]);
        assert_null(check_rules("bob @api"));
        expect_error(LKS_NOT_FOUND, "rules[0].policy");
    }
}

/* More names than a server keeps: the oldest go, nothing else happens. */
TEST(the_cache_is_bounded)
{
    char rule[32];
    put_policy("api", "FIXED 100000/60000", false, 0);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    for (int i = 0; i < 4200; i++) {
        snprintf(rule, sizeof rule, "bob @p%d", i);
        assert_null(check_rules(rule));
        harness_forget(h);
    }
    long long before = policy_reads();
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    assert_int_equal(policy_reads(), before + 1);
    assert_null(check_rules("bob @p4199"));
    assert_null(check_rules("bob @p200"));
    assert_int_equal(policy_reads(), before + 1);
    assert_null(check_rules("bob @p0"));
    assert_int_equal(policy_reads(), before + 2);
}

/* ---- changes of a policy in use ---- */

/* What was charged under the old numbers counts under the new ones. */
TEST(other_numbers_keep_the_counter)
{
    static const char *const before[] = {"FIXED 5/1000", "LOG 5/1000", "WINDOW 5/1000", "BUCKET 5/1000"};
    static const char *const after[] = {"FIXED 3/10000", "LOG 3/10000", "WINDOW 3/10000", "BUCKET 3/10000"};
    for (int i = 0; i < 4; i++) {
        ratelimit_reset(state);
        put_policy("api", before[i], false, 0);
        expect_outcome(check_cost("bob @api", 2), "ALLOWED");
        put_policy("api", after[i], false, 0);
        expect_outcome(peek("bob @api", 2), "DENIED");
        expect_outcome(check_rules("bob @api"), "ALLOWED");
        expect_outcome(check_rules("bob @api"), "DENIED");
    }
}

TEST(more_than_the_new_limit_is_waited_for)
{
    static const char *const before[] = {"FIXED 9/10000", "LOG 9/10000", "WINDOW 9/10000", "BUCKET 9/10000"};
    static const char *const after[] = {"FIXED 3/1000", "LOG 3/1000", "WINDOW 3/1000", "BUCKET 3/1000"};
    for (int i = 0; i < 4; i++) {
        ratelimit_reset(state);
        put_policy("api", before[i], false, 0);
        expect_outcome(check_cost("bob @api", 9), "ALLOWED");
        put_policy("api", after[i], false, 0);
        const lks_check_response *denied = check_rules("bob @api");
        expect_outcome(denied, "DENIED");
        assert_int_equal(denied->rules[0]->remaining, 0);
        int64_t wait = denied->rules[0]->retry_after_ms;
        assert_in_range(wait, 1, 2000);
        advance(wait - 1);
        expect_outcome(peek("bob @api", 1), "DENIED");
        advance(1);
        expect_outcome(check_rules("bob @api"), "ALLOWED");
    }
}

TEST(another_algorithm_starts_anew)
{
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    put_policy("api", "LOG 1/1000", false, 0);
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    expect_outcome(check_rules("bob @api"), "DENIED");
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_outcome(check_rules("bob @api"), "DENIED"); /* its old counter, in its old window */
    put_policy("api", "WINDOW 3/1000", false, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 3 2 0 2000 0");
}

/* ---- shadow ---- */

TEST(a_shadow_counts_and_lets_pass)
{
    put_policy("api", "FIXED 1/1000", true, 0);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 0 1000 0");
    advance(100);
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 900 900 0");
    /* Beside a rule that denies it is not charged either. */
    expect_outcome(check_rules("eve @api;bob FIXED 1/1000"), "ALLOWED");
    expect_outcome(check_rules("dan @api;bob FIXED 1/1000"), "DENIED");
    expect_told(peek("dan @api", 1), "ALLOWED: ALLOWED 1 1 0 0 0");
    put_policy("api", "FIXED 1/1000", false, 0);
    expect_told(check_rules("bob @api"), "DENIED: DENIED 1 0 900 900 0");
}

TEST(a_shadow_tells_of_its_bans)
{
    put_policy("api", "FIXED 1/1000 after=2 ban=5000", true, 0);
    check_rules("bob @api");
    check_rules("bob @api");
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 1 0 5000 1000 5000");
    expect_told(check_rules("bob @api;eve FIXED 1/1000"), "ALLOWED: ALLOWED 1 0 5000 1000 5000: ALLOWED 1 0 0 1000 0");
}

/* ---- unlimited ---- */

TEST(an_unlimited_policy_is_told_as_such)
{
    const lks_policy *put = put_unlimited("api");
    assert_non_null(put);
    assert_true(put->unlimited);
    assert_false(put->shadow);
    assert_null(put->limit);
    const lks_policy *got = get_policy("api");
    assert_true(got->unlimited);
    assert_false(got->shadow);
    assert_null(got->limit);
    put_policy("apj", "FIXED 1/1000", true, 0);
    const lks_list_policies_response *listed = ask(list_policies, );
    assert_int_equal(listed->n_policies, 2);
    assert_true(listed->policies[0]->unlimited);
    assert_false(listed->policies[1]->unlimited);
    assert_true(listed->policies[1]->shadow);
    assert_false(put_policy("api", "FIXED 1/1000", false, 0)->unlimited);
}

/* Not even a key, or a record of the request: there is nothing to give back. */
TEST(an_unlimited_policy_counts_nothing)
{
    put_unlimited("api");
    expect_told(check_rules("bob @api"), "ALLOWED: ALLOWED 9007199254740991 9007199254740991 0 0 0");
    remember();
    expect_told(check_id("bob @api", 9007199254740991, "r1"),
                "ALLOWED: ALLOWED 9007199254740991 9007199254740991 0 0 0");
    expect_told(peek("bob @api", 1), "ALLOWED: ALLOWED 9007199254740991 9007199254740991 0 0 0");
    assert_string_equal(refund("g", "r1"), "UNKNOWN");
    expect_unchanged();
}

/* Beside it, others are judged and charged as without it. */
TEST(an_unlimited_policy_lets_others_judge)
{
    put_unlimited("api");
    expect_told(check_id("bob @api;bob FIXED 1/1000;eve @api", 0, "r1"),
                "ALLOWED: ALLOWED 9007199254740991 9007199254740991 0 0 0: ALLOWED 1 0 0 1000 0"
                ": ALLOWED 9007199254740991 9007199254740991 0 0 0");
    expect_told(check_rules("bob FIXED 1/1000;bob @api"),
                "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 9007199254740991 9007199254740991 0 0 0");
    assert_string_equal(refund("g", "r1"), "REFUNDED");
    expect_outcome(check_rules("bob @api;bob FIXED 1/1000"), "ALLOWED");
}

/* What was counted before it was unlimited is not forgotten by that. */
TEST(a_policy_may_become_unlimited_and_back)
{
    put_policy("api", "FIXED 1/60000", false, 0);
    expect_told(check_id("bob @api", 0, "r1"), "ALLOWED: ALLOWED 1 0 0 60000 0");
    put_unlimited("api");
    expect_outcome(check_rules("bob @api"), "ALLOWED");
    expect_told(check_id("bob @api", 0, "r1"), "ALLOWED replayed: ALLOWED 1 0 0 60000 0");
    put_policy("api", "FIXED 1/60000", false, 0);
    expect_outcome(check_rules("bob @api"), "DENIED");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

/* What the store can hold or do that it should not: foreign data under our keys changes
 * nothing, what must work when memory is short does, an error after a write is MAYBE. */
#include "ratelimit_script.h"

static const char *const rules = "a FIXED 5/1000 after=3 ban=9;a LOG 5/1000;a WINDOW 5/1000;b BUCKET 5/1000;b @api";

static void call_check(void)
{
    assert_null(check_rules(rules));
}

static void call_check_id(void)
{
    assert_null(check_id(rules, 1, "r"));
}

static void call_costly_check(void)
{
    assert_null(check_cost(rules, 3));
}

static void call_peek(void)
{
    assert_null(peek(rules, 1));
}

static void call_refund(void)
{
    assert_null(refund("g", "r"));
}

static void call_reset(void)
{
    assert_false(reset("g", "a"));
}

static void call_put(void)
{
    assert_null(put_policy("new", "FIXED 5/1000", false, 0));
}

static void call_put_over(void)
{
    assert_null(put_policy("api", "FIXED 5/1000", false, 0));
}

static void call_get(void)
{
    assert_null(get_policy("api"));
}

static void call_list(void)
{
    lks_list_policies_request request = message(list_policies_request, );

    assert_null(answer_to(&request));
}

static void call_delete(void)
{
    assert_false(delete_policy("api", 0));
}

static void call_check_anew(void)
{
    harness_server_ends(h, "harness");
    assert_null(check_rules(rules));
}

#define G "ls:{default/g}:"
#define P "ls:{default/policies}:"

static const struct foreign {
    const char *command; /* puts foreign data under key */
    const char *key;
    void (*call)(void);
} foreign[] = {
    {"SET %s x", G "rate:k:a", call_check},
    {"SET %s x", G "rate:k:b", call_check},
    {"SET %s x", G "rate:k:a", call_peek},
    {"SET %s x", G "rate:k:a", call_refund},
    {"SET %s x", G "rate:k:a", call_reset},
    {"HSET %s x y", G "rate:k:a", call_check},
    {"HSET %s x y", G "rate:k:a", call_reset},
    {"SET %s some-text-that-is-longer-than-the-record-of-a-counter-could-be", G "rate:k:a", call_check},
    {"APPEND %s x", G "rate:k:a", call_check},
    {"LPUSH %s x", G "rate:l:a:L,5,1000:0", call_check},
    {"LPUSH %s x", G "rate:l:a:L,5,1000:0", call_costly_check},
    {"LPUSH %s x", G "rate:l:a:L,5,1000:0", call_refund},
    {"LPUSH %s x", G "rate:q:r", call_check_id},
    {"SET %s x", G "rate:q:r", call_check_id},
    {"SET %s \x91\x01", G "rate:q:r", call_refund},
    {"LPUSH %s x", G "rate:q:r", call_refund},
    {"SET %s x", P "rate:p", call_put},
    {"SET %s x", P "rate:p", call_get},
    {"SET %s x", P "rate:p", call_list},
    {"SET %s x", P "rate:p", call_delete},
    {"SET %s x", P "rate:p", call_check_anew},
    {"HSET %s api x", P "rate:p", call_put_over},
    {"HSET %s api x", P "rate:p", call_get},
    {"HSET %s api \x92\xa6policy\x01", P "rate:p", call_get},
    {"HSET %s api x", P "rate:p", call_check_anew},
    {"SET %s x", P "rate:n", call_put},
    {"SET %s x", P "rate:n", call_delete},
    {"SET %s x", P "rate:n", call_list},
    {"SET %s x", P "rate:v", call_put},
    {"LPUSH %s x", P "rate:v", call_delete},
    {"SET %s x", P "rate:c", call_put},
    {"LPUSH %s x", P "rate:c", call_delete},
};

TEST(foreign_data_changes_nothing)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        ratelimit_reset(state);
        put_policy("api", "FIXED 5/1000", false, 0);
        expect_outcome(check_id(rules, 1, "r"), "ALLOWED");
        if (foreign[i].command[0] != 'A' && (foreign[i].command[0] != 'H' || !strstr(foreign[i].key, "rate:p")))
            harness_redis(h, "DEL %s", foreign[i].key);
        harness_redis(h, foreign[i].command, foreign[i].key);
        remember();
        foreign[i].call();
        if (err.code != LKS_FAILED_PRECONDITION || err.applied != LKS_APPLIED_NO)
            fail_msg("row %zu, %s: %s %s: %s", i, foreign[i].key, lks_code_name(err.code),
                     lks_applied_name(err.applied), err.message);
        expect_unchanged();
    }
}

/* Nothing that never ends comes in the place of a chunk that was lost. */
TEST(a_chunk_of_a_log_that_was_lost_is_not_left_in_part)
{
    check_rules("a LOG 5/1000");
    harness_redis(h, "DEL ls:{default/g}:rate:l:a:L,5,1000:0");
    expect_told(check_rules("a LOG 5/1000"), "ALLOWED: ALLOWED 5 3 0 1000 0");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:rate:l:a:L,5,1000:0"), "0");
    advance(999);
    expect_told(check_cost("a LOG 5/1000", 4), "DENIED: DENIED 5 3 1 1 0");
    advance(1);
    expect_told(check_cost("a LOG 5/1000", 5), "ALLOWED: ALLOWED 5 0 0 1000 0");
}

/* A chunk ends by itself when all of it is over, also one of which a part was passed over before. */
TEST(what_was_in_a_chunk_that_has_ended_counts_no_more)
{
    check_cost("a LOG 9/1000", 1);
    advance(1);
    check_cost("a LOG 9/1000", 2);
    advance(999);
    expect_told(check_cost("a LOG 9/1000", 3), "ALLOWED: ALLOWED 9 4 0 1000 0");
    advance(999);
    harness_redis(h, "DEL ls:{default/g}:rate:l:a:L,9,1000:0");
    expect_told(check_cost("a LOG 9/1000", 1), "ALLOWED: ALLOWED 9 5 0 1000 0");
}

/* That a Check then is refused is shown with a real server: tests/e2e/test_ratelimit.c. */
TEST(when_memory_is_short)
{
    expect_outcome(check_id("a FIXED 5/1000;a LOG 5/1000", 3, "r"), "ALLOWED");
    harness_redis(h, "CONFIG SET maxmemory 1");
    remember();
    expect_told(peek("a FIXED 5/1000", 1), "ALLOWED: ALLOWED 5 2 0 1000 0");
    expect_unchanged();
    assert_string_equal(refund("g", "r"), "REFUNDED");
    assert_int_equal(peek("a FIXED 5/1000;a LOG 5/1000", 1)->rules[1]->remaining, 5);
    assert_true(reset("g", "a"));
    harness_redis(h, "CONFIG SET maxmemory 0");
}

TEST(an_error_after_a_write_is_maybe)
{
    harness_alter(h, "write('SET', key, cmsgpack", "write('NOSUCH', key, cmsgpack");
    assert_null(check_id(rules, 1, "r"));
    assert_int_equal(err.code, LKS_NOT_FOUND); /* the policy */
    assert_null(check_id("a FIXED 5/1000", 1, "r"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
}

TEST(a_reply_of_another_shape_is_an_error)
{
    harness_alter(h, "local remaining = algorithm.remaining(record, rule, now, key)",
                  "if true then return {'ALLOWED', '0', 'x'} end\n"
                  "local remaining = algorithm.remaining(record, rule, now, key)");
    assert_null(check_rules("a FIXED 5/1000"));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "local policy = parse_policy(found[i])",
                  "local policy = nil reply[2] = 'x' if true then break end");
    assert_null(get_policy("api"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_null(check_rules("a @api"));
    assert_int_equal(err.code, LKS_INTERNAL);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)

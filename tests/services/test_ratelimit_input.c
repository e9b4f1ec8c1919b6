/* Bad input: INVALID_ARGUMENT, the field's name first, nothing changed. */
#include "ratelimit_script.h"

static char name_128[129], name_129[130];
static lks_check_request good;

#define MAX INT64_C(9007199254740991)
#define UNITS_MAX INT64_C(1000000000000)
#define SPAN_MAX INT64_C(31622400000)

/* A counter and a policy that good requests would change, and the keys as they are. */
static int with_a_counter(void **state)
{
    memset(name_128, 'n', 128);
    memset(name_129, 'n', 129);
    ratelimit_reset(state);
    assert_non_null(check_rules("a FIXED 5/1000"));
    assert_non_null(put_policy("api", "FIXED 5/1000", false, 0));
    good = message(check_request, .group = "g");
    set_rules(&good, "a FIXED 5/1000");
    remember();
    return 0;
}
TEST(check_names_what_is_wrong)
{
    lks_check_request r;
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, cost, -1, "cost");
    REFUSES(r, good, cost, MAX + 1, "cost");
    REFUSES(r, good, cost, INT64_MIN, "cost");
    REFUSES(r, good, request_id, name_129, "request_id");
    REFUSES(r, good, n_rules, 0, "rules");
    REFUSES(r, good, mode, (lks_check_mode)3, "mode");
    r = good;
    set_rules(&r, "a FIXED 1/1;b FIXED 1/1;c FIXED 1/1;d FIXED 1/1;e FIXED 1/1;f FIXED 1/1;g FIXED 1/1;h FIXED 1/1;"
                  "i FIXED 1/1");
    refuses(&r, "rules");
    r.n_rules = 2;
    r.group = "";
    refuses(&r, "group");
}

TEST(rules_name_what_is_wrong)
{
    lks_check_request r = good;
    set_rules(&r, "a FIXED 5/1000;b FIXED 5/1000");
    r.rules[1]->key = "";
    refuses(&r, "rules[1].key");
    r.rules[1]->key = name_129;
    refuses(&r, "rules[1].key");
    r.rules[1]->key = "b";
    r.rules[1]->spec_case = LKS_RULE_SPEC_NOT_SET;
    refuses(&r, "rules[1].policy");
    lks_rule_set_policy(r.rules[1], "");
    refuses(&r, "rules[1].policy");
    r.rules[1]->policy = name_129;
    refuses(&r, "rules[1].policy");
    set_rules(&r, "a FIXED 5/1000;b FIXED 5/1000;a FIXED 5/1000");
    refuses(&r, "rules[2].key");
    set_rules(&r, "a @api;b @api;b @api");
    refuses(&r, "rules[2].key");
    set_rules(&r, "a BUCKET 5/1000;a BUCKET 5/1000 burst=5");
    refuses(&r, "rules[1].key");
}

typedef struct bad_limit {
    const char *text, *field;
} bad_limit;

static const bad_limit bad_limits[] = {
    {"FIXED 0/1000", "limit"},
    {"FIXED -1/1000", "limit"},
    {"FIXED 1000000000001/1000", "limit"},
    {"FIXED 9223372036854775807/1000", "limit"},
    {"LOG 100001/1000", "limit"},
    {"FIXED 5/0", "period_ms"},
    {"FIXED 5/-1", "period_ms"},
    {"FIXED 5/31622400001", "period_ms"},
    {"FIXED 5/9223372036854775807", "period_ms"},
    {"FIXED 5/1000 burst=1", "burst"},
    {"LOG 5/1000 burst=5", "burst"},
    {"WINDOW 5/1000 burst=5", "burst"},
    {"BUCKET 5/1000 burst=-1", "burst"},
    {"BUCKET 5/1000 burst=1000000000001", "burst"},
    {"BUCKET 1/31622400000 burst=2", "burst"},
    {"BUCKET 1/1000 burst=31622401", "burst"},
    {"BUCKET 100/31622400000 burst=101", "burst"},
    {"BUCKET 1000000000000/31622400000 burst=1000000000001", "burst"},
    {"FIXED 5/1000 after=-1", "penalty.after"},
    {"FIXED 5/1000 after=1000000000001 ban=1", "penalty.after"},
    {"FIXED 5/1000 ban=1", "penalty.after"},
    {"FIXED 5/1000 factor=1", "penalty.after"},
    {"FIXED 5/1000 max=1", "penalty.after"},
    {"FIXED 5/1000 after=1", "penalty.ban_ms"},
    {"FIXED 5/1000 after=1 ban=-1", "penalty.ban_ms"},
    {"FIXED 5/1000 after=1 ban=31622400001", "penalty.ban_ms"},
    {"FIXED 5/1000 after=1 ban=9 factor=-1", "penalty.factor"},
    {"FIXED 5/1000 after=1 ban=9 factor=1001", "penalty.factor"},
    {"FIXED 5/1000 after=1 ban=9 max=8", "penalty.max_ban_ms"},
    {"FIXED 5/1000 after=1 ban=9 max=-1", "penalty.max_ban_ms"},
    {"FIXED 5/1000 after=1 ban=9 max=31622400001", "penalty.max_ban_ms"},
};
enum { N_BAD_LIMITS = sizeof bad_limits / sizeof bad_limits[0] };

TEST(limits_name_what_is_wrong)
{
    char rules[128], field[64];
    lks_check_request r = good;
    lks_penalty penalty;
    lks_limit limit;
    lks_put_policy_request put = message(put_policy_request, .name = "api", .limit = &limit);
    for (int i = 0; i < N_BAD_LIMITS; i++) {
        snprintf(rules, sizeof rules, "a FIXED 5/1000;b %s", bad_limits[i].text);
        set_rules(&r, rules);
        snprintf(field, sizeof field, "rules[1].limit.%s", bad_limits[i].field);
        refuses(&r, field);
        set_limit(&limit, &penalty, bad_limits[i].text);
        snprintf(field, sizeof field, "limit.%s", bad_limits[i].field);
        refuses(&put, field);
    }
    set_limit(&limit, &penalty, "FIXED 5/1000");
    limit.algorithm = LKS_ALGORITHM_UNSPECIFIED;
    refuses(&put, "limit.algorithm");
    limit.algorithm = (lks_algorithm)5;
    refuses(&put, "limit.algorithm");
}

TEST(an_unlimited_policy_is_nothing_else)
{
    lks_penalty penalty;
    lks_limit limit;

    set_limit(&limit, &penalty, "FIXED 5/1000");
    refuses(&message(put_policy_request, .name = "api", .unlimited = true, .limit = &limit), "limit");
    refuses(&message(put_policy_request, .name = "api", .unlimited = true, .shadow = true), "shadow");
}

/* The ends of what is good, and that they are counted exactly. */
TEST(the_largest_numbers_work)
{
    static const char *const rules[] = {
        "k FIXED 1000000000000/31622400000",
        "k WINDOW 1000000000000/31622400000",
        "k BUCKET 1000000000000/31622400000 burst=1000000000000",
        "k BUCKET 1000000000000/1 burst=1000000000000",
        "k BUCKET 1/31622400000 burst=1",
        "k BUCKET 1/1000 burst=31622400",
        "k LOG 100000/31622400000",
        "k FIXED 1000000000000/1 after=1000000000000 ban=31622400000 factor=1000 max=31622400000",
    };
    static const int64_t bursts[] = {UNITS_MAX, UNITS_MAX, UNITS_MAX, UNITS_MAX, 1, 31622400, 100000, UNITS_MAX};
    advance(1); /* not at the beginning of a window */
    for (int i = 0; i < 8; i++) {
        if (bursts[i] > 1) {
            const lks_check_response *first = check_cost(rules[i], bursts[i] - 1);
            expect_outcome(first, "ALLOWED");
            assert_int_equal(first->rules[0]->remaining, 1);
            expect_outcome(check_cost(rules[i], bursts[i]), "DENIED");
        }
        expect_outcome(check_cost(rules[i], 1), "ALLOWED");
        const lks_check_response *denied = check_cost(rules[i], 1);
        expect_outcome(denied, "DENIED");
        assert_in_range(denied->rules[0]->retry_after_ms, 1, 2 * SPAN_MAX);
    }
    assert_non_null(put_policy(name_128, "LOG 100000/1", false, 0));
    lks_check_request r = good;
    r.group = r.request_id = r.rules[0]->key = name_128;
    r.cost = MAX;
    expect_outcome(check(&r), "DENIED");
}

/* Products of up to 85 bits: a unit more or less would be told. */
TEST(long_products_are_exact)
{
    char rules[96];
    for (int i = 0; i < 40; i++) {
        int64_t cost = UNITS_MAX - 1 - i * INT64_C(23456789017);
        snprintf(rules, sizeof rules, "k%d BUCKET 999999999989/31622399999 burst=1000000000000", i);
        const lks_check_response *got = check_cost(rules, cost);
        expect_outcome(got, "ALLOWED");
        assert_int_equal(got->rules[0]->remaining, UNITS_MAX - cost);
        expect_outcome(check_cost(rules, UNITS_MAX - cost + 1), "DENIED");
        expect_outcome(check_cost(rules, UNITS_MAX - cost), "ALLOWED");
    }
}

TEST(refund_and_reset_name_what_is_wrong)
{
    lks_refund_request refund_good = message(refund_request, );
    lks_reset_request reset_good = message(reset_request, );
    refund_good.group = refund_good.request_id = "g";
    {
        lks_refund_request r;
        REFUSES(r, refund_good, group, "", "group");
        REFUSES(r, refund_good, group, name_129, "group");
        REFUSES(r, refund_good, request_id, "", "request_id");
        REFUSES(r, refund_good, request_id, name_129, "request_id");
    }
    reset_good.key = "a";
    {
        lks_reset_request r;
        REFUSES(r, reset_good, group, name_129, "group");
        REFUSES(r, reset_good, key, "", "key");
        REFUSES(r, reset_good, key, name_129, "key");
    }
}

TEST(policies_name_what_is_wrong)
{
    lks_put_policy_request put_good = message(put_policy_request, );
    lks_get_policy_request get_good = message(get_policy_request, );
    lks_list_policies_request list_good = message(list_policies_request, );
    lks_delete_policy_request delete_good = message(delete_policy_request, );
    lks_limit limit;
    lks_penalty penalty;
    set_limit(&limit, &penalty, "FIXED 5/1000");
    put_good.name = delete_good.name = "api";
    put_good.limit = &limit;
    {
        lks_put_policy_request r;
        REFUSES(r, put_good, name, "", "name");
        REFUSES(r, put_good, name, name_129, "name");
        REFUSES(r, put_good, limit, NULL, "limit");
        REFUSES(r, put_good, expected_version, -1, "expected_version");
        REFUSES(r, put_good, expected_version, MAX + 1, "expected_version");
    }
    {
        lks_get_policy_request r;
        REFUSES(r, get_good, name, "", "name");
        REFUSES(r, get_good, name, name_129, "name");
    }
    {
        lks_list_policies_request r;
        REFUSES(r, list_good, page_size, -1, "page_size");
        REFUSES(r, list_good, page_size, 1001, "page_size");
        REFUSES(r, list_good, page_token, name_129, "page_token");
    }
    {
        lks_delete_policy_request r;
        REFUSES(r, delete_good, name, "", "name");
        REFUSES(r, delete_good, name, name_129, "name");
        REFUSES(r, delete_good, expected_version, -1, "expected_version");
        REFUSES(r, delete_good, expected_version, MAX + 1, "expected_version");
    }
}

TEST(bytes_that_are_no_request)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{"\x0a\x05g", 3}, {"\x0a\x01\xff", 3}, {"\x0a\x02g\0", 4}, {"\x12\x03\x1a\x01", 4}, {"\xff", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses_bytes(&ratelimit_service, "Check", rows[i].bytes, rows[i].len, "");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = with_a_counter)

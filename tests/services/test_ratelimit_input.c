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
    empty_harness(state);
    assert_non_null(check_rules("a FIXED 5/1000"));
    assert_non_null(put_policy("api", "FIXED 5/1000", false, 0));
    good = (lks_check_request)LKS_CHECK_REQUEST_INIT;
    good.group = (char *)(uintptr_t) "g";
    set_rules(&good, "a FIXED 5/1000");
    remember();
    return 0;
}
#define INPUT_TEST(function) cmocka_unit_test_setup(function, with_a_counter)

static void invalid(const char *method, const void *request, const char *field)
{
    if (harness_call(h, &ratelimit_service, method, request, &err))
        fail_msg("%s took a bad %s", method, field);
    expect_error(LKS_INVALID_ARGUMENT, field);
    expect_unchanged();
}

/* Sets one member of a good request to a bad value. */
#define INVALID(method, good, member, value, field) \
    do {                                            \
        r = (good);                                 \
        r.member = (value);                         \
        invalid(method, &r, field);                 \
    } while (0)

TEST(check_names_what_is_wrong)
{
    lks_check_request r;
    INVALID("Check", good, group, name_129, "group");
    INVALID("Check", good, cost, -1, "cost");
    INVALID("Check", good, cost, MAX + 1, "cost");
    INVALID("Check", good, cost, INT64_MIN, "cost");
    INVALID("Check", good, request_id, name_129, "request_id");
    INVALID("Check", good, n_rules, 0, "rules");
    INVALID("Check", good, mode, (lks_check_mode)3, "mode");
    r = good;
    set_rules(&r, "a FIXED 1/1;b FIXED 1/1;c FIXED 1/1;d FIXED 1/1;e FIXED 1/1;f FIXED 1/1;g FIXED 1/1;h FIXED 1/1;"
                  "i FIXED 1/1");
    invalid("Check", &r, "rules");
    r.n_rules = 2;
    r.group = (char *)(uintptr_t) "";
    invalid("Check", &r, "group");
}

TEST(rules_name_what_is_wrong)
{
    lks_check_request r = good;
    set_rules(&r, "a FIXED 5/1000;b FIXED 5/1000");
    r.rules[1]->key = (char *)(uintptr_t) "";
    invalid("Check", &r, "rules[1].key");
    r.rules[1]->key = name_129;
    invalid("Check", &r, "rules[1].key");
    r.rules[1]->key = (char *)(uintptr_t) "b";
    r.rules[1]->spec_case = LKS_RULE_SPEC_NOT_SET;
    invalid("Check", &r, "rules[1].policy");
    r.rules[1]->spec_case = LKS_RULE_SPEC_POLICY;
    r.rules[1]->policy = (char *)(uintptr_t) "";
    invalid("Check", &r, "rules[1].policy");
    r.rules[1]->policy = name_129;
    invalid("Check", &r, "rules[1].policy");
    set_rules(&r, "a FIXED 5/1000;b FIXED 5/1000;a FIXED 5/1000");
    invalid("Check", &r, "rules[2].key");
    set_rules(&r, "a @api;b @api;b @api");
    invalid("Check", &r, "rules[2].key");
    set_rules(&r, "a BUCKET 5/1000;a BUCKET 5/1000 burst=5");
    invalid("Check", &r, "rules[1].key");
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
    lks_put_policy_request put = LKS_PUT_POLICY_REQUEST_INIT;
    lks_penalty penalty;
    lks_limit limit;
    put.name = (char *)(uintptr_t) "api";
    put.limit = &limit;
    for (int i = 0; i < N_BAD_LIMITS; i++) {
        snprintf(rules, sizeof rules, "a FIXED 5/1000;b %s", bad_limits[i].text);
        set_rules(&r, rules);
        snprintf(field, sizeof field, "rules[1].limit.%s", bad_limits[i].field);
        invalid("Check", &r, field);
        set_limit(&limit, &penalty, bad_limits[i].text);
        snprintf(field, sizeof field, "limit.%s", bad_limits[i].field);
        invalid("PutPolicy", &put, field);
    }
    set_limit(&limit, &penalty, "FIXED 5/1000");
    limit.algorithm = LKS_ALGORITHM_UNSPECIFIED;
    invalid("PutPolicy", &put, "limit.algorithm");
    limit.algorithm = (lks_algorithm)5;
    invalid("PutPolicy", &put, "limit.algorithm");
}

TEST(an_unlimited_policy_is_nothing_else)
{
    lks_put_policy_request put = LKS_PUT_POLICY_REQUEST_INIT;
    lks_penalty penalty;
    lks_limit limit;

    set_limit(&limit, &penalty, "FIXED 5/1000");
    put.name = (char *)(uintptr_t) "api";
    put.unlimited = true;
    put.limit = &limit;
    invalid("PutPolicy", &put, "limit");
    put.limit = NULL;
    put.shadow = true;
    invalid("PutPolicy", &put, "shadow");
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
    lks_refund_request refund_good = LKS_REFUND_REQUEST_INIT;
    lks_reset_request reset_good = LKS_RESET_REQUEST_INIT;
    refund_good.group = refund_good.request_id = (char *)(uintptr_t) "g";
    {
        lks_refund_request r;
        INVALID("Refund", refund_good, group, (char *)(uintptr_t) "", "group");
        INVALID("Refund", refund_good, group, name_129, "group");
        INVALID("Refund", refund_good, request_id, (char *)(uintptr_t) "", "request_id");
        INVALID("Refund", refund_good, request_id, name_129, "request_id");
    }
    reset_good.key = (char *)(uintptr_t) "a";
    {
        lks_reset_request r;
        INVALID("Reset", reset_good, group, name_129, "group");
        INVALID("Reset", reset_good, key, (char *)(uintptr_t) "", "key");
        INVALID("Reset", reset_good, key, name_129, "key");
    }
}

TEST(policies_name_what_is_wrong)
{
    lks_put_policy_request put_good = LKS_PUT_POLICY_REQUEST_INIT;
    lks_get_policy_request get_good = LKS_GET_POLICY_REQUEST_INIT;
    lks_list_policies_request list_good = LKS_LIST_POLICIES_REQUEST_INIT;
    lks_delete_policy_request delete_good = LKS_DELETE_POLICY_REQUEST_INIT;
    lks_limit limit;
    lks_penalty penalty;
    set_limit(&limit, &penalty, "FIXED 5/1000");
    put_good.name = delete_good.name = (char *)(uintptr_t) "api";
    put_good.limit = &limit;
    {
        lks_put_policy_request r;
        INVALID("PutPolicy", put_good, name, (char *)(uintptr_t) "", "name");
        INVALID("PutPolicy", put_good, name, name_129, "name");
        INVALID("PutPolicy", put_good, limit, NULL, "limit");
        INVALID("PutPolicy", put_good, expected_version, -1, "expected_version");
        INVALID("PutPolicy", put_good, expected_version, MAX + 1, "expected_version");
    }
    {
        lks_get_policy_request r;
        INVALID("GetPolicy", get_good, name, (char *)(uintptr_t) "", "name");
        INVALID("GetPolicy", get_good, name, name_129, "name");
    }
    {
        lks_list_policies_request r;
        INVALID("ListPolicies", list_good, page_size, -1, "page_size");
        INVALID("ListPolicies", list_good, page_size, 1001, "page_size");
        INVALID("ListPolicies", list_good, page_token, name_129, "page_token");
    }
    {
        lks_delete_policy_request r;
        INVALID("DeletePolicy", delete_good, name, (char *)(uintptr_t) "", "name");
        INVALID("DeletePolicy", delete_good, name, name_129, "name");
        INVALID("DeletePolicy", delete_good, expected_version, -1, "expected_version");
        INVALID("DeletePolicy", delete_good, expected_version, MAX + 1, "expected_version");
    }
}

TEST(bytes_that_are_no_request)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{"\x0a\x05g", 3}, {"\x0a\x01\xff", 3}, {"\x0a\x02g\0", 4}, {"\x12\x03\x1a\x01", 4}, {"\xff", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_null(harness_call_bytes(h, &ratelimit_service, "Check", rows[i].bytes, rows[i].len, &err));
        assert_int_equal(err.code, LKS_INVALID_ARGUMENT);
        assert_int_equal(err.applied, LKS_APPLIED_NO);
        expect_unchanged();
    }
}

TEST_MAIN(.setup_all = start_harness, .teardown_all = stop_harness, .setup = with_a_counter)

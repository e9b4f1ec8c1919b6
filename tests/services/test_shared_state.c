/* Calls of one function that share an FCALL, and so a state, are answered as the same calls one by one, and leave the
 * same behind: batches at random, once together in one group, once one by one in another. The clock stands still
 * within a batch. LOCKSTOCK_SEED=n repeats a run. */
#include <time.h>
#include <unistd.h>

#include "lockstock/v1/id.lks.h"
#include "lockstock/v1/idempotency.lks.h"
#include "ratelimit_script.h"
#include "support/counts.h"

enum { BATCH_MAX = 64, RULES_MAX = 3 };

static const char *const limits[] = {
    "FIXED 7/60000",
    "LOG 40/60000",
    "LOG 6/60000",
    "WINDOW 9/60000",
    "BUCKET 7/60000",
    "BUCKET 13/97000 burst=5",
    "FIXED 5/60000 after=7 ban=20000 factor=3 max=150000",
    "LOG 9/41000 after=5 ban=30000",
    "BUCKET 6/60000 burst=2 after=3 ban=5000 factor=2",
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static size_t below(size_t n)
{
    return (size_t)random() % n;
}

static int seed(void **state)
{
    const char *text = getenv("LOCKSTOCK_SEED");
    unsigned value = text ? (unsigned)atoi(text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;

    print_message("LOCKSTOCK_SEED=%u\n", value);
    srandom(value);
    return ratelimit_reset(state);
}

/* n requests together, and the same ones in the other group one by one. The answers are compared as text. */
static void compare(size_t n, const void *const together[], const void *const alone[],
                    const char *(*text_of)(const void *response))
{
    const void *responses[BATCH_MAX];
    lks_error errors[BATCH_MAX];

    ask_together(n, together, responses, errors);
    for (size_t i = 0; i < n; i++) {
        char got[LINE_BYTES];
        err = errors[i];
        snprintf(got, sizeof got, "%s", text_of(responses[i]));
        const char *expected = text_of(answer_to(alone[i]));
        if (strcmp(got, expected) != 0)
            fail_msg("call %zu of %zu: %s, but alone %s", i, n, got, expected);
    }
}

/* ---- Check ---- */

static const char *told_or_error(const void *response)
{
    return response ? told(response) : line_of(NULL);
}

static char *random_rules(void)
{
    static const char *const keys[] = {"bob", "eve"};
    char *rules = new_line();
    size_t n = below(2) == 0 ? 1 : 1 + below(RULES_MAX), first = below(LIMITS), key = below(2);

    for (size_t i = 0; i < n; i++)
        add_line(rules, "%s%s %s", i > 0 ? ";" : "", keys[key], limits[(first + i) % LIMITS]);
    return rules;
}

static void check_batch(size_t n, bool peek)
{
    static lks_check_request request[2][BATCH_MAX];
    static char id[BATCH_MAX][16];
    static char *const groups[] = {"together", "alone"};
    const void *asked[2][BATCH_MAX];

    for (size_t i = 0; i < n; i++) {
        const char *rules = random_rules();
        int64_t cost = below(3) == 0 ? 1 + (int64_t)below(8) : 1;
        lks_check_mode mode = below(4) == 0 ? LKS_CHECK_MODE_INDEPENDENT : LKS_CHECK_MODE_ALL_OR_NOTHING;
        snprintf(id[i], sizeof id[i], "r%zu", below(40));
        bool named = !peek && below(4) == 0;
        for (size_t g = 0; g < 2; g++) {
            request[g][i] = message(check_request, .group = groups[g], .cost = cost, .mode = mode, .peek = peek,
                                    .request_id = named ? id[i] : "");
            set_rules(&request[g][i], rules);
            asked[g][i] = &request[g][i];
        }
    }
    compare(n, asked[0], asked[1], told_or_error);
}

static void refund_both(void)
{
    char id[16];

    snprintf(id, sizeof id, "r%zu", below(40));
    const char *got = refund("together", id);
    assert_string_equal(got, refund("alone", id));
}

TEST(checks_are_answered_as_alone)
{
    shorten_chunks();
    for (size_t i = 0; i < counts_of(300, 5000); i++) {
        check_batch(1 + below(BATCH_MAX), below(6) == 0);
        refund_both();
        advance_us((int64_t)below(below(2) == 0 ? 2000000 : 40000000));
        harness_forget(h);
    }
}

/* A counter more than a key may have is refused in its place; those before and behind it are not. */
TEST(a_key_that_is_full_refuses_only_what_is_new)
{
    static lks_check_request request[2][130];
    const void *asked[2][130];
    char rules[130][32];

    for (int i = 0; i < 130; i++) {
        snprintf(rules[i], sizeof rules[i], "bob FIXED %d/60000", 1 + i % 129);
        for (int g = 0; g < 2; g++) {
            request[g][i] = message(check_request, .group = g == 0 ? "together" : "alone");
            set_rules(&request[g][i], rules[i]);
            asked[g][i] = &request[g][i];
        }
    }
    compare(60, asked[0], asked[1], told_or_error);
    compare(60, asked[0] + 60, asked[1] + 60, told_or_error);
    compare(10, asked[0] + 120, asked[1] + 120, told_or_error);
    assert_null(answer_to(asked[0][128]));
    assert_int_equal(err.code, LKS_RESOURCE_EXHAUSTED);
}

/* What is read of a key and written: once, however many Checks there are. */
TEST(a_key_is_read_once_and_written_once)
{
    static lks_check_request request[BATCH_MAX];
    const void *asked[BATCH_MAX], *responses[BATCH_MAX];
    lks_error errors[BATCH_MAX];

    for (size_t i = 0; i < BATCH_MAX; i++) {
        request[i] = message(check_request, .group = "g");
        set_rules(&request[i], "bob LOG 100/60000");
        asked[i] = &request[i];
    }
    ask_together(1, asked, responses, errors);
    harness_redis(h, "CONFIG RESETSTAT");
    ask_together(BATCH_MAX, asked, responses, errors);
    expect_told(responses[BATCH_MAX - 1], "ALLOWED: ALLOWED 100 35 0 60000 0");
    assert_int_equal(harness_commands(h, "get"), 1);
    assert_int_equal(harness_commands(h, "set"), 1);
    assert_int_equal(harness_commands(h, "append"), 1);
    assert_int_equal(harness_commands(h, "getrange"), 0);
}

/* ---- Begin ---- */

static const char *begun(const void *response)
{
    const lks_begin_response *r = response;
    char *line = new_line();

    if (!r)
        return line_of(NULL);
    add_line(line, "%s attempt %lld fence %llu code %d retry %lld", lks_begin_outcome_name(r->outcome),
             (long long)r->attempt, (unsigned long long)r->fence, r->result ? (int)r->result->code : 0,
             (long long)r->retry_after_ms);
    return line;
}

static void begin_batch(size_t n, uint64_t *fence)
{
    static lks_begin_request request[2][BATCH_MAX];
    static char token[BATCH_MAX][SERVICE_TOKEN_BYTES_MIN + 1];
    static uint8_t fingerprint[] = "12";
    const void *asked[2][BATCH_MAX];

    for (size_t i = 0; i < n; i++) {
        uint8_t *of = &fingerprint[below(10) == 0];
        snprintf(token[i], sizeof token[i], "attempt-%08zu", below(6));
        for (size_t g = 0; g < 2; g++) {
            request[g][i] = message(begin_request, .scope = g == 0 ? "together" : "alone", .key = "k",
                                    .attempt_token = token[i], .fingerprint = {1, of}, .lease_ms = 5000);
            asked[g][i] = &request[g][i];
        }
    }
    compare(n, asked[0], asked[1], begun);
    const lks_begin_response *last = answer_to(asked[0][0]);
    if (last && last->outcome == LKS_BEGIN_OUTCOME_EXECUTE)
        *fence = last->fence;
}

static void end_both(uint64_t fence)
{
    size_t how = below(6);

    for (int g = 0; g < 2; g++) {
        char *scope = g == 0 ? "together" : "alone";
        if (how == 0)
            ask(complete, .scope = scope, .key = "k", .fence = fence, .code = 200);
        else if (how == 1)
            ask(fail, .scope = scope, .key = "k", .fence = fence, .kind = LKS_FAIL_KIND_RETRYABLE);
        else if (how == 2)
            ask(delete, .scope = scope, .key = "k");
    }
}

TEST(begins_are_answered_as_alone)
{
    uint64_t fence = 1;

    for (size_t i = 0; i < counts_of(500, 5000); i++) {
        begin_batch(1 + below(BATCH_MAX), &fence);
        end_both(fence);
        advance((int64_t)below(below(2) == 0 ? 100 : 8000));
        harness_forget(h);
    }
}

TEST(a_record_is_read_once_and_written_once)
{
    uint64_t fence;

    harness_redis(h, "CONFIG RESETSTAT");
    begin_batch(BATCH_MAX, &fence);
    /* Once together, BATCH_MAX times alone, and once more. */
    assert_int_equal(harness_commands(h, "get"), 1 + BATCH_MAX + 1);
    assert_int_equal(harness_commands(h, "set"), 2);
}

TEST(foreign_data_of_who_waits_concerns_who_waits)
{
    static lks_begin_request request[3];
    const void *asked[3], *responses[3];
    lks_error errors[3];
    char *const token[] = {"attempt-00000001", "attempt-00000002", "attempt-00000003"};

    harness_redis(h, "SET ls:{default/s/k}:idem:w x");
    for (size_t i = 0; i < 3; i++) {
        request[i] = message(begin_request, .scope = "s", .key = "k", .attempt_token = token[i], .lease_ms = 5000,
                             .wait_ms = i == 1 ? 5000 : 0);
        asked[i] = &request[i];
    }
    ask_together(3, asked, responses, errors);
    assert_int_equal(((const lks_begin_response *)responses[0])->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(errors[1].code, LKS_FAILED_PRECONDITION);
    assert_int_equal(errors[1].applied, LKS_APPLIED_NO);
    assert_int_equal(((const lks_begin_response *)responses[2])->outcome, LKS_BEGIN_OUTCOME_IN_PROGRESS);
}

/* ---- a sequence ---- */

TEST(numbers_go_on_from_call_to_call)
{
    static lks_next_request request[BATCH_MAX];
    const void *asked[BATCH_MAX], *responses[BATCH_MAX];
    lks_error errors[BATCH_MAX];

    harness_redis(h, "SET ls:{default/s}:id:s 9007199254740900");
    for (size_t i = 0; i < BATCH_MAX; i++) {
        request[i] = message(next_request, .kind = LKS_ID_KIND_SEQUENCE, .name = "s", .count = i == 3 ? 100 : 1);
        asked[i] = &request[i];
    }
    ask_together(BATCH_MAX, asked, responses, errors);
    for (size_t i = 0; i < BATCH_MAX; i++) {
        const lks_next_response *r = responses[i];
        if (i == 3) { /* more than are left; the next ones are not */
            assert_int_equal(errors[i].code, LKS_OUT_OF_RANGE);
            continue;
        }
        assert_non_null(r);
        assert_int_equal(r->ids[0], 9007199254740901 + (int64_t)i - (i > 3));
    }
    assert_string_equal(harness_redis(h, "GET ls:{default/s}:id:s"), "9007199254740963");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = seed)

/* RateLimitService, Check: what each outcome and number of an answer means. */
#include "ratelimit_script.h"

/* The example of the contract. */
static void five_a_second_over_seven_tries_locked_for_two(void **state)
{
    const char *rule = "bob FIXED 5/1000 after=7 ban=2000";
    (void)state;

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

static void each_algorithm_tells_its_numbers(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RATE_TEST(five_a_second_over_seven_tries_locked_for_two),
        RATE_TEST(each_algorithm_tells_its_numbers),
    };
    return cmocka_run_group_tests(tests, start_harness, stop_harness);
}

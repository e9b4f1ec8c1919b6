/* Lines that others cause: so many a second, and the rest counted. */
/* promise CN10: log lines that peers cause are limited to 10 a second for each reason, and the rest is counted */

#include "base/log_rate.h"
#include "test.h"

TEST(some_a_second_and_the_rest_is_counted)
{
    log_rate rate = {0};
    uint32_t left_out;
    for (uint64_t second = 5; second < 8; second++) {
        for (uint32_t i = 0; i < LOG_RATE_LINES; i++) {
            assert_true(log_rate_allows(&rate, second * 1000 + i, &left_out));
            assert_int_equal(left_out, second > 5 && i == 0 ? 7 : 0);
        }
        for (int i = 0; i < 7; i++)
            assert_false(log_rate_allows(&rate, second * 1000 + 999, &left_out));
    }
}

TEST_MAIN()

/* promise CL5 */
#include "base/duration.h"
#include "test.h"

TEST(a_duration_has_at_most_two_units)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0s"},
                 {1, "1ms"},
                 {999, "999ms"},
                 {1000, "1s"},
                 {4989, "4.98s"},
                 {-1500, "-1.5s"},
                 {90000, "1m30s"},
                 {3600000, "1h"},
                 {7500000, "2h5m"},
                 {INT64_C(86400000) * 30, "30d"},
                 {INT64_MIN, "-106751991167d7h"}};
    char text[DURATION_BYTES];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        duration_write(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* -1: not a duration. */
TEST(a_number_needs_a_unit)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {{"0", 0},        {"200ms", 200},       {"5s", 5000}, {"1.5s", 1500}, {"1m30s", 90000},
                 {"1h", 3600000}, {"2d12h", 216000000}, {"", -1},     {"5", -1},      {"5x", -1},
                 {"s", -1},       {"-5s", -1},          {"5s ", -1},  {" 5s", -1},    {"5 s", -1},
                 {"1e", -1},      {"5ss", -1},          {"1s2", -1},  {"1e300d", -1}, {"inf", -1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = -1;
        if (duration_read(cases[i].text, &ms) != (cases[i].ms >= 0) || (cases[i].ms >= 0 && ms != cases[i].ms))
            fail_msg("\"%s\" is %lld", cases[i].text, (long long)ms);
    }
}

TEST_MAIN()

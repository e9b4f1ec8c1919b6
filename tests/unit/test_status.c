/* Codes, errors and their text. */

#include <lockstock/status.h>

#include "test.h"

TEST(every_code_has_the_name_that_grpc_gives_it)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(lks_code_name((lks_code)i), names[i]);
    assert_string_equal(lks_code_name((lks_code)17), "UNKNOWN");
    assert_string_equal(lks_code_name((lks_code)-1), "UNKNOWN");
}

TEST(an_unspecified_applied_reads_as_maybe)
{
    assert_string_equal(lks_applied_name(LKS_APPLIED_YES), "YES");
    assert_string_equal(lks_applied_name(LKS_APPLIED_NO), "NO");
    assert_string_equal(lks_applied_name(LKS_APPLIED_MAYBE), "MAYBE");
    assert_string_equal(lks_applied_name(LKS_APPLIED_UNSPECIFIED), "MAYBE");
    assert_string_equal(lks_applied_name((lks_applied)9), "MAYBE");
}

TEST(setting_an_error_sets_all_of_it)
{
    lks_error error;
    memset(&error, 0xff, sizeof error);
    assert_int_equal(lks_error_set(&error, LKS_ABORTED, LKS_APPLIED_NO, "version: %d", 7), LKS_ABORTED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
    assert_int_equal(error.retry_after_ms, 0);
    assert_string_equal(error.message, "version: 7");
    assert_int_equal(lks_error_set(NULL, LKS_INTERNAL, LKS_APPLIED_NO, "%s", "nobody listens"), LKS_INTERNAL);
}

TEST(an_error_may_quote_itself)
{
    lks_error error;
    lks_error_set(&error, LKS_INTERNAL, LKS_APPLIED_NO, "inner");
    lks_error_set(&error, LKS_INTERNAL, LKS_APPLIED_NO, "outer: %s", error.message);
    assert_string_equal(error.message, "outer: inner");
}

/* Cut at the limit, a message must still be UTF-8. */
TEST(long_text_is_cut_at_a_whole_character)
{
    static const struct {
        const char *character;
        size_t bytes;
    } cases[] = {{"x", 1}, {"\xc3\xa4", 2}, {"\xe2\x82\xac", 3}, {"\xf0\x9f\x94\x92", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t shift = 0; shift < cases[i].bytes; shift++) {
            char text[600] = "";
            memset(text, '-', shift);
            for (size_t n = 0; n < 100; n++)
                strcat(text, cases[i].character);
            for (size_t n = strlen(text); n < LKS_ERROR_MESSAGE_MAX + 4; n = strlen(text))
                strcat(text, cases[i].character);
            lks_error error;
            lks_error_set(&error, LKS_INTERNAL, LKS_APPLIED_NO, "%s", text);
            size_t len = strlen(error.message);
            assert_true(len < LKS_ERROR_MESSAGE_MAX);
            assert_true(len + cases[i].bytes >= LKS_ERROR_MESSAGE_MAX);
            assert_int_equal((len - shift) % cases[i].bytes, 0);
            assert_memory_equal(error.message, text, len);
        }
    }
}

TEST_MAIN()

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
    assert_string_equal(error.field, "version");
    assert_int_equal(error.reason, LKS_REASON_NONE);
    assert_int_equal(lks_error_set(NULL, LKS_INTERNAL, LKS_APPLIED_NO, "%s", "nobody listens"), LKS_INTERNAL);
}

TEST(an_error_may_quote_itself)
{
    lks_error error;
    lks_error_set(&error, LKS_INTERNAL, LKS_APPLIED_NO, "inner");
    lks_error_set(&error, LKS_INTERNAL, LKS_APPLIED_NO, "outer: %s", error.message);
    assert_string_equal(error.message, "outer: inner");
}

TEST(each_reason_has_a_word_of_its_own)
{
#define ROW(name, number, word, help) {LKS_REASON_##name, number, word},
    static const struct {
        lks_reason reason;
        int number;
        const char *word;
    } rows[] = {LKS_REASONS(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rows[i].reason, i + 1);
        assert_int_equal(rows[i].number, i + 1);
        assert_string_equal(lks_reason_name(rows[i].reason), rows[i].word);
        assert_int_equal(lks_reason_of(rows[i].word), rows[i].reason);
        assert_int_equal(strspn(rows[i].word, "abcdefghijklmnopqrstuvwxyz_"), strlen(rows[i].word));
    }
    assert_string_equal(lks_reason_name(LKS_REASON_NONE), "");
    assert_string_equal(lks_reason_name((lks_reason)(sizeof rows / sizeof *rows + 1)), "");
    assert_string_equal(lks_reason_name((lks_reason)-1), "");
    assert_int_equal(lks_reason_of(""), LKS_REASON_NONE);
    assert_int_equal(lks_reason_of("store_on_fire"), LKS_REASON_NONE);
}

/* promise W19 */
TEST(a_code_implies_a_reason)
{
    static const struct {
        lks_code code;
        lks_reason reason;
    } rows[] = {{LKS_OK, LKS_REASON_NONE},
                {LKS_CANCELLED, LKS_REASON_CANCELLED},
                {LKS_UNKNOWN, LKS_REASON_NONE},
                {LKS_INVALID_ARGUMENT, LKS_REASON_INVALID_FIELD},
                {LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_EXCEEDED},
                {LKS_NOT_FOUND, LKS_REASON_NOT_FOUND},
                {LKS_ALREADY_EXISTS, LKS_REASON_ALREADY_EXISTS},
                {LKS_PERMISSION_DENIED, LKS_REASON_PERMISSION_DENIED},
                {LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM},
                {LKS_FAILED_PRECONDITION, LKS_REASON_WRONG_STATE},
                {LKS_ABORTED, LKS_REASON_NONE},
                {LKS_OUT_OF_RANGE, LKS_REASON_NONE},
                {LKS_UNIMPLEMENTED, LKS_REASON_NOT_SUPPORTED},
                {LKS_INTERNAL, LKS_REASON_INTERNAL},
                {LKS_UNAVAILABLE, LKS_REASON_NONE},
                {LKS_DATA_LOSS, LKS_REASON_NONE},
                {LKS_UNAUTHENTICATED, LKS_REASON_NOT_AUTHENTICATED},
                {(lks_code)99, LKS_REASON_NONE}};
    lks_error error;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_error_set(&error, rows[i].code, LKS_APPLIED_NO, "%s", "why");
        assert_int_equal(error.reason, rows[i].reason);
        lks_error_set_reason(&error, rows[i].code, LKS_APPLIED_NO, LKS_REASON_NONE, "%s", "why");
        assert_int_equal(error.reason, rows[i].reason);
        lks_error_set_reason(&error, rows[i].code, LKS_APPLIED_NO, LKS_REASON_STORE_BUSY, "%s", "why");
        assert_int_equal(error.reason, LKS_REASON_STORE_BUSY);
    }
    assert_int_equal(lks_error_set_reason(NULL, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST, "%s", ""),
                     LKS_ABORTED);
}

/* The `field` of an error with this message. */
static const char *field_of(lks_error *error, lks_code code, const char *message)
{
    lks_error_set(error, code, LKS_APPLIED_NO, "%s", message);
    return error->field;
}

/* promise W19 */
TEST(field_is_the_beginning_of_the_message)
{
    static const struct {
        const char *message, *field;
    } rows[] = {
        {"name: must not be empty", "name"},
        {"targets[0].name: must not be empty", "targets[0].name"},
        {"a.b_2[17].c: too long", "a.b_2[17].c"},
        {"lines[3]: stands twice", "lines[3]"},
        {"calls: none", "calls"},
        {"tcp://127.0.0.1:1: refused", ""},
        {"the name: is wrong", ""},
        {"name:is wrong", ""},
        {"name", ""},
        {": wrong", ""},
        {".a: wrong", ""},
        {"a.: wrong", ""},
        {"a..b: wrong", ""},
        {"a[]: wrong", ""},
        {"a[x]: wrong", ""},
        {"a[1: wrong", ""},
        {"a[1]b: wrong", ""},
        {"1a: wrong", ""},
        {"", ""},
    };
    char longest[2 * LKS_ERROR_FIELD_MAX];
    lks_error error;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(field_of(&error, LKS_INVALID_ARGUMENT, rows[i].message), rows[i].field);

    snprintf(longest, sizeof longest, "%0*d: x", LKS_ERROR_FIELD_MAX - 1, 0);
    for (char *at = longest; *at == '0'; at++)
        *at = 'f';
    assert_int_equal(strlen(field_of(&error, LKS_INVALID_ARGUMENT, longest)), LKS_ERROR_FIELD_MAX - 1);
    snprintf(longest, sizeof longest, "%0*d: x", LKS_ERROR_FIELD_MAX, 0);
    for (char *at = longest; *at == '0'; at++)
        *at = 'f';
    assert_string_equal(field_of(&error, LKS_INVALID_ARGUMENT, longest), "");
}

TEST(only_codes_of_bad_input_name_a_field)
{
    lks_error error;
    for (int code = LKS_CANCELLED; code <= LKS_UNAUTHENTICATED; code++) {
        bool may = code == LKS_INVALID_ARGUMENT || code == LKS_NOT_FOUND || code == LKS_ALREADY_EXISTS ||
                   code == LKS_RESOURCE_EXHAUSTED || code == LKS_FAILED_PRECONDITION || code == LKS_ABORTED ||
                   code == LKS_OUT_OF_RANGE;
        assert_string_equal(field_of(&error, (lks_code)code, "sku: no"), may ? "sku" : "");
    }
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

/* The embedded function library: named by the digest of its own text, and in a
 * release without a clock that can be moved. */
#include <unistd.h>

#include "functions/library.h"
#include "test.h"

TEST(the_text_is_whole)
{
    char first_line[64];

    assert_int_equal(functions_len, strlen(functions_text));
    assert_int_equal(strlen(functions_digest), 16);
    snprintf(first_line, sizeof first_line, "#!lua name=lockstock_%s\n", functions_digest);
    assert_ptr_equal(strstr(functions_text, first_line), functions_text);
    assert_null(strstr(functions_text, "@DIGEST@"));
    assert_non_null(strstr(functions_text, "stock_deduct"));
    assert_non_null(strstr(functions_text, "lock_acquire"));
}

/* The text with its digest taken out again, through sha256sum(1). */
TEST(the_digest_is_that_of_the_text)
{
    char path[] = "/tmp/lks-library-XXXXXX", command[64], sum[17] = "";
    FILE *file = fdopen(mkstemp(path), "w");
    const char *from = functions_text;

    assert_non_null(file);
    for (const char *at; (at = strstr(from, functions_digest)); from = at + strlen(functions_digest))
        fprintf(file, "%.*s@DIGEST@", (int)(at - from), from);
    fprintf(file, "%s", from);
    fclose(file);
    snprintf(command, sizeof command, "sha256sum %s", path);
    file = popen(command, "r");
    assert_non_null(file);
    assert_non_null(fgets(sum, sizeof sum, file));
    pclose(file);
    unlink(path);
    assert_string_equal(sum, functions_digest);
}

TEST(the_clock_moves_only_in_tests)
{
#ifdef LOCKSTOCK_TEST_CLOCK
    assert_non_null(strstr(functions_text, "ls:test:clock_offset_us"));
#else
    assert_null(strstr(functions_text, "ls:test:"));
    assert_null(strstr(functions_text, "clock_offset"));
#endif
}

TEST_MAIN()

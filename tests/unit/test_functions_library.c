/* The embedded function library: named by the digest of its own text, and in a
 * release without a clock that can be moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "functions/library.h"

static void the_text_is_whole(void **state)
{
    char first_line[64];

    (void)state;
    assert_int_equal(functions_len, strlen(functions_text));
    assert_int_equal(strlen(functions_digest), 16);
    snprintf(first_line, sizeof first_line, "#!lua name=lockstock_%s\n", functions_digest);
    assert_ptr_equal(strstr(functions_text, first_line), functions_text);
    assert_null(strstr(functions_text, "@DIGEST@"));
    assert_non_null(strstr(functions_text, "stock_deduct"));
    assert_non_null(strstr(functions_text, "lock_acquire"));
}

/* The text with its digest taken out again, through sha256sum(1). */
static void the_digest_is_that_of_the_text(void **state)
{
    char path[] = "/tmp/lks-library-XXXXXX", command[64], sum[17] = "";
    FILE *file = fdopen(mkstemp(path), "w");
    const char *from = functions_text;

    (void)state;
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

static void the_clock_moves_only_in_tests(void **state)
{
    (void)state;
#ifdef LOCKSTOCK_TEST_CLOCK
    assert_non_null(strstr(functions_text, "ls:test:clock_offset_us"));
#else
    assert_null(strstr(functions_text, "ls:test:"));
    assert_null(strstr(functions_text, "clock_offset"));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_whole),
        cmocka_unit_test(the_digest_is_that_of_the_text),
        cmocka_unit_test(the_clock_moves_only_in_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

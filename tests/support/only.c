/* Part of every test program: with LOCKSTOCK_TEST_ONLY in the environment, a pattern
 * of * and ?, only those cases run that it matches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_cases(void)
{
    const char *pattern = getenv("LOCKSTOCK_TEST_ONLY");

    if (pattern)
        cmocka_set_test_filter(pattern);
}

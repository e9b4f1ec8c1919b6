/* The cases of a test program, and how they run (test.h). */
#include "test.h"

enum { CASES_MAX = 512 };

static struct CMUnitTest cases[CASES_MAX];
static bool has_own_fixture[CASES_MAX];
static size_t n_cases;

static void add(struct CMUnitTest one, bool own)
{
    if (n_cases == CASES_MAX) {
        fprintf(stderr, "%s: there is room for %d cases (tests/support/test.c)\n", one.name, CASES_MAX);
        abort();
    }
    has_own_fixture[n_cases] = own;
    cases[n_cases++] = one;
}

void test_add(const char *name, CMUnitTestFunction function)
{
    add((struct CMUnitTest){.name = name, .test_func = function}, false);
}

void test_add_with(const char *name, CMUnitTestFunction function, CMFixtureFunction setup, CMFixtureFunction teardown,
                   void *state)
{
    add((struct CMUnitTest){.name = name,
                            .test_func = function,
                            .setup_func = setup,
                            .teardown_func = teardown,
                            .initial_state = state},
        true);
}

int test_run(const test_fixtures *fixtures)
{
    const char *pattern = getenv("LOCKSTOCK_TEST_ONLY");

    if (pattern)
        cmocka_set_test_filter(pattern);
    for (size_t i = 0; i < n_cases; i++) {
        if (has_own_fixture[i])
            continue;
        cases[i].setup_func = fixtures->setup;
        cases[i].teardown_func = fixtures->teardown;
    }
    return _cmocka_run_group_tests("tests", cases, n_cases, fixtures->setup_all, fixtures->teardown_all);
}

/* Included first by every test program: cmocka, the headers that it needs, and cases that register themselves.
 *
 *   TEST(a_sale_is_counted_once)
 *   {
 *       ...
 *   }
 *
 *   TEST_MAIN(.setup = fill, .teardown = empty)
 *
 * Cases run in the order of the file. LOCKSTOCK_TEST_ONLY in the environment, a pattern of * and ?,
 * chooses some of them. */
#ifndef LOCKSTOCK_TESTS_TEST_H
#define LOCKSTOCK_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct test_fixtures {
    CMFixtureFunction setup_all, teardown_all; /* around all cases; NULL = none */
    CMFixtureFunction setup, teardown;         /* around each TEST; NULL = none */
    int unused;
} test_fixtures;

/* A case with the fixture that TEST_MAIN names. */
#define TEST(name) TEST_REGISTERED(name, test_add(#name, name))

/* A case with a fixture of its own; NULL = none. */
#define TEST_WITH(name, setup, teardown) TEST_REGISTERED(name, test_add_with(#name, name, setup, teardown, NULL))

#define TEST_REGISTERED(name, add)                                  \
    static void name(void **state);                                 \
    __attribute__((constructor)) static void name##_is_a_test(void) \
    {                                                               \
        add;                                                        \
    }                                                               \
    static void name(__attribute__((unused)) void **state)

/* The program's main; or its end, where main does more. Returns what main does. */
#define TEST_MAIN(...)                \
    int main(void)                    \
    {                                 \
        return TEST_RUN(__VA_ARGS__); \
    }
#define TEST_RUN(...) test_run(&(const test_fixtures){.unused = 0, __VA_ARGS__})

/* The macros call these; a program with cases from a table calls the second with a state for each.
 * `name` must stay. */
void test_add(const char *name, CMUnitTestFunction function);
void test_add_with(const char *name, CMUnitTestFunction function, CMFixtureFunction setup, CMFixtureFunction teardown,
                   void *state);
int test_run(const test_fixtures *fixtures);

#endif

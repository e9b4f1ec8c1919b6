/* What tests of services have in common where a test is written in words (stock_script.h,
 * ratelimit_script.h, id_script.h): the harness, the error, what was not changed. */
#ifndef LOCKSTOCK_TESTS_WORDS_H
#define LOCKSTOCK_TESTS_WORDS_H

#include "support/service_harness.h"
#include "test.h"

extern harness *h;

/* Of the last request. */
extern lks_error err;

/* For cmocka: a harness for all tests of a program. */
int start_harness(void **state);
int stop_harness(void **state);

/* The last request failed with the code, changed nothing, and says the field first. */
void expect_error(lks_code code, const char *field);

/* Remembers all keys; fails unless they are the same again. */
void remember(void);
void expect_unchanged(void);

#endif

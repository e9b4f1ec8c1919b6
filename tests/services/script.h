/* What tests of services have in common where a call is one line of a script
 * (lock_script.h, idempotency_script.h): the harness, and lines of text. Main thread only. */
#ifndef LOCKSTOCK_TESTS_SCRIPT_H
#define LOCKSTOCK_TESTS_SCRIPT_H

#include "support/service_harness.h"
#include "test.h"

enum { LINE_BYTES = 4096 };

extern harness *script_harness;

/* For cmocka: one harness a program, emptied before each test. */
int script_open(void **state);
int script_reset(void **state);
int script_close(void **state);

#define says(said, expected) assert_string_equal(said, expected)

/* For an answer of which the rest does not matter, or may be one of several. */
void says_begin(const char *said, const char *expected);

void pass_seconds(int64_t seconds);

/* Whether a time left is what it should be, less the little that the test took. */
void about(int64_t left_ms, int64_t expected_ms);

/* "T1" is short for a token as long as it must be. */
const char *token_of(const char *alias);

/* ---- for the scripts ---- */

/* An empty line of LINE_BYTES, which lives until 64 others were asked for. */
char *new_line(void);

/* Adds to a text of that size. */
void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds "INVALID_ARGUMENT NO scope: ...". */
void add_error(char *line, const lks_error *error);

/* Calls; the response, or NULL with the error added to the line. */
const void *run_line(const service *s, const char *method, const void *request, char *line);

#endif

/* Captures the standard error of this process, mainly its log, for a test. Main thread only. */
#ifndef LOCKSTOCK_TESTS_KEPT_STDERR_H
#define LOCKSTOCK_TESTS_KEPT_STDERR_H

#include <stddef.h>

/* From now on it is kept. */
void kept_stderr_begin(void);

/* The captured text so far; valid until the next call. */
const char *kept_stderr(void);

/* How often that has the text. */
size_t kept_stderr_count(const char *text);

/* Ends it, and writes what was kept to standard error. Nothing, unless it was begun. */
void kept_stderr_end(void);

#endif

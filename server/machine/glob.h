/* Patterns as in Redis: ? any byte, * any bytes, [ab0-9] one of these bytes, [^ab] any other byte, \x the byte x. */
#ifndef LOCKSTOCK_SERVER_MACHINE_GLOB_H
#define LOCKSTOCK_SERVER_MACHINE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* O(pattern_len * text_len). */
bool glob_matches(const char *pattern, size_t pattern_len, const char *text, size_t text_len);

#endif

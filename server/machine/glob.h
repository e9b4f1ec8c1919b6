/* Patterns of Redis: ? any byte, * any bytes, [ab0-9] and [^ab] one of them and none, \x that byte. */
#ifndef LOCKSTOCK_SERVER_MACHINE_GLOB_H
#define LOCKSTOCK_SERVER_MACHINE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Takes O(pattern * text) at most. */
bool glob_matches(const char *pattern, size_t pattern_len, const char *text, size_t text_len);

#endif

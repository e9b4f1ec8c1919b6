/* Patterns of Redis: ? any byte, * any bytes, [ab0-9] one of them, [^ab] none of them, \x that byte. */
#ifndef LOCKSTOCK_SERVER_MACHINE_GLOB_H
#define LOCKSTOCK_SERVER_MACHINE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Takes at most O(pattern * text). */
bool glob_matches(const char *pattern, size_t pattern_len, const char *text, size_t text_len);

#endif

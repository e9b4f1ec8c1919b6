/* The Redis function library, as built from the Lua files beside this header:
 * one text, whose name and whose functions' names carry its digest, so that old
 * and new servers run on one Redis. Constant; thread-safe.
 *
 * Two targets give these symbols: lockstock-functions, and for tests
 * lockstock-functions-testclock, whose clock can be moved. Link one. */
#ifndef LOCKSTOCK_SERVER_FUNCTIONS_LIBRARY_H
#define LOCKSTOCK_SERVER_FUNCTIONS_LIBRARY_H

#include <stddef.h>

/* What FUNCTION LOAD takes; NUL-terminated, functions_len without the NUL. */
extern const char functions_text[];
extern const size_t functions_len;

/* 16 hex digits: the library is lockstock_<digest>, a function <name>_<digest>. */
extern const char functions_digest[];

#endif

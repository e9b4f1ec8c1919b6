/* The Redis function library, built from the Lua files beside this header: one text. The names of the library and of
 * its functions contain its digest, so that old and new servers can use one Redis. Constant; thread-safe.
 *
 * Two targets define these symbols: lockstock-functions, and for tests lockstock-functions-testclock, whose clock can
 * be moved. Link one of them. */
#ifndef LOCKSTOCK_SERVER_FUNCTIONS_LIBRARY_H
#define LOCKSTOCK_SERVER_FUNCTIONS_LIBRARY_H

#include <stddef.h>

/* The argument of FUNCTION LOAD; NUL-terminated, functions_len does not count the NUL. */
extern const char functions_text[];
extern const size_t functions_len;

/* 16 hex digits: the library is lockstock_<digest>, a function <name>_<digest>. */
extern const char functions_digest[];

#endif

/* Hexadecimal digits. Thread-safe. */
#ifndef LOCKSTOCK_BASE_HEX_H
#define LOCKSTOCK_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a digit of either case; -1: not a digit. */
int hex_value(char digit);

/* Writes 2 * len lower-case digits to `text`, without a NUL. */
void hex_encode(const void *bytes, size_t len, char *text);

/* Decodes the %XX of `len` bytes of `text` into `out`, which has room for `len` bytes and may be `text`. Returns the
 * number of bytes; SIZE_MAX: an escape is incomplete or encodes NUL. */
size_t percent_decode(const char *text, size_t len, char *out);

#endif

/* Writes a text as a JSON string. Pure; thread-safe. */
#ifndef LOCKSTOCK_BASE_QUOTE_JSON_H
#define LOCKSTOCK_BASE_QUOTE_JSON_H

#include <stddef.h>

/* The most bytes that quote_json writes for a text of len bytes. */
#define QUOTE_JSON_BYTES(len) (6 * (len) + 2)

/* Writes UTF-8 text in quotes, no NUL. Returns the length. */
size_t quote_json(const char *text, char *out);

#endif

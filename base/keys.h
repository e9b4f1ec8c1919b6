/* Reads a settings file: lines `key = value` or `key: value` of any length. */
#ifndef LOCKSTOCK_BASE_KEYS_H
#define LOCKSTOCK_BASE_KEYS_H

#include <stdbool.h>

/* Takes one key and its value from a line, counted from 1. key NULL: the line (0: the file) is invalid, and value is
 * the reason. The texts are valid during the call. Returning false ends the reading. */
typedef bool keys_take(void *arg, unsigned line, const char *key, const char *value);

/* Calls take for each key. Stops at the first invalid line, after reporting it. */
void keys_read(const char *path, keys_take *take, void *arg);

#endif

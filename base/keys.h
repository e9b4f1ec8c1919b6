/* A file of settings: `key = value` or `key: value`, a line each, however long. */
#ifndef LOCKSTOCK_BASE_KEYS_H
#define LOCKSTOCK_BASE_KEYS_H

#include <stdbool.h>

/* One key, in its line, from 1 on. key NULL: the line is wrong, or in line 0 the file, and value says why. The texts live until
 * it returns; false ends the reading. */
typedef bool keys_take(void *arg, unsigned line, const char *key, const char *value);

/* Calls it for each, and for what is wrong, which ends the reading. */
void keys_read(const char *path, keys_take *take, void *arg);

#endif

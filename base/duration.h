/* Durations in text: "250ms", "5s", "1m30s". */
#ifndef LOCKSTOCK_BASE_DURATION_H
#define LOCKSTOCK_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

enum { DURATION_BYTES = 128 };

/* Writes "250ms", "4.98s", "1m30s", "2h5m" or "3d4h": at most two units, rounded down. */
void duration_write(int64_t ms, char text[DURATION_BYTES]);

/* Reads one or several numbers, each with its unit d, h, m, s or ms; "0" needs no unit. Returns false if text is no
 * duration, or one of more than 2^53 ms. */
bool duration_read(const char *text, int64_t *ms);

#endif

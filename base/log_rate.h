/* Keeps peers from filling the log: allows a number of lines per second, and counts the lines that were left out. Loop
 * thread only. */
#ifndef LOCKSTOCK_BASE_LOG_RATE_H
#define LOCKSTOCK_BASE_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_RATE_LINES = 10, LOG_RATE_SUFFIX_BYTES = 32 };

/* For lines of one kind; must be zero at first. */
typedef struct log_rate {
    uint64_t second;
    uint32_t lines, left_out;
} log_rate;

/* Whether a line may be written at now_ms (of any clock that does not step back). *left_out: lines of this kind that
 * were not written since the last one that was. */
bool log_rate_allows(log_rate *r, uint64_t now_ms, uint32_t *left_out);

/* The end of the line: " left-out=N", or nothing. */
void log_rate_suffix(uint32_t left_out, char suffix[LOG_RATE_SUFFIX_BYTES]);

#endif

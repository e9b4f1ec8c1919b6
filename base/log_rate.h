/* Keeps what others can cause from filling the log: so many lines a second, and then how
 * many were left out. Loop thread only. */
#ifndef LOCKSTOCK_BASE_LOG_RATE_H
#define LOCKSTOCK_BASE_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_RATE_LINES = 10, LOG_RATE_SUFFIX_BYTES = 32 };

/* Of lines of one kind; zero at first. */
typedef struct log_rate {
    uint64_t second;
    uint32_t lines, left_out;
} log_rate;

/* Whether a line may be written at now_ms (of any clock that does not step back). *left_out: lines of its kind
 * that were not, since the last that was. */
bool log_rate_allows(log_rate *r, uint64_t now_ms, uint32_t *left_out);

/* What the line ends with: " left-out=N", or nothing. */
void log_rate_suffix(uint32_t left_out, char suffix[LOG_RATE_SUFFIX_BYTES]);

#endif

/* Invariant: `left_out` counts what was refused since the last line that was allowed. Called by modules that log events
 * that peers can cause. */
#include "base/log_rate.h"

#include <stdio.h>

bool log_rate_allows(log_rate *r, uint64_t now_ms, uint32_t *left_out)
{
    uint64_t second = now_ms / 1000;

    if (second != r->second) {
        r->second = second;
        r->lines = 0;
    }
    if (r->lines >= LOG_RATE_LINES) {
        r->left_out++;
        return false;
    }
    r->lines++;
    *left_out = r->left_out;
    r->left_out = 0;
    return true;
}

void log_rate_suffix(uint32_t left_out, char suffix[LOG_RATE_SUFFIX_BYTES])
{
    suffix[0] = '\0';
    if (left_out > 0)
        snprintf(suffix, LOG_RATE_SUFFIX_BYTES, " left-out=%u", left_out);
}

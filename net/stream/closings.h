/* Logs why connections ended or were refused, with a limit of lines per second for each reason. Loop thread
 * only. */
#ifndef LOCKSTOCK_NET_CLOSINGS_H
#define LOCKSTOCK_NET_CLOSINGS_H

#include <stdint.h>

#include "base/log_rate.h"
#include "net/stream/stream_types.h"

typedef struct closings {
    log_rate of[STREAM_REASONS];
    uint64_t n[STREAM_REASONS];
} closings;

/* A word for a label: "peer_left". */
const char *closings_word(stream_reason why);

/* `from` as in remote.h. more: text after the reason, or NULL. A connection that ends because of a limit is a warning.
 * Calls to->tell. */
void closings_log(closings *c, const streams_options *to, uint64_t now_ms, stream_reason why, const char *wire,
                  const char *from, const char *more);

#endif

/* Tells, for the log, which connections ended or were not let in, and why: at most some lines a
 * second of each reason. Loop thread only. */
#ifndef LOCKSTOCK_NET_CLOSINGS_H
#define LOCKSTOCK_NET_CLOSINGS_H

#include <stdint.h>

#include "base/log_rate.h"
#include "net/stream/stream.h"

typedef struct closings {
    log_rate of[STREAM_REASONS];
} closings;

/* `from` as remote.h has it; more: in other words, or NULL. What the limits of connections cost somebody
 * is a warning. tell NULL: nothing is told. */
void closings_tell(closings *c, stream_tell *tell, uint64_t now_ms, stream_reason why, const char *wire,
                   const char *from, const char *more);

#endif

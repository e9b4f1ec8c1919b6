/* Tells the log which connections ended or were not let in, and why: at most some lines a
 * second of each reason. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_WIRE_CLOSINGS_H
#define LOCKSTOCK_SERVER_WIRE_CLOSINGS_H

#include <stdint.h>

#include "log_rate.h"
#include "net/stream/stream.h"

typedef struct closings {
    log_rate of[STREAM_REASONS];
} closings;

/* `from` as remote.h has it; more: in other words, or NULL. At level debug, and what the
 * limits of connections cost somebody at level warn. */
void closings_tell(closings *c, uint64_t now_ms, stream_reason why, const char *wire, const char *from,
                   const char *more);

#endif

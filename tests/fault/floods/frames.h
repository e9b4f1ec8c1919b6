/* Reads the frames of HTTP/2 that a server sends, one by one. */
#ifndef LOCKSTOCK_TESTS_FLOODS_FRAMES_H
#define LOCKSTOCK_TESTS_FLOODS_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "raw.h"

/* Zeroed but for `from`, which must stay; nothing else may read from it. */
typedef struct frames {
    raw *from;
    bytes in;
    size_t at;
} frames;

typedef struct frame {
    uint8_t type, flags;
    uint32_t id;
    const uint8_t *data; /* valid until the next */
    size_t len;
} frame;

/* False when none comes in time or the connection ends. */
bool frames_next(frames *f, frame *ret, int timeout_ms);

void frames_free(frames *f);

#endif

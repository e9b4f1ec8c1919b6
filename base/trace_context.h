/* The trace context of W3C (https://www.w3.org/TR/trace-context/). Pure; thread-safe. */
#ifndef LOCKSTOCK_BASE_TRACE_CONTEXT_H
#define LOCKSTOCK_BASE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_ID_BYTES = 16,
    TRACE_SPAN_BYTES = 8,
    TRACE_PARENT_CHARS = 55,
    TRACE_SPAN_AT = 36,
    TRACE_STATE_BYTES_MAX = 512
};

typedef struct trace_context {
    uint8_t trace[TRACE_ID_BYTES];
    uint8_t span[TRACE_SPAN_BYTES]; /* zero: there is no context */
    bool sampled;
} trace_context;

/* Reads a traceparent. False: it is not valid, has a zero id or version ff, and *ret is unchanged. */
bool trace_context_read(const char *text, size_t len, trace_context *ret);

/* Writes it with version 00, and a NUL. */
void trace_context_write(const trace_context *c, char text[TRACE_PARENT_CHARS + 1]);

bool trace_context_exists(const trace_context *c);

#endif

/* The thread that sends spans, with libcurl. */
#ifndef LOCKSTOCK_SERVER_TRACING_OTLP_H
#define LOCKSTOCK_SERVER_TRACING_OTLP_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/span.h"

typedef struct otlp otlp;

/* Copies all arguments. headers: the text of OTEL_EXPORTER_OTLP_HEADERS; NULL: none. resource: from
 * span_write_resource. Returns NULL if the system has no thread or no memory left. */
otlp *otlp_new(const char *url, const char *headers, const char *resource, uint64_t delay_ms);

/* Like tracing_close. */
void otlp_close(otlp *o);

/* Takes ownership of the span. Does not wait for the collector. */
void otlp_add(otlp *o, span *s);

void otlp_counts(otlp *o, uint64_t *sent, uint64_t *lost);

#endif

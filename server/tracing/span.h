/* One call, and when its stages began and ended. */
#ifndef LOCKSTOCK_SERVER_TRACING_SPAN_H
#define LOCKSTOCK_SERVER_TRACING_SPAN_H

#include <stdio.h>
#include <sys/queue.h>

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "base/trace_context.h"

enum { SPAN_STAGES_MAX = 8 }; /* later stages of a call are dropped */

typedef struct span_stage {
    const char *name;
    uint64_t begin_ns, end_ns;
} span_stage;

/* All times are of CLOCK_MONOTONIC. */
typedef struct span {
    trace_context own;                /* sampled: the sampler keeps the span, whatever the call's outcome */
    uint8_t parent[TRACE_SPAN_BYTES]; /* zero: none */
    trace_context released_by;        /* the call that ended this one's wait, if it is known */
    char *state;                      /* the caller's tracestate; NULL: none */
    const lks_rpc_method *method;
    uint64_t begin_ns, end_ns;
    lks_code code;
    lks_applied applied;
    uint32_t store_calls, waits;
    span_stage stages[SPAN_STAGES_MAX];
    size_t n_stages;
    STAILQ_ENTRY(span) next;
} span;

void span_free(span *s);

/* Whether the code means a fault of the server, by OpenTelemetry's conventions for gRPC. */
bool span_is_error(lks_code code);

/* Writes the span and its stages as OTLP Span objects, separated by commas. Adds to_unix_ns to each time. */
void span_write(FILE *to, const span *s, uint64_t to_unix_ns);

/* Takes the next pair of "name=value,name=value", with percent-encoded values, from the text at *rest, which it
 * changes. Returns its name, and its decoded value; NULL: none is left. Leaves out malformed pairs. */
char *span_next_pair(char **rest, char **value);

/* Writes the member "resource" of ResourceSpans. service, attributes: the texts of OTEL_SERVICE_NAME and
 * OTEL_RESOURCE_ATTRIBUTES; each may be NULL. instance: the id of this server. */
void span_write_resource(FILE *to, const char *service, const char *attributes, const char *instance);

#endif

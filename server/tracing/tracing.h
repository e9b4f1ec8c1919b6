/* Spans of calls, sent to a collector of OpenTelemetry as OTLP over HTTP in JSON. Whether a span is kept is decided at
 * the end of its call: it is kept for errors of the server, answers MAYBE, waits, slow calls, and if the sampler keeps
 * it. The queue between the loop and the sending thread is bounded: a span that finds it full is dropped and
 * counted. */
#ifndef LOCKSTOCK_SERVER_TRACING_H
#define LOCKSTOCK_SERVER_TRACING_H

#include <lockstock/status.h>

#include "net/sink.h"
#include "tracing/span.h"

typedef struct tracing tracing;

/* Reads the variables OTEL_* of the environment (docs/tracing.md). *ret is NULL if they name no collector. instance:
 * the id of this server; copied. LKS_INVALID_ARGUMENT names the variable. */
lks_code tracing_open(const char *instance, tracing **ret, lks_error *error);

/* Whether tracing_open would accept the variables. */
lks_code tracing_check(lks_error *error);

/* Sends the queued spans, for at most two seconds, and ends the thread. Takes NULL. */
void tracing_close(tracing *t);

/* Begins the span of a call, whose method is not NULL. Returns NULL if nothing will be kept, or t is NULL. */
span *tracing_begin(tracing *t, const sink_call *call, const lks_rpc_method *method);

/* Notes that the span's current stage, which began at begin_ns, has ended. */
void tracing_stage(span *s, const char *name, uint64_t begin_ns, uint64_t end_ns);

/* Ends the span and takes it. slow: it is kept because it is slow. */
void tracing_end(tracing *t, span *s, const lks_error *error, uint64_t now_ns, bool slow);

/* Counts calls whose spans a collector accepted, and those whose spans were lost. Takes NULL. */
void tracing_counts(tracing *t, uint64_t *sent, uint64_t *lost);

#endif

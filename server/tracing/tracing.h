/* Spans of calls, sent to a collector of OpenTelemetry as OTLP over HTTP in JSON. What is kept is decided at the end of a call:
 * errors of the server, answers MAYBE, waits, slow calls, and what the sampler keeps. A queue between the loop and the thread that
 * sends is bounded: a span that finds it full is dropped and counted. */
#ifndef LOCKSTOCK_SERVER_TRACING_H
#define LOCKSTOCK_SERVER_TRACING_H

#include <lockstock/status.h>

#include "net/sink.h"
#include "tracing/span.h"

typedef struct tracing tracing;

/* Reads the variables OTEL_* of the environment (docs/tracing.md). *ret is NULL when they name no collector. instance: of this
 * server; copied. LKS_INVALID_ARGUMENT names the variable. */
lks_code tracing_open(const char *instance, tracing **ret, lks_error *error);

/* Whether tracing_open would accept the variables. */
lks_code tracing_check(lks_error *error);

/* Sends what is queued, for two seconds at most, and ends the thread. Takes NULL. */
void tracing_close(tracing *t);

/* Begins the span of a call, of which method is not NULL; NULL: nothing will be kept, or t is NULL. */
span *tracing_begin(tracing *t, const sink_call *call, const lks_rpc_method *method);

/* The span's present stage, which began at begin_ns, has ended. */
void tracing_stage(span *s, const char *name, uint64_t begin_ns, uint64_t end_ns);

/* Ends and takes it. slow: it is kept for that. */
void tracing_end(tracing *t, span *s, const lks_error *error, uint64_t now_ns, bool slow);

/* Calls whose spans a collector took, and those whose spans were lost. Takes NULL. */
void tracing_counts(tracing *t, uint64_t *sent, uint64_t *lost);

#endif

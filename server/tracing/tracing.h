/* Sends spans of calls to an OpenTelemetry collector, as OTLP over HTTP in JSON. At the end of a call its span is kept
 * if the call failed by a fault of the server, was answered MAYBE, waited or was slow, or if the sampler keeps it. The
 * queue from the loop to the sending thread is bounded: when it is full, a new span is dropped and counted. */
#ifndef LOCKSTOCK_SERVER_TRACING_H
#define LOCKSTOCK_SERVER_TRACING_H

#include <lockstock/status.h>

#include "net/sink.h"
#include "tracing/span.h"

typedef struct tracing tracing;

/* Reads the environment variables OTEL_* (docs/tracing.md). *ret is NULL if they name no collector. instance: the id of
 * this server; copied. The error of LKS_INVALID_ARGUMENT names the variable. */
lks_code tracing_open(const char *instance, tracing **ret, lks_error *error);

/* Whether tracing_open would accept the variables. */
lks_code tracing_check(lks_error *error);

/* Sends the queued spans for at most two seconds, and ends the thread. Takes NULL. */
void tracing_close(tracing *t);

/* Begins the span of a call; method is not NULL. Returns NULL if no span will be kept, or t is NULL. */
span *tracing_begin(tracing *t, const sink_call *call, const lks_rpc_method *method);

/* Adds a stage that has ended to the span. */
void tracing_stage(span *s, const char *name, uint64_t begin_ns, uint64_t end_ns);

/* Ends the span and takes ownership. slow: the call was slow, so its span is kept. */
void tracing_end(tracing *t, span *s, const lks_error *error, uint64_t now_ns, bool slow);

/* *sent, *lost: the number of calls whose spans the collector accepted, and whose spans were lost. Takes NULL. */
void tracing_counts(tracing *t, uint64_t *sent, uint64_t *lost);

#endif

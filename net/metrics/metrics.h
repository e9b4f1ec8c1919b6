/* Metrics as text for Prometheus and OpenMetrics (https://prometheus.io/docs/instrumenting/exposition_formats/). All
 * families are in one table (table.h). Counters are plain numbers that the loop thread adds to; the text is written
 * only on request. Loop thread only. */
#ifndef LOCKSTOCK_NET_METRICS_METRICS_H
#define LOCKSTOCK_NET_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

#include "net/metrics/table.h"

typedef enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM } metrics_type;

/* A row of the table. */
typedef struct metrics_family {
    const char *name; /* of a counter without "_total" */
    metrics_type type;
    const char *labels; /* "grpc_method, grpc_code"; "" = none */
    const char *help;
} metrics_family;

#define METRICS_ID(id, type, name, labels, help) id,
typedef enum metrics_id { METRICS_TABLE(METRICS_ID) METRICS_FAMILIES } metrics_id;
#undef METRICS_ID

extern const metrics_family metrics_families[METRICS_FAMILIES];

enum { METRICS_BUCKETS = 20, METRICS_FIRST_NS = 50000 };

/* Durations: 20 buckets, the first up to 50 us and each twice as wide as the one before, and one bucket for longer
 * durations. */
typedef struct metrics_histogram {
    uint64_t bucket[METRICS_BUCKETS + 1];
    uint64_t sum_ns;
} metrics_histogram;

void metrics_observe(metrics_histogram *h, uint64_t ns);

/* A text that grows in an arena. When out of memory, it stops growing and sets `failed`. */
typedef struct metrics_text {
    lks_rpc_arena *arena;
    bool openmetrics, failed;
    metrics_id family;
    char *data;
    size_t len, room;
} metrics_text;

/* Begins a family; the samples that follow belong to it. Each family begins once. */
void metrics_begin(metrics_text *t, metrics_id family);

/* A sample. labels: "name=\"value\",..." whose values need no escapes; "" = none. Whole numbers are exact up to
 * 2^53. */
void metrics_sample(metrics_text *t, const char *labels, double value);
void metrics_durations(metrics_text *t, const char *labels, const metrics_histogram *h);

/* metrics_begin and one sample without labels. */
void metrics_single(metrics_text *t, metrics_id family, double value);

/* Writes METRICS_CPU to METRICS_START, of this process. */
void metrics_process(metrics_text *t);

/* Ends the text and returns it; data NULL: out of memory. */
lks_rpc_slice metrics_end(metrics_text *t);

/* Whether a request's Accept asks for OpenMetrics; and the Content-Type of both formats. */
bool metrics_wants_openmetrics(const char *accept);
const char *metrics_content_type(bool openmetrics);

#endif

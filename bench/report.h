/* Reports measurements as tables, plots and JSON. Main thread only. */
#ifndef LOCKSTOCK_BENCH_REPORT_H
#define LOCKSTOCK_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "scenario.h"

/* Over several rounds. */
typedef struct spread {
    double min, median, max;
} spread;

/* Sorts the values. n > 0. */
spread spread_of(double *values, size_t n);

json_t *spread_json(spread s);

/* One run of a scenario. */
typedef struct report {
    const bench_options *options; /* rate: scheduled operations a second */
    const world *world;
    const measure *measured;
    bool agrees;     /* the checks after the run passed */
    double capacity; /* measured before; 0: not measured */
} report;

/* Returns how the store of a run writes to disk. */
const char *report_fsync(const bench_options *o);

/* Prints that the check of a world failed. Returns false. */
bool report_wrong(const world *w);

void report_print(const report *r);
json_t *report_json(const report *r);

/* Adds rates, latencies and CPU to a JSON object. */
void report_measure_json(json_t *to, const measure *m);

/* Draws the distribution of the latencies of answered calls. */
void report_plot(const measure *m);

#endif

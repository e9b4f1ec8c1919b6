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
    const bench_options *options;
    const char *fsync;
    const scenario *scenario;
    const measure *measured;
    const tally *all;
    bool agrees; /* the checks after the run passed */
    const char *checked;
    double offered;  /* scheduled operations a second; 0: closed loop */
    double capacity; /* measured before; 0: not measured */
} report;

void report_print(const report *r);
json_t *report_json(const report *r);

/* Adds rates, latencies and CPU to a JSON object. */
void report_measure_json(json_t *to, const measure *m);

/* Draws the distribution of the latencies of answered calls. */
void report_plot(const measure *m);

#endif

/* What was measured, told: a table and a plot for people on standard output, JSON for programs. Main thread
 * only. */
#ifndef LOCKSTOCK_BENCH_REPORT_H
#define LOCKSTOCK_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "scenario.h"

/* Least, middle and greatest of several rounds. */
typedef struct spread {
    double min, median, max;
} spread;

/* Sorts them. n > 0. */
spread spread_of(double *values, size_t n);

/* JSON that is written as it comes: a comma where one is needed. Names and texts are ours, but for what
 * json_text escapes. `file` NULL: nothing is written. */
typedef struct json {
    FILE *file;
    bool follows;
} json;

void json_begin(json *j, const char *name, char bracket); /* '{' or '['; name NULL: in an array */
void json_end(json *j, char bracket);                     /* '}' or ']' */
void json_number(json *j, const char *name, double value);
void json_count(json *j, const char *name, uint64_t value);
void json_text(json *j, const char *name, const char *value);
void json_spread(json *j, const char *name, spread value);

/* One run of a scenario. */
typedef struct report {
    const bench_options *options;
    const char *fsync;
    const scenario *scenario;
    const measure *measured;
    const tally *all;
    bool agrees; /* what was checked after */
    const char *checked;
    double offered;  /* operations a second that were to be started; 0: closed loop */
    double capacity; /* measured before; 0: it was not */
} report;

void report_print(const report *r);
void report_json(json *j, const report *r);

/* Members of the object that is open: rates, latencies, CPU. */
void report_measure_json(json *j, const measure *m);

/* Draws the distribution of the latencies of answered calls. */
void report_plot(const measure *m);

#endif

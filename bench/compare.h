/* Compares lockstock with alternatives in slices that take turns on one Redis, so that other load of the machine
 * affects all of them. Each ratio is of two slices of one round; minimum, median and maximum are over the rounds. */
#ifndef LOCKSTOCK_BENCH_COMPARE_H
#define LOCKSTOCK_BENCH_COMPARE_H

#include "report.h"
#include "rival.h"

/* What is compared. */
typedef struct entrant {
    const char *scenario; /* whose things it uses */
    unsigned in_flight;
    const char *rival; /* NULL: lockstock */
    bool sync;         /* lockstock with threads that wait */
    const char *fsync; /* of a store of its own; NULL: the comparison's store */
} entrant;

enum { COMPARED = 3 };
typedef enum compared { OF_RATE, OF_REDIS, OF_P50 } compared; /* rate: calls a second, or hand-offs of a hot lock */

typedef struct contender {
    const rival *rival;    /* NULL: lockstock */
    bench_options options; /* of a slice */
    place *own;            /* NULL: the comparison's */
    world world;
    const char *skipped;      /* why it is not measured; NULL: it is measured */
    measure total;            /* over all rounds */
    double *values[COMPARED]; /* by round */
} contender;

/* Measures `rounds` slices of each entrant, in turns. Returns false after printing an error. Call compare_free in any
 * case. */
bool compare_run(const entrant *e, size_t n, const bench_options *o, const place *p, contender *ret);
void compare_free(contender *c, size_t n);

/* Returns the ratio a/b of a value, by round. */
spread compare_ratio(const contender *a, const contender *b, compared of);

/* Returns the median of a value over the rounds. */
double compare_median(const contender *c, compared of);

/* Compares a scenario with its rivals, prints the comparison and adds it to the results. */
bool compare_scenario(const scenario *s, const bench_options *o, const place *p, json_t *results);

/* `lockstock-bench table`: prints the figures of docs/performance.md with their targets, as Markdown. Measures the rows
 * of --rows, or all. Returns false if a row could not be measured. */
bool table_run(const bench_options *o, json_t *results);

/* `lockstock-bench scale`: prints what sizing needs (docs/sizing.md): the CPU of each kind of call, what several servers
 * on one Redis do, and the memory of each thing. Returns false after printing an error. */
bool scale_run(const bench_options *o, json_t *results);

#endif

/* Compares lockstock with alternatives in slices that take turns on one Redis, so that other load of the machine
 * affects all of them. Each ratio is of two slices of one round; minimum, median and maximum are over the rounds. */
#ifndef LOCKSTOCK_BENCH_COMPARE_H
#define LOCKSTOCK_BENCH_COMPARE_H

#include "report.h"
#include "rival.h"

enum { ROUNDS_MAX = 1000 };

/* One of the compared programs. */
typedef struct contender {
    const char *name;         /* static */
    const scenario *scenario; /* the scenario whose things it uses */
    bool ours;                /* lockstock, not a rival */
    bool sync;                /* lockstock with threads that wait */
    rival rival;
    unsigned in_flight;
    const char *skipped; /* why it is not measured; NULL: it is measured */
    const place *place;  /* NULL: the comparison's */
    world world;
    tally all;
    measure total;                    /* over all rounds */
    double *rate, *redis_us, *p50_us; /* by round; rate: calls a second, or hand-offs of a hot lock */
    bool agrees;
    char checked[CHECK_BYTES];
} contender;

/* Measures `rounds` slices of each contender, in turns. Returns false after printing an error. Call compare_free in
 * any case. */
bool compare_run(contender *c, size_t n, const bench_options *o, const place *p);
void compare_free(contender *c, size_t n);

/* Returns the ratio a/b of a value, by round. */
typedef enum compared { OF_RATE, OF_REDIS, OF_P50 } compared;
spread compare_ratio(const contender *a, const contender *b, compared of, size_t rounds);

/* Returns the median of a value over the rounds. */
double compare_median(const contender *c, compared of, size_t rounds);

/* Compares a scenario with its rivals, prints the comparison and adds it to the results. */
bool compare_scenario(const scenario *s, const bench_options *o, const place *p, const char *fsync, json_t *results);

#endif

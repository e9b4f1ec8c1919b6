/* Slices of lockstock and of what a user would have instead, which take turns on one Redis; ratios of the
 * slices of one round, and of those the least, the middle and the greatest over the rounds: what else the
 * machine does meets all of them alike. */
#ifndef LOCKSTOCK_BENCH_COMPARE_H
#define LOCKSTOCK_BENCH_COMPARE_H

#include "report.h"
#include "rival.h"

enum { ROUNDS_MAX = 1000 };

/* One of those that take turns. */
typedef struct contender {
    const char *name;         /* static */
    const scenario *scenario; /* whose things it uses */
    bool ours;                /* lockstock; else a rival */
    bool sync;                /* of lockstock: threads that wait */
    rival rival;
    unsigned in_flight;
    const char *skipped; /* why it is not measured; NULL: it is */
    const place *place;  /* NULL: that of the comparison */
    world world;
    tally all;
    measure total;                    /* of all rounds */
    double *rate, *redis_us, *p50_us; /* of each round; rate: calls a second, hand-offs of a hot lock */
    bool agrees;
    char checked[CHECK_BYTES];
} contender;

/* Measures `rounds` slices of each, in turns. False: something could not run; the error is printed.
 * compare_free in any case. */
bool compare_run(contender *c, size_t n, const bench_options *o, const place *p);
void compare_free(contender *c, size_t n);

/* Of a/b round by round, of what `of` names. */
typedef enum compared { OF_RATE, OF_REDIS, OF_P50 } compared;
spread compare_ratio(const contender *a, const contender *b, compared of, size_t rounds);

/* The median of the values of one of them. */
double compare_median(const contender *c, compared of, size_t rounds);

/* --compare: a scenario with all its rivals, printed and added to the results. */
bool compare_scenario(const scenario *s, const bench_options *o, const place *p, const char *fsync, json_t *results);

#endif

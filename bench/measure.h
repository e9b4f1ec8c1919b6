/* The measurements of a run. A measure begins as zeros; measure_clear frees its contents. */
#ifndef LOCKSTOCK_BENCH_MEASURE_H
#define LOCKSTOCK_BENCH_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

#include "base/clock.h"
#include "histogram.h"
#include "place.h"
#include "program.h"

enum { STEPS_MAX = 2, OUTCOMES_MAX = 16, SCENARIOS_MAX = 24, ROUNDS_MAX = 1000 };

typedef enum fate {
    FATE_OK,      /* answered, with any outcome */
    FATE_REFUSED, /* RESOURCE_EXHAUSTED or UNAVAILABLE, and not applied */
    FATE_EXPIRED, /* DEADLINE_EXCEEDED */
    FATE_FAILED,  /* anything else */
    FATES
} fate;

/* Counts of all calls, also those outside the measured time. */
typedef struct tally {
    uint64_t ok[SCENARIOS_MAX][STEPS_MAX][OUTCOMES_MAX];
    uint64_t started, in_doubt, not_ok; /* in_doubt: may have been applied */
    lks_error first;                    /* the first error */
} tally;

typedef struct measure {
    double seconds;
    uint64_t hand_offs;        /* of the hot lock, to another holder */
    uint64_t calls[FATES];     /* by fate */
    histogram *latency[FATES]; /* of these calls; NULL: none */
    cpu_times cpu;             /* below 0: not known */
    tally all;
} measure;

/* Adds a call with its latency. */
void measure_call(measure *m, fate as, uint64_t latency_ns);

/* Adds what another run measured. */
void measure_add(measure *m, const measure *from);

void measure_clear(measure *m);

/* Returns the answered calls a second. */
double measure_rate(const measure *m);

/* Returns the number of calls. */
uint64_t measure_calls(const measure *m);

/* Returns the microseconds of CPU for each call; below 0: not known. */
double measure_us(const measure *m, double cpu_seconds);

/* Returns a percentile of the latencies in microseconds. */
double measure_percentile_us(const measure *m, fate as, double share);

/* ---- a run --------------------------------------------------------------------- */

/* A run by time has a warm-up, a measured time and an end; a run of a number of operations measures all of them. */
typedef struct run {
    const bench_options *options;
    const place *place;
    atomic_int phase;
    atomic_bool some;  /* a call was measured */
    atomic_llong left; /* operations */
} run;

/* Returns whether another operation may begin. */
bool run_continues(run *r);

bool run_is_stopping(const run *r);

/* Returns whether calls are measured now. The caller measures one then. */
bool run_measures(run *r);

/* Starts the operations and measures them; await waits until all have ended, and may be called twice. Sets the seconds
 * and the CPU. */
void run_all(run *r, void (*start)(void *arg), void (*await)(void *arg), void *arg, measure *m);

#endif

/* What one slice of calls came to. Owned by whoever zeroed it; measure_clear frees what is in it. */
#ifndef LOCKSTOCK_BENCH_MEASURE_H
#define LOCKSTOCK_BENCH_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "place.h"

typedef enum fate {
    FATE_OK,      /* answered: every outcome, sold out too */
    FATE_REFUSED, /* RESOURCE_EXHAUSTED or UNAVAILABLE, and not applied */
    FATE_EXPIRED, /* DEADLINE_EXCEEDED */
    FATE_FAILED,  /* anything else */
    FATES
} fate;

typedef struct measure {
    double seconds;
    uint64_t hand_offs;        /* of the one lock, to another holder */
    uint64_t calls[FATES];     /* of which they consist */
    histogram *latency[FATES]; /* of those calls; NULL: none */
    histogram *own[FATES];     /* of an open loop: from their start, rather than from when they were due */
    cpu_times cpu;             /* used meanwhile; below 0: not known */
} measure;

/* malloc that does not fail: a benchmark without memory ends. Zeroed. */
void *measure_alloc(size_t n, size_t size);

/* Adds one call: its latency, and how long after its start it ended. */
void measure_call(measure *m, fate as, uint64_t latency_ns, uint64_t own_ns);

/* Adds counts and latencies, not seconds nor CPU. */
void measure_add(measure *m, const measure *from);

void measure_clear(measure *m);

/* CPU between two readings; below 0 where either is. */
cpu_times measure_cpu(cpu_times before, cpu_times after);

/* Of answered calls. */
double measure_rate(const measure *m);

/* That ended, whatever became of them. */
uint64_t measure_calls(const measure *m);

/* Microseconds a call that ended; below 0: not known. */
double measure_us(const measure *m, double cpu_seconds);

/* Percentile of the latency of answered calls, in microseconds. */
double measure_percentile_us(const measure *m, fate as, double share);

/* Ctrl-C and SIGTERM end what runs, and what was started is removed. Once, from main. */
void interrupt_catch(void);
bool interrupted(void);

/* Now, on CLOCK_MONOTONIC, in ns. */
uint64_t measure_now_ns(void);

/* Lets time pass; ends early when the program was interrupted (Ctrl-C). False: it was. */
bool measure_pause(double seconds);

/* The same, and longer, up to a minute, as long as nothing was measured: a slice is never empty because the
 * machine was busy. */
void measure_pause_until_some(double seconds, atomic_bool *some);

#endif

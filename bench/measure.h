/* The measurements of a slice of calls. Begins as zeros; measure_clear frees its contents. */
#ifndef LOCKSTOCK_BENCH_MEASURE_H
#define LOCKSTOCK_BENCH_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "histogram.h"
#include "place.h"

typedef enum fate {
    FATE_OK,      /* answered, with any outcome */
    FATE_REFUSED, /* RESOURCE_EXHAUSTED or UNAVAILABLE, and not applied */
    FATE_EXPIRED, /* DEADLINE_EXCEEDED */
    FATE_FAILED,  /* anything else */
    FATES
} fate;

typedef struct measure {
    double seconds;
    uint64_t hand_offs;        /* of the hot lock, to another holder */
    uint64_t calls[FATES];     /* by fate */
    histogram *latency[FATES]; /* of these calls; NULL: none */
    histogram *own[FATES];     /* open loop: from the start of the call instead of its scheduled time */
    cpu_times cpu;             /* used during the slice; below 0: not known */
} measure;

/* Allocates zeroed memory. Exits when out of memory. */
void *measure_alloc(size_t n, size_t size);

/* Adds a call with its latency and the time since its start. */
void measure_call(measure *m, fate as, uint64_t latency_ns, uint64_t own_ns);

/* Adds counts and latencies, but not seconds and CPU. */
void measure_add(measure *m, const measure *from);

void measure_clear(measure *m);

/* Returns the CPU between two readings; below 0 if one of them is. */
cpu_times measure_cpu(cpu_times before, cpu_times after);

/* Returns the answered calls a second. */
double measure_rate(const measure *m);

/* Returns the number of calls. */
uint64_t measure_calls(const measure *m);

/* Returns the microseconds of CPU for each call; below 0: not known. */
double measure_us(const measure *m, double cpu_seconds);

/* Returns a percentile of the latencies in microseconds. */
double measure_percentile_us(const measure *m, fate as, double share);

/* Makes Ctrl-C and SIGTERM end the measurement, so that started programs are ended. Call it once, from main. */
void interrupt_catch(void);
bool interrupted(void);

/* Sleeps. Returns false, early, if the program was interrupted. */
bool measure_pause(double seconds);

/* The same, but sleeps up to a minute longer until a call was measured, so that no slice is empty on a busy machine. */
void measure_pause_until_some(double seconds, atomic_bool *some);

#endif

/* An HDR histogram of nanoseconds: a count for each bucket, and no bucket is wider than 1/128 of
 * what is in it, from 1 ns to 18 minutes (what is longer counts as that). Not thread-safe: one for
 * each thread, which are added together at the end. Debian 12 has no HdrHistogram_c. */
#ifndef LOCKSTOCK_BENCH_HISTOGRAM_H
#define LOCKSTOCK_BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BITS = 7, HISTOGRAM_RANGE = 40 };
enum { HISTOGRAM_BUCKETS = ((HISTOGRAM_RANGE - HISTOGRAM_BITS) << HISTOGRAM_BITS) + (1 << HISTOGRAM_BITS) };

typedef struct histogram {
    uint64_t count, sum, max;
    uint64_t bucket[HISTOGRAM_BUCKETS];
} histogram;

void histogram_record(histogram *h, uint64_t ns);

/* Adds what `from` has. */
void histogram_add(histogram *h, const histogram *from);

/* The least value that at least that share of all, 0..1, does not exceed; 0 where there is none. */
uint64_t histogram_at(const histogram *h, double share);

/* The largest value that is counted in a bucket. */
uint64_t histogram_upper(size_t bucket);

#endif

/* An HDR histogram of nanoseconds from 1 ns to 18 minutes; longer values count as 18 minutes. A bucket is at most
 * 1/128 of its values wide. Not thread-safe. Debian 12 has no HdrHistogram_c. */
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

/* Adds the values of `from`. */
void histogram_add(histogram *h, const histogram *from);

/* Returns the least value that a share of all values, 0..1, does not exceed; 0 if the histogram is empty. */
uint64_t histogram_at(const histogram *h, double share);

/* Returns the largest value of a bucket. */
uint64_t histogram_upper(size_t bucket);

#endif

/* The bucket of a value is given by its highest HISTOGRAM_BITS + 1 bits and their position. */
#include "histogram.h"

static size_t bucket_of(uint64_t ns)
{
    if (ns >> HISTOGRAM_RANGE)
        ns = (1ULL << HISTOGRAM_RANGE) - 1;
    unsigned top = 63U - (unsigned)__builtin_clzll(ns | 1);
    unsigned shift = top > HISTOGRAM_BITS ? top - HISTOGRAM_BITS : 0;
    return ((size_t)shift << HISTOGRAM_BITS) + (size_t)(ns >> shift);
}

uint64_t histogram_upper(size_t bucket)
{
    if (bucket < 2U << HISTOGRAM_BITS)
        return bucket;
    unsigned shift = (unsigned)(bucket >> HISTOGRAM_BITS) - 1;
    uint64_t high_bits = bucket - ((size_t)shift << HISTOGRAM_BITS);
    return ((high_bits + 1) << shift) - 1;
}

void histogram_record(histogram *h, uint64_t ns)
{
    h->count++;
    h->sum += ns;
    if (ns > h->max)
        h->max = ns;
    h->bucket[bucket_of(ns)]++;
}

void histogram_add(histogram *h, const histogram *from)
{
    h->count += from->count;
    h->sum += from->sum;
    if (from->max > h->max)
        h->max = from->max;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->bucket[i] += from->bucket[i];
}

uint64_t histogram_at(const histogram *h, double share)
{
    double exact = share * (double)h->count;
    uint64_t wanted = (uint64_t)exact;
    uint64_t seen = 0;

    if ((double)wanted < exact - 1e-6 || wanted == 0) /* 0.58 * 100 is a little more than 58 */
        wanted++;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= wanted && h->count > 0) {
            uint64_t upper = histogram_upper(i);
            return upper < h->max ? upper : h->max;
        }
    }
    return h->max;
}

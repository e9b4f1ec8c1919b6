/* The benchmark's histogram against the sorted values themselves. */
#include "bench/histogram.h"
#include "test.h"

enum { VALUES = 20000 };

static histogram h, other;
static uint64_t values[VALUES];

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* From nanoseconds to minutes, as many of each order of magnitude. */
static void fill(void)
{
    unsigned seed = 20261122;

    h = other = (histogram){0};
    for (int i = 0; i < VALUES; i++) {
        uint64_t bits = ((uint64_t)rand_r(&seed) << 31 | (uint64_t)rand_r(&seed)) >> (62 - HISTOGRAM_RANGE + 1);
        values[i] = bits >> (rand_r(&seed) % (HISTOGRAM_RANGE - 1));
        histogram_record(i % 3 ? &h : &other, values[i]);
    }
    histogram_add(&h, &other);
    qsort(values, VALUES, sizeof *values, by_size);
}

TEST(a_percentile_is_never_less_than_the_value_nor_more_than_a_128th_above_it)
{
    fill();
    for (int i = 1; i <= 1000; i++) {
        uint64_t exact = values[(VALUES * i + 999) / 1000 - 1];
        uint64_t told = histogram_at(&h, i / 1000.0);
        assert_true(told >= exact);
        assert_true(told <= exact + exact / 128 + 1);
    }
}

TEST(count_sum_and_greatest_are_exact)
{
    uint64_t sum = 0;

    fill();
    for (int i = 0; i < VALUES; i++)
        sum += values[i];
    assert_int_equal(h.count, VALUES);
    assert_int_equal(h.sum, sum);
    assert_int_equal(h.max, values[VALUES - 1]);
    assert_int_equal(histogram_at(&h, 1), h.max);
}

TEST(value_beyond_the_range_counts_as_the_maximum)
{
    h = (histogram){0};
    assert_int_equal(histogram_at(&h, 0.5), 0);
    histogram_record(&h, UINT64_MAX / 2);
    histogram_record(&h, 0);
    assert_int_equal(histogram_at(&h, 0.5), 0);
    assert_int_equal(histogram_at(&h, 1), histogram_upper(HISTOGRAM_BUCKETS - 1));
    assert_int_equal(histogram_upper(HISTOGRAM_BUCKETS - 1), (1ULL << HISTOGRAM_RANGE) - 1);
}

TEST_MAIN()

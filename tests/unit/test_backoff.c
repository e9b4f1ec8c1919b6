/* Pauses that grow: each is between a half and the whole of its bound, and not always the
 * same. */

#include "base/backoff.h"
#include "base/clock.h"
#include "test.h"

enum { LEAST_MS = 10, MOST_MS = 1000, DRAWS = 1000 };

TEST(pauses_double_up_to_the_longest)
{
    uint64_t random = backoff_random();

    for (uint32_t failures = 0; failures < 70; failures++) {
        uint64_t whole = failures < 7 ? (uint64_t)LEAST_MS << failures : MOST_MS, least = UINT64_MAX, most = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint64_t ns = backoff_ns(LEAST_MS, MOST_MS, failures, &random);
            least = ns < least ? ns : least;
            most = ns > most ? ns : most;
        }
        assert_in_range(least, whole * CLOCK_NS_PER_MS / 2, whole * CLOCK_NS_PER_MS * 6 / 10);
        assert_in_range(most, whole * CLOCK_NS_PER_MS * 9 / 10, whole * CLOCK_NS_PER_MS);
    }
    assert_in_range(backoff_ns(LEAST_MS, MOST_MS, UINT32_MAX, &random), MOST_MS / 2 * CLOCK_NS_PER_MS,
                    MOST_MS * CLOCK_NS_PER_MS);
    assert_int_equal(backoff_ns(0, 0, 0, &random), 0);
}

/* Clients that failed together do not retry together. */
TEST(two_draw_different_numbers)
{
    uint64_t a = backoff_random(), b = backoff_random();

    assert_true(a != 0 && b != 0);
    assert_true(backoff_ns(MOST_MS, MOST_MS, 0, &a) != backoff_ns(MOST_MS, MOST_MS, 0, &b));
    assert_true(a != 0 && b != 0);
}

TEST_MAIN()

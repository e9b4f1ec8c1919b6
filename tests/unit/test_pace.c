/* How long a call would queue, from how fast calls left the queue lately. */
/* promise K14 */

#include "base/pace.h"
#include "test.h"

#define MS ((uint64_t)1000000)

/* So many calls, one every each_ns. */
static uint64_t pass(pace *p, uint64_t now_ns, uint64_t each_ns, size_t calls)
{
    for (size_t i = 0; i < calls; i++)
        pace_note(p, now_ns += each_ns);
    return now_ns;
}

TEST(nothing_is_foreseen_before_enough_was_seen)
{
    pace p = {0};

    pace_begin(&p, 1000 * MS);
    assert_int_equal(pace_expected_ns(&p, 1000), 0);
    pass(&p, 1000 * MS, 10 * MS, 31); /* long enough, but too few */
    assert_int_equal(pace_expected_ns(&p, 1000), 0);
    pace_begin(&p, 1000 * MS);
    pass(&p, 1000 * MS, MS / 100, 1999); /* many, but in too short a time */
    assert_int_equal(pace_expected_ns(&p, 1000), 0);
}

TEST(a_queue_takes_as_long_as_those_before_did)
{
    pace p = {0};

    pace_begin(&p, 1000 * MS);
    pass(&p, 1000 * MS, MS, 32);
    assert_int_equal(pace_expected_ns(&p, 1), MS);
    assert_int_equal(pace_expected_ns(&p, 500), 500 * MS);
}

TEST(pace_follows_changes)
{
    pace p = {0};
    uint64_t now_ns = 1000 * MS;

    pace_begin(&p, now_ns);
    now_ns = pass(&p, now_ns, MS, 32);
    now_ns = pass(&p, now_ns, 5 * MS, 32);
    assert_int_equal(pace_expected_ns(&p, 1), 2 * MS); /* one window is not enough */
    for (int i = 0; i < 40; i++)
        now_ns = pass(&p, now_ns, 5 * MS, 32);
    assert_in_range(pace_expected_ns(&p, 1), 5 * MS * 99 / 100, 5 * MS);
}

TEST(new_queue_has_no_pace)
{
    pace p = {0};

    pace_begin(&p, 1000 * MS);
    pass(&p, 1000 * MS, MS, 64);
    pace_begin(&p, 5000 * MS);
    assert_int_equal(pace_expected_ns(&p, 1000), 0);
    pass(&p, 5000 * MS, 2 * MS, 32); /* and what passed meanwhile does not count */
    assert_int_equal(pace_expected_ns(&p, 1), 2 * MS);
}

TEST(too_long_is_a_part_of_the_time_left)
{
    assert_false(pace_too_long(250 * MS, 1000 * MS, 4));
    assert_true(pace_too_long(250 * MS + 1, 1000 * MS, 4));
    assert_true(pace_too_long(1, 0, 4));
    assert_false(pace_too_long(0, 0, 4)); /* nothing is foreseen */
}

TEST_MAIN()

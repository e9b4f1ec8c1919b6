/* Ids where a script cannot place the clock: ticks of UUIDs, and the ids of a range. */
#include "services/id.h"
#include "test.h"

static const int64_t EPOCH_MS = 1704067200000; /* 2024-01-01, as in id.lua */
enum { SECOND = 1000 << 12 };                  /* in ticks */
static const uint64_t SECOND_NS = 1000000000;

/* promise D13: UUID_V7 as in RFC 9562 */
TEST_WITH(the_layout_of_rfc_9562, NULL, NULL)
{
    char text[ID_UUID_LEN + 1];

    /* Appendix A.6: 2022-02-22 14:22:22.000 -0500, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F. */
    uuid_format(UINT64_C(0x17F22E279B0) << 12 | 0xCC3, UINT64_C(0x18C4DC0C0C07398F) << 2, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    uuid_format((UINT64_C(1) << 60) - 1, UINT64_MAX, text);
    assert_string_equal(text, "ffffffff-ffff-7fff-bfff-ffffffffffff");
}

/* promise D14: UUIDs of a server increase, also when its clock steps back */
TEST_WITH(a_tick_is_the_time_or_the_next_one, NULL, NULL)
{
    assert_int_equal(uuid_tick(0, SECOND_NS), SECOND);
    assert_int_equal(uuid_tick(0, SECOND_NS + 999999), SECOND + 4095);
    assert_int_equal(uuid_tick(0, SECOND_NS + 500000), SECOND + 2048);
    assert_int_equal(uuid_tick(SECOND, SECOND_NS), SECOND + 1);         /* in the same one */
    assert_int_equal(uuid_tick(2 * SECOND, SECOND_NS), 2 * SECOND + 1); /* the clock stepped back */
}

static snowflake_range range(int64_t worker, int64_t first, int64_t last, uint64_t asked_ns)
{
    return (snowflake_range){.worker = worker,
                             .first_ms = EPOCH_MS + first,
                             .end_ms = EPOCH_MS + last,
                             .clock_ms = EPOCH_MS + first,
                             .asked_ns = asked_ns};
}

static int64_t take_one(snowflake *s, uint64_t now_ns)
{
    int64_t id;

    assert_true(snowflake_take(s, now_ns, 1, &id));
    return id;
}

/* promise D1 */
TEST_WITH(a_range_makes_these_ids, NULL, NULL)
{
    static int64_t made[4098];
    const snowflake_range granted = range(5, 100, 103, SECOND_NS);
    snowflake s;

    snowflake_init(&s);
    assert_false(snowflake_take(&s, SECOND_NS, 1, made));
    snowflake_grant(&s, &granted);
    assert_true(snowflake_take(&s, SECOND_NS, 4098, made));
    assert_int_equal(made[0], 100 << 22 | 5 << 12);
    assert_int_equal(made[4095], 100 << 22 | 5 << 12 | 4095);
    assert_int_equal(made[4096], 101 << 22 | 5 << 12); /* the ms was used up */
    assert_int_equal(snowflake_unused_ms(&s), EPOCH_MS + 102);
    assert_int_equal(take_one(&s, SECOND_NS + 2000000), 102 << 22 | 5 << 12);
    /* The clock is behind the range's end, the ids are not. */
    assert_true(snowflake_take(&s, SECOND_NS + 900000000, 4095, made));
    assert_false(snowflake_take(&s, SECOND_NS + 900000000, 1, made));
}

/* promise D6 */
TEST_WITH(a_late_grant_takes_nothing_back, NULL, NULL)
{
    const snowflake_range old = range(5, 100, 200, 0), other = range(6, 100, 200, 0);
    snowflake s;

    snowflake_init(&s);
    snowflake_grant(&s, &old);
    const int64_t before = take_one(&s, 0);
    snowflake_grant(&s, &old);
    assert_int_equal(take_one(&s, 0), before + 1); /* goes on within the ms */
    snowflake_grant(&s, &other);
    assert_int_equal(take_one(&s, 0), 101 << 22 | 6 << 12); /* another worker's: not within it */
}

TEST_MAIN()

/* Which addresses are limited after the server closed their connections, and for how long. */
/* promise CN11 */
#include "net/admission/penalties.h"
#include "test.h"

enum { NOW_MS = 1000000, FREE = PENALTIES_FREE_MS / PENALTY_MS, REFUSED = -1 };

static penalties *all;

static int start(void **state)
{
    all = penalties_new();
    return all ? 0 : -1;
}

static int stop(void **state)
{
    penalties_free(all);
    return 0;
}

static place_origin host(uint32_t n)
{
    place_origin ret = {.kind = PLACE_IPV4};

    memcpy(ret.bytes, &n, sizeof n);
    return ret;
}

static void throw_out(place_origin from, size_t times, uint64_t now_ms)
{
    for (size_t i = 0; i < times; i++)
        penalties_add(all, &from, now_ms);
}

static void leave(place_origin from)
{
    penalties_cancel_wait(all, &from);
}

/* How long a new connection waits, or REFUSED. */
static int64_t enter(place_origin from, uint64_t now_ms)
{
    uint64_t wait_ms;

    return penalties_let_in(all, &from, now_ms, &wait_ms) ? (int64_t)wait_ms : REFUSED;
}

TEST(the_first_connections_thrown_out_cost_nothing)
{
    throw_out(host(1), FREE, NOW_MS);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(enter(host(1), NOW_MS), 0);
}

TEST(penalized_address_connects_at_a_rate)
{
    throw_out(host(1), FREE + 1, NOW_MS);
    assert_int_equal(enter(host(1), NOW_MS), 0);
    assert_int_equal(enter(host(1), NOW_MS), PENALTIES_INTERVAL_MS);
    assert_int_equal(enter(host(1), NOW_MS + 3), 2 * PENALTIES_INTERVAL_MS - 3);
    assert_int_equal(enter(host(1), NOW_MS + 500), 0); /* unused turns give no credit */
    assert_int_equal(enter(host(1), NOW_MS + 500), PENALTIES_INTERVAL_MS);
}

TEST(connection_that_leaves_makes_room_for_the_next)
{
    throw_out(host(1), FREE + 1, NOW_MS);
    assert_int_equal(enter(host(1), NOW_MS), 0);
    assert_int_equal(enter(host(1), NOW_MS), PENALTIES_INTERVAL_MS);
    assert_int_equal(enter(host(1), NOW_MS), 2 * PENALTIES_INTERVAL_MS);
    leave(host(1));
    assert_int_equal(enter(host(1), NOW_MS), 2 * PENALTIES_INTERVAL_MS);
    leave(host(2)); /* of whom nothing is known */
}

TEST(connection_that_would_wait_too_long_is_refused)
{
    size_t n = 0;

    throw_out(host(1), FREE + 1, NOW_MS);
    while (enter(host(1), NOW_MS) != REFUSED)
        n++;
    assert_int_equal(n, PENALTIES_WAIT_MAX_MS / PENALTIES_INTERVAL_MS + 1);
    assert_int_equal(enter(host(1), NOW_MS + PENALTIES_INTERVAL_MS), PENALTIES_WAIT_MAX_MS);
}

TEST(other_addresses_are_free)
{
    const place_origin user = {PLACE_USER, {1}}, network = {PLACE_IPV6, {1}};

    throw_out(host(1), 1000, NOW_MS);
    assert_int_equal(enter(host(1), NOW_MS), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter(host(2), NOW_MS), 0);
        assert_int_equal(enter(user, NOW_MS), 0);
        assert_int_equal(enter(network, NOW_MS), 0);
    }
}

TEST(penalty_decays_with_time)
{
    throw_out(host(1), FREE + 1, NOW_MS);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(enter(host(1), NOW_MS + PENALTY_MS), 0);
    throw_out(host(1), 1, NOW_MS + PENALTY_MS);
    assert_int_equal(enter(host(1), NOW_MS + PENALTY_MS), 0);
    assert_int_equal(enter(host(1), NOW_MS + PENALTY_MS), PENALTIES_INTERVAL_MS);
}

TEST(penalty_has_a_maximum_duration)
{
    uint64_t free_ms = NOW_MS + PENALTIES_OWED_MAX_MS - PENALTIES_FREE_MS;

    throw_out(host(1), 100000, NOW_MS);
    enter(host(1), free_ms - 1);
    assert_int_equal(enter(host(1), free_ms - 1), PENALTIES_INTERVAL_MS);
    assert_int_equal(enter(host(1), free_ms), 0);
    assert_int_equal(enter(host(1), free_ms), 0);
}

/* All are known that there is room for; for one more the one that was thrown out longest ago goes. */
TEST(number_of_penalized_addresses_is_bounded)
{
    for (uint32_t i = 0; i < PENALTIES_ADDRESSES; i++)
        throw_out(host(i), FREE + 1, NOW_MS);
    throw_out(host(0), 1, NOW_MS);
    throw_out(host(PENALTIES_ADDRESSES), FREE + 1, NOW_MS);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(enter(host(1), NOW_MS), 0);
    for (uint32_t i = 0; i <= PENALTIES_ADDRESSES; i++) {
        if (i == 1)
            continue;
        assert_int_equal(enter(host(i), NOW_MS), 0);
        assert_int_equal(enter(host(i), NOW_MS), PENALTIES_INTERVAL_MS);
    }
}

TEST_MAIN(.setup = start, .teardown = stop)

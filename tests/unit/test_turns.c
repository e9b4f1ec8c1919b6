/* The order of service, with a test clock: the test sets the duration of work. */

#include <uv.h>

#include "net/admission/turns.h"
#include "test.h"

enum { TAKERS = 20, MS = 1000 * 1000, US = 1000 };

static struct {
    uv_loop_t loop;
    turns *all;
    turn_taker taker[TAKERS];
    uint64_t now_ns, cost_ns;
    size_t served[TAKERS], n_served;
    size_t last; /* leaves after so many */
    bool closed;
} here;

static uint64_t now(void)
{
    return here.now_ns;
}

static void work(size_t i, uint64_t ns, size_t bytes)
{
    uint64_t began_ns = here.now_ns;

    here.now_ns += ns;
    turns_worked(here.all, &here.taker[i], began_ns, bytes);
}

static void serve(turn_taker *t)
{
    size_t i = (size_t)(t - here.taker);

    here.served[i]++;
    here.n_served++;
    work(i, here.cost_ns, turns_bytes(here.all, t, 65536));
    if (here.n_served == here.last)
        turns_leave(here.all, t);
}

static int start(void **state)
{
    memset(&here, 0, sizeof here);
    here.now_ns = UINT64_C(1000) * MS;
    here.cost_ns = 20 * US;
    uv_loop_init(&here.loop);
    here.all = turns_new(&(turns_options){.loop = &here.loop, .now_ns = now, .serve = serve});
    return here.all ? 0 : -1;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static int stop(void **state)
{
    for (size_t i = 0; i < TAKERS; i++)
        turns_leave(here.all, &here.taker[i]);
    turns_close(here.all, on_closed, &here.closed);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    return here.closed && uv_loop_close(&here.loop) == 0 ? 0 : -1;
}

/* One turn of the loop: how many were served. */
static size_t turn(void)
{
    size_t before = here.n_served;

    uv_run(&here.loop, UV_RUN_NOWAIT);
    return here.n_served - before;
}

static void queue_all(void)
{
    for (size_t i = 1; i < TAKERS; i++)
        turns_queue(here.all, &here.taker[i]);
}

/* promise CN3 */
TEST(costly_connection_is_heavy_until_its_cost_decays)
{
    assert_true(turns_is_light(here.all, &here.taker[0]));
    work(0, TURNS_LIGHT_NS - 1, 1000);
    assert_true(turns_is_light(here.all, &here.taker[0]));
    work(0, 2 * TURNS_LIGHT_NS, 1000);
    assert_false(turns_is_light(here.all, &here.taker[0]));
    here.now_ns += 2 * TURNS_LIGHT_NS * TURNS_LEAK_PART - 100 * US;
    assert_false(turns_is_light(here.all, &here.taker[0]));
    here.now_ns += 200 * US;
    assert_true(turns_is_light(here.all, &here.taker[0]));
    /* The cost of one piece of work decays. */
    work(0, UINT64_C(60000) * MS, 1000);
    here.now_ns += 200 * MS;
    assert_true(turns_is_light(here.all, &here.taker[0]));
}

TEST(a_small_share_in_the_long_run_stays_light)
{
    for (int i = 0; i < 1000; i++) {
        work(0, 50 * US, 1000);
        assert_true(turns_is_light(here.all, &here.taker[0]));
        here.now_ns += TURNS_LEAK_PART * 50 * US;
    }
}

/* However many are heavy, and whatever the light ones do meanwhile. */
/* promise CN2 */
TEST(heavy_ones_together_cost_the_light_one_part_of_a_turn)
{
    queue_all();
    for (int i = 0; i < 100; i++) {
        work(0, 5 * US, 100);
        assert_int_equal(turn(), TURNS_CONTENDED_NS / here.cost_ns);
        here.now_ns += 5 * MS; /* or it would be heavy in the long run */
    }
    for (size_t i = 1; i < TAKERS; i++)
        assert_in_range(here.served[i], here.n_served / (TAKERS - 1), here.n_served / (TAKERS - 1) + 1);
}

/* A piece that cannot be divided. */
/* promise CN2 */
TEST(heavy_ones_rest_after_a_long_piece_while_a_light_one_is_active)
{
    queue_all();
    here.cost_ns = 600 * US;
    for (int i = 0; i < 10; i++) {
        work(0, 5 * US, 100);
        assert_int_equal(turn(), 1);
        here.now_ns += 599 * US;
        assert_int_equal(turn(), 0);
        here.now_ns += 1 * US;
    }
    here.now_ns += TURNS_QUIET_NS;
    assert_int_equal(turn(), 2);
    assert_int_equal(turn(), 2);
}

/* promise CN2: heavy connections share a part of each turn, a longer part when they are alone, in rotation by owner
 * and then by connection; after a long piece they pause while a light one is active */
TEST(heavy_ones_alone_have_longer_turns)
{
    work(0, 5 * US, 100);
    queue_all();
    here.now_ns += TURNS_QUIET_NS;
    assert_int_equal(turn(), TURNS_ALONE_NS / here.cost_ns);
    work(1, 5 * US, 100); /* one of their own does not count */
    assert_int_equal(turn(), TURNS_ALONE_NS / here.cost_ns);
    work(0, 5 * US, 100);
    assert_int_equal(turn(), TURNS_CONTENDED_NS / here.cost_ns);
}

TEST(connection_that_left_gets_no_turn)
{
    turns_queue(here.all, &here.taker[1]);
    turns_queue(here.all, &here.taker[1]);
    turns_queue(here.all, &here.taker[2]);
    turns_leave(here.all, &here.taker[2]);
    here.last = 3;
    assert_int_equal(turn(), 3);
    assert_int_equal(here.served[1], 3);
    assert_int_equal(turn(), 0);
    assert_int_equal(uv_loop_alive(&here.loop), 0); /* it may wait */
}

/* Costly input, or input of unknown cost, is read in small pieces, cheap input in large ones. */
/* promise CN3 */
TEST(pieces_are_as_long_as_they_are_cheap)
{
    here.now_ns += 1000 * MS;
    assert_int_equal(turns_bytes(here.all, &here.taker[0], 65536), TURNS_BYTES_MIN);
    work(0, 100 * US, 1024);
    here.now_ns += 1000 * MS;
    assert_in_range(turns_bytes(here.all, &here.taker[0], 65536), 550, 650);
    work(0, 5 * MS, 1024);
    here.now_ns += 1000 * MS;
    assert_int_equal(turns_bytes(here.all, &here.taker[0], 65536), TURNS_BYTES_MIN);
    for (int i = 0; i < 50; i++) {
        work(0, 1 * US, 4096);
        here.now_ns += 1000 * MS;
    }
    assert_int_equal(turns_bytes(here.all, &here.taker[0], 65536), 65536);
    assert_int_equal(turns_bytes(here.all, &here.taker[0], 16384), 16384);
}

/* Also one that has cost nothing itself. */
/* promise CN3 */
TEST(connections_of_one_owner_are_as_heavy_as_one_while_another_works)
{
    const turn_taker *fresh = &here.taker[TAKERS - 1], *one = &here.taker[0];

    turns_set_owner(here.all, &here.taker[0], "one");
    for (size_t i = 1; i < TAKERS; i++)
        turns_set_owner(here.all, &here.taker[i], "many");
    for (size_t i = 1; i < TAKERS - 1; i++)
        work(i, 500 * US, 512);
    work(0, 10 * US, 512);
    assert_true(turns_is_light(here.all, one));
    assert_false(turns_is_light(here.all, fresh));
    here.now_ns += 51 * MS; /* no other connection works */
    assert_true(turns_is_light(here.all, fresh));
    for (size_t i = 0; i < TAKERS; i++)
        turns_set_owner(here.all, &here.taker[i], NULL);
}

/* Three connections of one principal that call all the time. */
/* promise CN3 */
TEST(an_owner_may_use_more_than_a_connection_and_stay_light)
{
    for (size_t i = 0; i < 4; i++)
        turns_set_owner(here.all, &here.taker[i], i == 0 ? "one" : "many");
    for (int round = 0; round < 1000; round++) {
        work(0, 1 * US, 512);
        for (size_t i = 1; i < 4; i++) {
            work(i, 15 * US, 512);
            assert_true(turns_is_light(here.all, &here.taker[i]));
        }
        here.now_ns += 250 * US;
    }
    for (size_t i = 0; i < 4; i++)
        turns_set_owner(here.all, &here.taker[i], NULL);
}

/* promise CN2 */
TEST(owners_take_turns_before_their_connections)
{
    for (size_t i = 1; i < TAKERS; i++)
        turns_set_owner(here.all, &here.taker[i], i == 1 ? "one" : "many");
    queue_all();
    work(0, 10 * US, 512); /* a light one: the others have a short turn */
    assert_int_equal(turn(), 4);
    assert_int_equal(here.served[1], 2);
    for (size_t i = 1; i < TAKERS; i++) {
        turns_leave(here.all, &here.taker[i]);
        turns_set_owner(here.all, &here.taker[i], NULL);
    }
}

TEST_MAIN(.setup = start, .teardown = stop)

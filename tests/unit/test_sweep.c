/* The search for work that no server has on its list, on a real loop. */
/* promise T13 */

#include "asked_store.h"
#include "calls/sweep.h"

enum { LONG_MS = 600000 };

struct alarms {
    char bases[64]; /* of lasting alarms, each with a space behind it */
};

static uv_loop_t loop;
static store asked;
static alarms lasting;
static sweep *all;

void alarms_set(alarms *list, const service_alarm *what)
{
    size_t len = strlen(list->bases);

    assert_true(what->lasting);
    assert_int_equal(what->argument.len, 0);
    assert_int_equal(what->in_ms, 0);
    assert_string_equal(what->function, "stock_expire");
    snprintf(list->bases + len, sizeof list->bases - len, "%.*s ", (int)what->base.len, what->base.data);
}

static void begin(uint64_t interval_ms)
{
    asked = (store){.loop = &loop};
    lasting = (alarms){""};
    all = sweep_new(&loop, &asked, &lasting, interval_ms);
    sweep_begin(all);
}

static int setup(void **state)
{
    uv_loop_init(&loop);
    begin(LONG_MS);
    return 0;
}

static int setup_soon(void **state)
{
    uv_loop_init(&loop);
    begin(1);
    return 0;
}

static int teardown(void **state)
{
    sweep_close(all);
    while (uv_run(&loop, UV_RUN_DEFAULT)) /* a call may have stopped it before it ran */
        ;
    return uv_loop_close(&loop);
}

/* The next question, and its reply; NULL: the store is away. */
static void step(const char *question, const char *reply)
{
    asked_expect(&asked, question);
    if (reply)
        asked_answer(&asked, reply);
    else
        asked_fail(&asked, LKS_UNAVAILABLE);
}

/* This server makes the pass. */
static void may_begin(const char *apart_ms)
{
    char question[128];

    snprintf(question, sizeof question, "server_begin_pass " STORE_META_BASE " sweep %s", apart_ms);
    step(question, "OK 1 1");
}

#define FIND(slot, cursor) "stock_find_overdue@" #slot " " #cursor

/* One after the other, each from its beginning; one that fails does not keep the next. */
/* promise T22 */
TEST(a_pass_goes_through_each_part)
{
    asked.n_parts = 3;
    may_begin("10000");
    step(FIND(0, 0), "OK '17'");
    step(FIND(0, 17), "OK '' ls:{ns/g}:");
    step(FIND(10, 0), NULL);
    step(FIND(20, 0), "OK ''");
    asked_expect_none(&asked);
    assert_string_equal(lasting.bases, "ls:{ns/g}: ");
}

/* Redis may be broken, or be no Redis: a reply of another form ends the part. */
TEST_WITH(an_answer_of_another_shape_ends_the_part, setup_soon, teardown)
{
    static const char *const replies[] = {"0 1", "OK - ls:{ns/g}:", "NO '17'", "NO", "=1"};

    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        may_begin("1");
        step(FIND(0, 0), replies[i]);
    }
    assert_string_equal(lasting.bases, "");
}

/* The pass ends; the next begins on schedule. */
TEST_WITH(passes_follow_each_other_also_after_one_that_failed, setup_soon, teardown)
{
    may_begin("1");
    step(FIND(0, 0), "OK ''");
    may_begin("1");
    step(FIND(0, 0), "OK '17'");
    step(FIND(0, 17), NULL);
    may_begin("1");
    step(FIND(0, 0), "OK ''");
}

/* promise T24: of all servers of a store one makes a pass, and says so while it goes on */
TEST_WITH(another_server_makes_the_pass, setup_soon, teardown)
{
    step("server_begin_pass " STORE_META_BASE " sweep 1", "OK 0 1");
    step("server_begin_pass " STORE_META_BASE " sweep 1", NULL); /* the store is away: it asks again a second later */
    step("server_begin_pass " STORE_META_BASE " sweep 1", "OK 0");
    may_begin("1");
    for (int i = 1; i < 100; i++)
        step(FIND(0, 0), "OK '0'");
    step(FIND(0, 0), "OK '0'");
    step("server_begin_pass " STORE_META_BASE " sweep 0", "OK 1 0");
    step(FIND(0, 0), "OK ''");
}

TEST(one_pass_at_a_time)
{
    may_begin("10000");
    asked_next(&asked);
    sweep_begin(all);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(asked.n, 2);
    step(FIND(0, 0), "OK ''");
    sweep_begin(all);
    may_begin("600000");
    step(FIND(0, 0), "OK ''");
}

TEST_WITH(nothing_begins_after_the_stop, setup_soon, teardown)
{
    may_begin("1");
    asked_next(&asked);
    sweep_stop(all);
    step(FIND(0, 0), "OK '17'");
    sweep_begin(all);
    uv_run(&loop, UV_RUN_DEFAULT); /* returns: no timer runs */
    assert_int_equal(asked.n, 2);
}

TEST(nothing_begins_when_it_is_stopped_while_it_asks)
{
    asked_next(&asked);
    sweep_stop(all);
    asked_answer(&asked, "OK 1 1");
    asked_expect_none(&asked);
}

/* Units of "a b" that bucket 1 of 2 sends to the pool, and others; the second move does not belong to a bucket. */
#define MOVES                                                                                          \
    "OK '17' [ls:{ns/g/2/100}: 'a b' '0' '7' '3' '5'] [ls:{ns/g/2/99}: c '1' '8' '1' '6'] ls:{ns/h}: " \
    "[ls:{ns/g/2/0}: c '2' '8' '1' '6']"

/* promise SB24 */
TEST(units_on_their_way_are_taken_and_then_forgotten)
{
    may_begin("10000");
    step(FIND(0, 0), MOVES);
    assert_string_equal(lasting.bases, "ls:{ns/h}: ");
    asked_expect(&asked, "stock_receive ls:{ns/g/2/0}: a b 1 0 7 3 5");
    sweep_begin(all); /* the step is not over */
    asked_answer(&asked, "OK");
    step("stock_sent ls:{ns/g/2/100}: a b 0 7", "OK");
    step("stock_receive ls:{ns/g/2/102}: c 0 2 8 1 6", "OK");
    step("stock_sent ls:{ns/g/2/0}: c 2 8", "OK");
    step(FIND(0, 17), "OK ''");
}

/* promise SB24 */
TEST(units_that_are_not_taken_are_not_forgotten)
{
    may_begin("10000");
    step(FIND(0, 0), MOVES);
    step("stock_receive ls:{ns/g/2/0}: a b 1 0 7 3 5", "NO_ITEM");
    step("stock_receive ls:{ns/g/2/102}: c 0 2 8 1 6", NULL);
    step(FIND(0, 17), "OK ''");
}

TEST(nothing_is_brought_home_after_the_stop)
{
    may_begin("10000");
    step(FIND(0, 0), MOVES);
    sweep_stop(all);
    asked_answer(&asked, "OK");
    asked_expect_none(&asked);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

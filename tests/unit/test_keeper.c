/* The keeper of a lease, driven by hand: a channel that is only its inbox, its timers
 * and a count, and a server that is the test. */

#include "client/channel.h"
#include "client/clock.h"
#include "client/keeper.h"
#include "support/process.h"
#include "test.h"

static lks_channel channel;
static struct keeper keeper;
static int admitted, renewed, freed;
static bool is_full, is_away;

lks_code channel_admit(lks_channel *of, bool insist, lks_error *error)
{
    assert_ptr_equal(of, &channel);
    assert_false(insist);
    admitted += !is_full;
    return is_full ? lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "full") : LKS_OK;
}

void channel_dismiss(lks_channel *of)
{
    assert_ptr_equal(of, &channel);
    admitted--;
}

static lks_code renew(struct keeper *of, uint32_t timeout_ms, lks_error *error)
{
    assert_ptr_equal(of, &keeper);
    assert_true(timeout_ms >= 20);
    renewed++;
    return is_away ? lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "away") : LKS_OK;
}

static void count_free(struct keeper *of)
{
    assert_ptr_equal(of, &keeper);
    freed++;
}

static const keeper_ops ops = {.renew = renew, .free = count_free};

static int setup(void **state)
{
    admitted = renewed = freed = 0;
    is_full = is_away = false;
    memset(&channel, 0, sizeof channel);
    return inbox_init(&channel.inbox) && timers_init(&channel.timers, 4) ? 0 : -1;
}

static int teardown(void **state)
{
    timers_fini(&channel.timers);
    inbox_fini(&channel.inbox);
    return 0;
}

/* A turn of the driver. */
static void turn(void)
{
    for (inbox_item *item = inbox_take(&channel.inbox, 0), *next; item != NULL; item = next) {
        next = item->next;
        item->run(item);
    }
    timers_run(&channel.timers);
}

/* Begun so long ago that its first renewal is due; counts as lost in nine tenths of left_ms
 * from then. */
static void begin(uint32_t keep_ms, int64_t left_ms)
{
    assert_int_equal(keeper_init(&keeper, &channel, &ops, 30, keep_ms, NULL), LKS_OK);
    keeper_begin(&keeper, clock_now_ns() - 10 * CLOCK_NS_PER_MS, left_ms);
}

static void await_lost(void)
{
    while (!keeper_is_lost(&keeper))
        process_pause();
}

TEST(test_it_is_a_call_of_its_channel)
{
    begin(KEEPER_ALWAYS, 60000);
    assert_int_equal(admitted, 1);
    turn();
    assert_int_equal(renewed, 1);
    assert_int_equal(channel.timers.n, 0); /* until it is answered */
    keeper_answered(&keeper, KEEPER_RENEWED, 60000, NULL);
    assert_int_equal(channel.timers.n, 1);
    keeper_end(&keeper);
    assert_int_equal(freed, 0);
    turn();
    assert_int_equal(channel.timers.n, 0);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
}

TEST(test_what_is_not_kept_is_none)
{
    begin(0, 60000);
    assert_int_equal(admitted, 0);
    turn();
    assert_int_equal(renewed, 0);
    assert_false(keeper_is_lost(&keeper));
    keeper_end(&keeper);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
}

TEST(test_what_does_not_begin_is_ended)
{
    assert_int_equal(keeper_init(&keeper, &channel, &ops, 30, KEEPER_ALWAYS, NULL), LKS_OK);
    assert_int_equal(admitted, 1);
    keeper_end(&keeper);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
    is_full = true;
    assert_int_equal(keeper_init(&keeper, &channel, &ops, 30, KEEPER_ALWAYS, NULL), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(freed, 1);
}

/* An answer that comes after the loss does not undo it. */
TEST(test_what_was_lost_stays_lost)
{
    begin(KEEPER_ALWAYS, 200);
    turn();
    assert_int_equal(renewed, 1);
    await_lost();
    keeper_answered(&keeper, KEEPER_RENEWED, 60000, NULL);
    assert_true(keeper_is_lost(&keeper));
    assert_int_equal(channel.timers.n, 0);
    keeper_end(&keeper);
    turn();
    assert_int_equal(freed, 1);
}

/* One that is due when it is lost already is not renewed. */
TEST(test_what_is_lost_is_not_renewed)
{
    begin(KEEPER_ALWAYS, 1);
    assert_true(keeper_is_lost(&keeper));
    turn();
    assert_int_equal(renewed, 0);
    keeper_end(&keeper);
    turn();
    assert_int_equal(freed, 1);
}

/* The answer to a renewal that was under way when it ended: the last use of it. */
TEST(test_what_was_ended_is_not_renewed)
{
    begin(KEEPER_ALWAYS, 60000);
    turn();
    keeper_end(&keeper);
    turn();
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 0);
    keeper_answered(&keeper, KEEPER_RENEWED, 60000, NULL);
    assert_int_equal(channel.timers.n, 0);
    assert_int_equal(freed, 1);
}

/* Ended before the driver has heard that it began. */
TEST(test_it_may_end_at_once)
{
    begin(KEEPER_ALWAYS, 60000);
    keeper_end(&keeper);
    turn();
    assert_int_equal(renewed, 0);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
}

/* The lease of its last renewal is its last. */
TEST(test_it_is_kept_no_longer_than_told)
{
    begin(5, 60000);
    turn();
    assert_int_equal(renewed, 1);
    keeper_answered(&keeper, KEEPER_RENEWED, 60000, NULL);
    assert_int_equal(channel.timers.n, 0); /* the next would be 10 ms after it */
    assert_false(keeper_is_lost(&keeper));
    keeper_end(&keeper);
    turn();
    assert_int_equal(freed, 1);
}

/* What cannot even be sent is tried again, after a pause. */
TEST(test_a_renewal_that_cannot_start_is_repeated)
{
    begin(KEEPER_ALWAYS, 60000);
    is_away = true;
    uint64_t now = clock_now_ns();
    turn();
    assert_int_equal(renewed, 1);
    assert_int_equal(channel.timers.n, 1);
    assert_true(timers_next_ns(&channel.timers) >= now + 5 * CLOCK_NS_PER_MS);
    is_away = false;
    while (renewed == 1)
        turn();
    keeper_answered(&keeper, KEEPER_RENEWED, 60000, NULL);
    keeper_end(&keeper);
    turn();
    assert_int_equal(freed, 1);
}

/* A server's pause is kept to. */
TEST(test_a_server_may_ask_for_a_pause)
{
    const lks_error error = {.code = LKS_UNAVAILABLE, .retry_after_ms = 30000};

    begin(KEEPER_ALWAYS, 60000);
    turn();
    uint64_t now = clock_now_ns();
    keeper_answered(&keeper, KEEPER_UNKNOWN, 0, &error);
    assert_true(timers_next_ns(&channel.timers) >= now + 30000 * CLOCK_NS_PER_MS);
    assert_false(keeper_is_lost(&keeper));
    keeper_end(&keeper);
    turn();
    assert_int_equal(freed, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

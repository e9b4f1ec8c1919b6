/* A lease that is kept, driven by hand: a channel that is only its loop and a count, and a server that is the test. */
/* promise C6 */
/* promise C12 */
/* promise C25 */

#include "client/call/channel.h"
#include "base/clock.h"
#include "client/lease/lease.h"
#include "support/process.h"
#include "test.h"

static lks_channel channel;
static struct lease lease;
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

static lks_code renew(struct lease *of, uint32_t timeout_ms, lks_error *error)
{
    assert_ptr_equal(of, &lease);
    assert_true(timeout_ms >= 20);
    renewed++;
    return is_away ? lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "away") : LKS_OK;
}

static void count_free(struct lease *of)
{
    assert_ptr_equal(of, &lease);
    freed++;
}

static const lease_ops ops = {.renew = renew, .free = count_free};

static int setup(void **state)
{
    admitted = renewed = freed = 0;
    is_full = is_away = false;
    memset(&channel, 0, sizeof channel);
    return loop_init(&channel.loop) && heap_reserve(&channel.loop.timers, 4) ? 0 : -1;
}

static int teardown(void **state)
{
    loop_fini(&channel.loop);
    return 0;
}

/* A turn of the loop. */
static void turn(void)
{
    for (loop_task *task = loop_wait(&channel.loop, 0), *next; task; task = next) {
        next = task->next;
        task->run(task);
    }
    heap_run(&channel.loop.timers);
}

/* Begun so long ago that its first renewal is due; counts as lost in nine tenths of left_ms
 * from then. */
static void begin(uint32_t keep_ms, int64_t left_ms)
{
    assert_int_equal(lease_init(&lease, &channel, &ops, 30, keep_ms, NULL), LKS_OK);
    lease_begin(&lease, clock_now_ns() - 10 * CLOCK_NS_PER_MS, left_ms);
}

static void await_lost(void)
{
    while (!lease_is_lost(&lease))
        process_pause();
}

TEST(test_it_is_a_call_of_its_channel)
{
    begin(LEASE_ALWAYS, 60000);
    assert_int_equal(admitted, 1);
    turn();
    assert_int_equal(renewed, 1);
    assert_int_equal(channel.loop.timers.n, 0); /* until it is answered */
    lease_answered(&lease, LEASE_RENEWED, 60000, NULL);
    assert_int_equal(channel.loop.timers.n, 1);
    lease_end(&lease);
    assert_int_equal(freed, 0);
    turn();
    assert_int_equal(channel.loop.timers.n, 0);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
}

TEST(test_what_is_not_kept_is_none)
{
    begin(0, 60000);
    assert_int_equal(admitted, 0);
    turn();
    assert_int_equal(renewed, 0);
    assert_false(lease_is_lost(&lease));
    lease_end(&lease);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
}

TEST(test_what_does_not_begin_is_ended)
{
    assert_int_equal(lease_init(&lease, &channel, &ops, 30, LEASE_ALWAYS, NULL), LKS_OK);
    assert_int_equal(admitted, 1);
    lease_end(&lease);
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 1);
    is_full = true;
    assert_int_equal(lease_init(&lease, &channel, &ops, 30, LEASE_ALWAYS, NULL), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(freed, 1);
}

/* An answer that comes after the loss does not undo it. */
/* promise C7 */
TEST(test_what_was_lost_stays_lost)
{
    begin(LEASE_ALWAYS, 200);
    turn();
    assert_int_equal(renewed, 1);
    await_lost();
    lease_answered(&lease, LEASE_RENEWED, 60000, NULL);
    assert_true(lease_is_lost(&lease));
    assert_int_equal(channel.loop.timers.n, 0);
    lease_end(&lease);
    turn();
    assert_int_equal(freed, 1);
}

/* One that is due when it is lost already is not renewed. */
/* promise C7 */
TEST(test_what_is_lost_is_not_renewed)
{
    begin(LEASE_ALWAYS, 1);
    assert_true(lease_is_lost(&lease));
    turn();
    assert_int_equal(renewed, 0);
    lease_end(&lease);
    turn();
    assert_int_equal(freed, 1);
}

/* The answer to a renewal that was under way when it ended: the last use of it. */
TEST(test_what_was_ended_is_not_renewed)
{
    begin(LEASE_ALWAYS, 60000);
    turn();
    lease_end(&lease);
    turn();
    assert_int_equal(admitted, 0);
    assert_int_equal(freed, 0);
    lease_answered(&lease, LEASE_RENEWED, 60000, NULL);
    assert_int_equal(channel.loop.timers.n, 0);
    assert_int_equal(freed, 1);
}

/* Ended before the loop thread has heard that it began. */
TEST(test_it_may_end_at_once)
{
    begin(LEASE_ALWAYS, 60000);
    lease_end(&lease);
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
    lease_answered(&lease, LEASE_RENEWED, 60000, NULL);
    assert_int_equal(channel.loop.timers.n, 0); /* the next would be 10 ms after it */
    assert_false(lease_is_lost(&lease));
    lease_end(&lease);
    turn();
    assert_int_equal(freed, 1);
}

/* What cannot even be sent is tried again, after a pause. */
TEST(test_a_renewal_that_cannot_start_is_repeated)
{
    begin(LEASE_ALWAYS, 60000);
    is_away = true;
    uint64_t now = clock_now_ns();
    turn();
    assert_int_equal(renewed, 1);
    assert_int_equal(channel.loop.timers.n, 1);
    assert_true(heap_next_ns(&channel.loop.timers) >= now + 5 * CLOCK_NS_PER_MS);
    is_away = false;
    while (renewed == 1)
        turn();
    lease_answered(&lease, LEASE_RENEWED, 60000, NULL);
    lease_end(&lease);
    turn();
    assert_int_equal(freed, 1);
}

/* A server's pause is kept to. */
TEST(test_a_server_may_ask_for_a_pause)
{
    const lks_error error = {.code = LKS_UNAVAILABLE, .retry_after_ms = 30000};

    begin(LEASE_ALWAYS, 60000);
    turn();
    uint64_t now = clock_now_ns();
    lease_answered(&lease, LEASE_UNKNOWN, 0, &error);
    assert_true(heap_next_ns(&channel.loop.timers) >= now + 30000 * CLOCK_NS_PER_MS);
    assert_false(lease_is_lost(&lease));
    lease_end(&lease);
    turn();
    assert_int_equal(freed, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

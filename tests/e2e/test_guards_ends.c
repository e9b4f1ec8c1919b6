/* Calls with guards that end otherwise than by their handler's return: their callers go away, the host is closed, the
 * handler goes on after it returned. */

#include <pthread.h>
#include <signal.h>

#include "e2e/guards_scene.h"
#include "test.h"

/* A call that has item x, and whose handler waits for the gate. */
static lks_call *hold_x(const lks_rpc_method *method)
{
    buy_request request = order(o1, x_alone, 1);

    return start_and_hold(method, &request);
}

/* Item x held by nobody's handler. */
static lks_acquire_response *hold_x_by_hand(void)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    static char group[] = "items";

    target.name = item_x;
    request.group = group;
    request.n_targets = 1;
    request.targets = targets;
    request.lease_ms = LIMIT_MS;
    assert_int_equal(lks_lock_acquire(channel, &request, NULL, &response, NULL), LKS_OK);
    assert_int_equal(response->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    return response;
}

static void release_x_by_hand(lks_acquire_response *held)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = held->group;
    request.token = held->token;
    assert_int_equal(lks_lock_release(channel, &request, NULL, NULL, NULL), LKS_OK);
    lks_acquire_response_free(held);
}

/* All threads of the host in handlers that wait for the gate. */
static void occupy(lks_call *calls[THREADS])
{
    buy_request request = order(o1, NULL, 0);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    for (int i = 0; i < THREADS; i++)
        calls[i] = start(&guarded_free, &request);
    await(&shop.running, THREADS);
}

/* A call of order o2 whose guards have admitted it: it has item x, and no thread is free for it. */
static lks_call *admit_without_thread(lks_channel *way, const lks_rpc_method *method, lks_call *busy[THREADS])
{
    buy_request request = order(o2, x_alone, 1);
    lks_acquire_response *held = hold_x_by_hand();
    lks_call *call = start_on(way, method, &request, LIMIT_MS);

    await_waiters(item_x, 1);
    occupy(busy);
    release_x_by_hand(held);
    await_waiters(item_x, 0);
    await_holders(item_x, 1);
    return call;
}

static void let_all_end(lks_call *busy[THREADS])
{
    open_gate();
    for (int i = 0; i < THREADS; i++)
        expect_ended(busy[i]);
}

/* The caller is gone. */
static void leave(lks_channel *way, lks_call *call)
{
    lks_channel_close(way);
    lks_call_free(call);
}

/* ---- callers who go away ---------------------------------------------------------------------------- */

/* Who waits has no attempt yet: who asks next runs at once, as the first. */
/* promise GD14 */
TEST(a_caller_who_goes_away_in_the_queue_of_a_lock_leaves_it)
{
    buy_request second = order(o2, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_call *first = hold_x(&guarded_queue), *waits = start_on(other, &guarded_buy, &second, LIMIT_MS);

    await_waiters(item_x, 1);
    leave(other, waits);
    await_waiters(item_x, 0);
    let_end(first);
    assert_int_equal(n_effects("o-2"), 0);
    expect_attempt(&guarded_buy, &second, 1);
}

/* An Enter that waits may still begin an attempt when its caller is gone: that attempt ends at once. */
/* promise GD14: a caller that disconnects leaves queues; attempts that begin for it are given back */
TEST(the_attempt_that_begins_for_a_caller_who_went_away_is_given_back)
{
    buy_request request = order(o1, x_alone, 1), after = order(o2, NULL, 0);
    lks_channel *other = scene_connect();
    lks_error error;

    request.code = LKS_ABORTED;
    lks_call *first = start_and_hold(&guarded_buy, &request),
             *waits = start_on(other, &guarded_buy, &request, LIMIT_MS);
    /* Behind it on its connection, and answered by the only thread that is left. */
    expect_ended(start_on(other, &guarded_once, &after, LIMIT_MS));
    leave(other, waits);
    open_gate();
    expect_failed(first, LKS_ABORTED, LKS_APPLIED_NO, "order_id: not now");
    assert_null(buy_within(&guarded_buy, &request, LIMIT_MS / 4, &error));
    expect_error(&error, LKS_ABORTED, LKS_APPLIED_NO, "order_id: not now");
}

/* promise GD15 */
TEST(a_caller_who_goes_away_before_a_thread_is_free_has_its_locks_released)
{
    buy_request second = order(o2, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_call *busy[THREADS];

    leave(other, admit_without_thread(other, &guarded_buy, busy));
    await_holders(item_x, 0);
    let_all_end(busy);
    assert_int_equal(n_effects("o-2"), 0);
    expect_attempt(&guarded_buy, &second, 2);
}

/* The effect happens, and a repeat is told so. */
TEST(a_handler_whose_caller_goes_away_ends_and_its_result_is_stored)
{
    buy_request request = order(o1, x_alone, 1);
    lks_channel *other = scene_connect();

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    lks_call *call = start_on(other, &guarded_buy, &request, LIMIT_MS);
    await(&shop.running, 1);
    leave(other, call);
    open_gate();
    await_holders(item_x, 0);
    expect_attempt(&guarded_buy, &request, 1);
    assert_int_equal(n_effects(NULL), 1);
}

/* Nobody renewed what it held while it waited for a thread: others may hold it by now. */
/* promise GD15: a call whose caller disconnects, or that a drain refuses after its admission, holds nothing; a call
 * that lost its locks before it runs does not run */
TEST(a_call_whose_locks_were_lost_before_a_thread_was_free_does_not_run)
{
    lks_call *busy[THREADS], *waits = admit_without_thread(shop_way, &guarded_short, busy);

    kill(server_fixture_pid(server), SIGSTOP);
    for (long long until = process_now_ms() + SHORT_MS; process_now_ms() < until;)
        process_pause();
    let_all_end(busy);
    expect_failed(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO,
                  "the lock or attempt of its guards was lost before the call ran");
    kill(server_fixture_pid(server), SIGCONT);
    assert_int_equal(n_effects("o-2"), 0);
}

/* ---- the end of a host --------------------------------------------------------------------------------- */

static pthread_t closing;
static uint32_t drain_ms;

static void *close_host(void *arg)
{
    lks_host_close(host, drain_ms);
    return NULL;
}

static void start_closing(uint32_t after_ms)
{
    drain_ms = after_ms;
    assert_int_equal(pthread_create(&closing, NULL, close_host, NULL), 0);
}

static void await_closed(void)
{
    pthread_join(closing, NULL);
    host = NULL;
    assert_int_equal(holders(item_x), 0);
}

TEST(at_the_end_of_a_drain_calls_in_guards_are_refused_and_what_runs_is_waited_for)
{
    buy_request second = order(o2, x_alone, 1);
    lks_call *first = hold_x(&guarded_buy), *waits = start(&guarded_queue, &second);

    await_waiters(item_x, 1);
    start_closing(0);
    expect_failed(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    await_waiters(item_x, 0);
    assert_int_equal(holders(item_x), 1);
    let_end(first);
    await_closed();
    assert_int_equal(n_effects("o-1 1"), 1);
}

/* promise GD15 */
TEST(at_the_end_of_a_drain_calls_that_guards_admitted_are_refused_and_hold_nothing)
{
    lks_call *busy[THREADS], *waits = admit_without_thread(shop_way, &guarded_buy, busy);

    start_closing(0);
    expect_failed(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    assert_int_equal(holders(item_x), 0);
    let_all_end(busy);
    await_closed();
    assert_int_equal(n_effects("o-2"), 0);
}

TEST(within_a_drain_calls_in_guards_go_on)
{
    buy_request second = order(o2, x_alone, 1);
    lks_call *first = hold_x(&guarded_queue), *waits = start(&guarded_queue, &second);

    await_waiters(item_x, 1);
    start_closing(LIMIT_MS);
    let_end(first);
    expect_ended(waits);
    await_closed();
    assert_int_equal(n_effects(NULL), 2);
}

/* ---- handlers that go on after they returned -------------------------------------------------------------- */

/* promise GD18 */
TEST(calls_whose_handlers_go_on_keep_no_thread)
{
    enum { CALLS = 4 * THREADS };
    buy_request after = order(o2, NULL, 0);
    lks_call *calls[CALLS];
    char ids[CALLS][8];

    for (int i = 0; i < CALLS; i++) {
        snprintf(ids[i], sizeof ids[i], "d-%d", i);
        buy_request request = order(ids[i], NULL, 0);
        request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
        calls[i] = start(i % 2 == 0 ? &guarded_free : &guarded_once, &request);
    }
    await(&shop.running, CALLS);
    expect_bought(&guarded_free, &after);
    expect_bought(&guarded_once, &after);
    open_gate();
    for (int i = 0; i < CALLS; i++)
        expect_ended(calls[i]);
    assert_int_equal(n_effects("d-"), CALLS);
}

TEST(a_deferred_call_keeps_its_locks_until_it_is_finished)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *call = start(&guarded_buy, &request);
    await(&shop.running, 1);
    assert_int_equal(holders(item_x), 1);
    let_end(call);
    assert_int_equal(holders(item_x), 0);
    expect_bought(&guarded_buy, &request);
    assert_int_equal(n_effects(NULL), 1);
}

/* promise GD18 */
TEST(a_deferred_call_may_be_finished_before_its_handler_returns)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_END;
    expect_bought(&guarded_free, &request);
    expect_bought(&guarded_buy, &request);
    assert_int_equal(holders(item_x), 0);
}

/* promise GD18: a deferred call ends by lks_host_finish, before or after its handler returns; it occupies no thread,
 * and the host waits for it */
TEST(a_deferred_call_whose_work_cannot_be_started_is_finished_with_the_error)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_END;
    request.code = LKS_RESOURCE_EXHAUSTED;
    expect_failed(start(&guarded_free, &request), LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot be started");
    expect_failed(start(&guarded_buy, &request), LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot be started");
    assert_int_equal(holders(item_x), 0);
    lks_host_close(host, 0); /* nothing keeps it open */
    host = NULL;
}

/* promise GD19: a deferred call is informed once that its caller is gone or its deadline over */
TEST(a_deferred_call_is_told_that_its_caller_is_gone)
{
    buy_request request = order(o1, x_alone, 1);
    lks_channel *other = scene_connect();

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *call = start_on(other, &guarded_buy, &request, LIMIT_MS);
    await(&shop.running, 1);
    assert_int_equal(atomic_load(&shop.cancelled), 0);
    leave(other, call);
    await(&shop.cancelled, 1);
    await_holders(item_x, 0);
    assert_int_equal(n_effects(NULL), 0);
}

/* promise GD19 */
TEST(a_deferred_call_is_told_that_its_deadline_is_over)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *late = start_on(shop_way, &guarded_free, &request, LIMIT_MS);
    lks_call *call = start_on(shop_way, &guarded_buy, &request, AWAY_MS);
    await(&shop.running, 2);
    await(&shop.cancelled, 1);
    await_holders(item_x, 0);
    assert_int_equal(lks_call_wait(call, NULL), LKS_DEADLINE_EXCEEDED);
    lks_call_free(call);
    let_end(late);
    assert_int_equal(atomic_load(&shop.cancelled), 1);
    assert_int_equal(n_effects(NULL), 1);
}

/* promise GD18 */
TEST(a_host_waits_for_its_deferred_calls)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *free_one = start(&guarded_free, &request), *call = start(&guarded_buy, &request);
    await(&shop.running, 2);
    start_closing(LIMIT_MS);
    let_end(call);
    expect_ended(free_one);
    await_closed();
}

/* ---- opening ------------------------------------------------------------------------------------------------ */

/* promise GD17: a host without a channel takes no guard */
TEST(a_host_without_a_channel_takes_no_service_with_a_guard)
{
    const lks_rpc_service service = guarded_service(&shop);
    lks_host *other;
    lks_error error;

    assert_int_equal(lks_host_open(NULL, &other, &error), LKS_OK);
    lks_host_add(other, &service, &error);
    expect_error(&error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                 "/lockstock.test.GuardedShop/Buy: has a guard, but options.guards is NULL");
    lks_host_close(other, 0);
}

TEST_MAIN(.setup = scene_setup, .teardown = scene_teardown)

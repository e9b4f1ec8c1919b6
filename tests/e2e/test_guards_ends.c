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

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    lks_call *call = start(method, &request);
    await(&shop.running, 1);
    return call;
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

static void expect_end(lks_call *call, lks_code code, lks_applied applied, const char *message)
{
    lks_error error;

    assert_null(ended(call, &error));
    expect_error(&error, code, applied, message);
    lks_call_free(call);
}

/* ---- callers who go away ---------------------------------------------------------------------------- */

/* promise GD14 */
TEST(a_caller_who_goes_away_in_the_queue_of_a_lock_leaves_it)
{
    buy_request second = order(o2, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_call *first = hold_x(&guarded_queue), *waits = start_on(other, &guarded_queue, &second, LIMIT_MS);

    await_waiters(item_x, 1);
    lks_channel_close(other);
    lks_call_free(waits);
    await_waiters(item_x, 0);
    let_end(first);
    assert_int_equal(n_effects("o-2"), 0);
}

/* Who waits has no attempt yet: who asks next runs at once, as the first. */
/* promise GD14 */
TEST(a_caller_who_goes_away_in_the_queue_of_a_lock_leaves_no_attempt)
{
    buy_request second = order(o2, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_error error;
    lks_call *first = hold_x(&guarded_queue), *waits = start_on(other, &guarded_buy, &second, LIMIT_MS);

    await_waiters(item_x, 1);
    lks_channel_close(other);
    lks_call_free(waits);
    await_waiters(item_x, 0);
    let_end(first);
    buy_response *response = buy_within(&guarded_buy, &second, LIMIT_MS / 4, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    assert_int_equal(response->attempt, 1);
    free_response(response);
}

/* An Enter that waits may still begin an attempt when its caller is gone: that attempt ends at once. */
static void expect_given_back(const lks_rpc_method *method)
{
    buy_request request = order(o1, x_alone, 1), after = order(o2, NULL, 0);
    lks_channel *other = scene_connect();
    lks_error error;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    request.code = LKS_ABORTED;
    lks_call *first = start(method, &request);
    await(&shop.running, 1);
    lks_call *waits = start_on(other, method, &request, LIMIT_MS);
    /* Behind it on its connection, and answered by the only thread that is left. */
    expect_ended(start_on(other, &guarded_once, &after, LIMIT_MS));
    lks_channel_close(other);
    lks_call_free(waits);
    open_gate();
    expect_end(first, LKS_ABORTED, LKS_APPLIED_NO, "order_id: not now");
    assert_null(buy_within(method, &request, LIMIT_MS / 4, &error));
    expect_error(&error, LKS_ABORTED, LKS_APPLIED_NO, "order_id: not now");
}

/* promise GD14 */
TEST(the_attempt_that_begins_for_a_caller_who_went_away_is_given_back)
{
    expect_given_back(&guarded_once);
}

/* promise GD14: a caller that disconnects leaves queues; attempts that begin for it are given back */
TEST(the_attempt_that_begins_before_locks_for_a_caller_who_went_away_is_given_back)
{
    expect_given_back(&guarded_buy);
}

/* promise GD15 */
TEST(a_caller_who_goes_away_before_a_thread_is_free_has_its_locks_released)
{
    buy_request second = order(o2, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_acquire_response *held = hold_x_by_hand();
    lks_call *busy[THREADS], *waits = start_on(other, &guarded_buy, &second, LIMIT_MS);
    lks_error error;

    await_waiters(item_x, 1);
    occupy(busy);
    release_x_by_hand(held);
    await_waiters(item_x, 0);
    await_holders(item_x, 1);
    lks_channel_close(other);
    lks_call_free(waits);
    await_holders(item_x, 0);
    open_gate();
    for (int i = 0; i < THREADS; i++)
        expect_ended(busy[i]);
    assert_int_equal(n_effects("o-2"), 0);
    buy_response *response = buy_within(&guarded_buy, &second, LIMIT_MS / 4, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    assert_int_equal(response->attempt, 2);
    free_response(response);
}

/* The effect happens, and a repeat is told so. */
TEST(a_handler_whose_caller_goes_away_ends_and_its_result_is_stored)
{
    buy_request request = order(o1, x_alone, 1);
    lks_channel *other = scene_connect();
    lks_error error;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    lks_call *call = start_on(other, &guarded_buy, &request, LIMIT_MS);
    await(&shop.running, 1);
    lks_channel_close(other);
    lks_call_free(call);
    open_gate();
    await_holders(item_x, 0);
    buy_response *response = buy(&guarded_buy, &request, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    assert_int_equal(response->attempt, 1);
    free_response(response);
    assert_int_equal(n_effects(NULL), 1);
}

/* Nobody renewed what it held while it waited for a thread: others may hold it by now. */
/* promise GD15: a call whose caller disconnects, or that a drain refuses after its admission, holds nothing; a call
 * that lost its locks before it runs does not run */
TEST(a_call_whose_locks_were_lost_before_a_thread_was_free_does_not_run)
{
    buy_request second = order(o2, x_alone, 1);
    lks_acquire_response *held = hold_x_by_hand();
    lks_call *busy[THREADS], *waits = start(&guarded_short, &second);

    await_waiters(item_x, 1);
    occupy(busy);
    release_x_by_hand(held);
    await_waiters(item_x, 0);
    await_holders(item_x, 1);
    kill(server_fixture_pid(server), SIGSTOP);
    for (long long until = process_now_ms() + SHORT_MS; process_now_ms() < until;)
        process_pause();
    open_gate();
    for (int i = 0; i < THREADS; i++)
        expect_ended(busy[i]);
    expect_end(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO,
               "the lock or attempt of its guards was lost before the call ran");
    kill(server_fixture_pid(server), SIGCONT);
    assert_int_equal(n_effects("o-2"), 0);
}

/* ---- the end of a host --------------------------------------------------------------------------------- */

static void *close_host(void *arg)
{
    lks_host_close(host, *(const uint32_t *)arg);
    return NULL;
}

TEST(at_the_end_of_a_drain_calls_in_guards_are_refused_and_what_runs_is_waited_for)
{
    buy_request second = order(o2, x_alone, 1);
    uint32_t drain_ms = 0;
    pthread_t thread;
    lks_call *first = hold_x(&guarded_buy), *waits = start(&guarded_queue, &second);

    await_waiters(item_x, 1);
    assert_int_equal(pthread_create(&thread, NULL, close_host, &drain_ms), 0);
    expect_end(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    await_waiters(item_x, 0);
    assert_int_equal(holders(item_x), 1);
    let_end(first);
    pthread_join(thread, NULL);
    host = NULL;
    assert_int_equal(holders(item_x), 0);
    assert_int_equal(n_effects("o-1 1"), 1);
}

/* promise GD15 */
TEST(at_the_end_of_a_drain_calls_that_guards_admitted_are_refused_and_hold_nothing)
{
    buy_request second = order(o2, x_alone, 1);
    uint32_t drain_ms = 0;
    pthread_t thread;
    lks_acquire_response *held = hold_x_by_hand();
    lks_call *busy[THREADS], *waits = start(&guarded_buy, &second);

    await_waiters(item_x, 1);
    occupy(busy);
    release_x_by_hand(held);
    await_waiters(item_x, 0);
    await_holders(item_x, 1);
    assert_int_equal(pthread_create(&thread, NULL, close_host, &drain_ms), 0);
    expect_end(waits, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    assert_int_equal(holders(item_x), 0);
    open_gate();
    for (int i = 0; i < THREADS; i++)
        expect_ended(busy[i]);
    pthread_join(thread, NULL);
    host = NULL;
    assert_int_equal(n_effects("o-2"), 0);
}

TEST(within_a_drain_calls_in_guards_go_on)
{
    buy_request second = order(o2, x_alone, 1);
    uint32_t drain_ms = LIMIT_MS;
    pthread_t thread;
    lks_call *first = hold_x(&guarded_queue), *waits = start(&guarded_queue, &second);

    await_waiters(item_x, 1);
    assert_int_equal(pthread_create(&thread, NULL, close_host, &drain_ms), 0);
    let_end(first);
    expect_ended(waits);
    pthread_join(thread, NULL);
    host = NULL;
    assert_int_equal(n_effects(NULL), 2);
}

/* ---- handlers that go on after they returned -------------------------------------------------------------- */

static void expect_deferred(const lks_rpc_method *method)
{
    enum { CALLS = 4 * THREADS };
    buy_request after = order(o2, NULL, 0);
    lks_call *calls[CALLS];
    char ids[CALLS][8];

    for (int i = 0; i < CALLS; i++) {
        snprintf(ids[i], sizeof ids[i], "d-%d", i);
        buy_request request = order(ids[i], NULL, 0);
        request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
        calls[i] = start(method, &request);
    }
    await(&shop.running, CALLS);
    expect_bought(method, &after);
    open_gate();
    for (int i = 0; i < CALLS; i++)
        expect_ended(calls[i]);
    assert_int_equal(n_effects("d-"), CALLS);
}

/* promise GD18 */
TEST(calls_whose_handlers_go_on_keep_no_thread)
{
    expect_deferred(&guarded_free);
}

TEST(calls_with_guards_whose_handlers_go_on_keep_no_thread)
{
    expect_deferred(&guarded_once);
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
    lks_error error;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_END;
    request.code = LKS_RESOURCE_EXHAUSTED;
    assert_null(buy(&guarded_free, &request, &error));
    expect_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot be started");
    assert_null(buy(&guarded_buy, &request, &error));
    expect_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot be started");
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
    lks_channel_close(other);
    lks_call_free(call);
    await(&shop.cancelled, 1);
    await_holders(item_x, 0);
    assert_int_equal(n_effects(NULL), 0);
}

/* promise GD19 */
TEST(a_deferred_call_is_told_that_its_deadline_is_over)
{
    buy_request request = order(o1, x_alone, 1);
    lks_error error;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *late = start_on(shop_way, &guarded_free, &request, LIMIT_MS);
    lks_call *call = start_on(shop_way, &guarded_buy, &request, AWAY_MS);
    await(&shop.running, 2);
    await(&shop.cancelled, 1);
    await_holders(item_x, 0);
    assert_null(ended(call, &error));
    lks_call_free(call);
    let_end(late);
    assert_int_equal(atomic_load(&shop.cancelled), 1);
    assert_int_equal(n_effects(NULL), 1);
}

/* promise GD18 */
TEST(a_host_waits_for_its_deferred_calls)
{
    buy_request request = order(o1, x_alone, 1);
    uint32_t drain_ms = LIMIT_MS;
    pthread_t thread;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_DEFER;
    lks_call *free_one = start(&guarded_free, &request), *call = start(&guarded_buy, &request);
    await(&shop.running, 2);
    assert_int_equal(pthread_create(&thread, NULL, close_host, &drain_ms), 0);
    let_end(call);
    expect_ended(free_one);
    pthread_join(thread, NULL);
    host = NULL;
    assert_int_equal(holders(item_x), 0);
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

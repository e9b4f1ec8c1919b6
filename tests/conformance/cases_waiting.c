/* Calls that wait, and servers that stop. */
#include "conformance/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const char holder[] = "token-of-who-holds-it", waiting[] = "token-of-who-waits-for-it";

static void *hold(const char *name)
{
    void *caller = suite_open(here.server);

    suite_expect_acquired(suite_await(caller, suite_acquire(caller, name, holder, 0, 0)), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    return caller;
}

TEST(waiter_is_answered_at_its_deadline)
{
    void *owner = hold("bridge"), *caller = suite_open(here.server);
    suite_expect_acquired(suite_await(caller, suite_acquire(caller, "bridge", waiting, 200, PATIENCE_MS)),
                          LKS_ACQUIRE_OUTCOME_TIMED_OUT);
    /* The call's own deadline ends the wait too. On a slow machine it can end before the wait begins. */
    outcome got = {0};
    uint32_t deadline_ms = 300;
    do {
        free(got.payload);
        got =
            suite_await(caller, suite_acquire(caller, "bridge", "token-of-a-second-waiter", PATIENCE_MS, deadline_ms));
        deadline_ms *= 2;
    } while (got.code == LKS_DEADLINE_EXCEEDED && deadline_ms < PATIENCE_MS);
    suite_expect_acquired(got, LKS_ACQUIRE_OUTCOME_TIMED_OUT);
    suite_until_waiters(owner, "bridge", 0);
    suite_release(owner, "bridge", holder);
    suite_close(caller);
    suite_close(owner);
}

/* Its place in the queue is free at once, not when its time is up. */
TEST(a_wait_ends_with_its_connection)
{
    void *owner = hold("ferry"), *caller = suite_open(here.server);
    (void)suite_acquire(caller, "ferry", waiting, 10 * PATIENCE_MS, 10 * PATIENCE_MS);
    suite_until_waiters(owner, "ferry", 1);
    suite_close(caller);
    suite_until_waiters(owner, "ferry", 0);
    suite_release(owner, "ferry", holder);
    suite_close(owner);
}

TEST(a_cancelled_wait_is_withdrawn)
{
    void *owner, *caller;
    if (!here.wire->driver->cancel)
        skip(); /* SP cancels by closing */
    owner = hold("tunnel");
    caller = suite_open(here.server);
    unsigned call = suite_acquire(caller, "tunnel", waiting, 10 * PATIENCE_MS, 10 * PATIENCE_MS);
    suite_until_waiters(owner, "tunnel", 1);
    here.wire->driver->cancel(caller, call);
    suite_until_waiters(owner, "tunnel", 0);
    suite_put(caller, "pear", 7); /* the connection still works */
    suite_release(owner, "tunnel", holder);
    suite_close(caller);
    suite_close(owner);
}

static void crowd_in(void *caller, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        char token[32];
        snprintf(token, sizeof token, "token-of-the-crowd-%04d", i);
        (void)suite_acquire(caller, "needle", token, 10 * PATIENCE_MS, 10 * PATIENCE_MS);
    }
}

/* More calls wait than may run. The calls that they wait for, and all others, are still served,
 * also on the connections of the waiting calls. */
/* promise K1 */
TEST(waiters_do_not_block_running_calls)
{
    enum { HALF = WAITING / 2 }; /* more than may run at a time */
    void *owner = hold("needle"), *first = suite_open(here.server), *second = suite_open(here.server);
    outcome got = {0};
    suite_put(owner, "pear", 7);
    crowd_in(first, 0, HALF);
    suite_until_waiters(owner, "needle", HALF);
    crowd_in(second, HALF, HALF);
    suite_until_waiters(owner, "needle", WAITING);
    suite_expect_available(suite_get(owner, "pear"), "pear", 7);
    suite_expect_available(suite_get(first, "pear"), "pear", 7);
    crowd_in(second, WAITING, 1); /* one too many that waits */
    assert_true(here.wire->driver->await(second, &got));
    assert_true(got.says_when);
    suite_expect(got, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "");
    suite_release(second, "needle", holder); /* the next of them has it */
    suite_until_waiters(owner, "needle", WAITING - 1);
    suite_close(first);
    suite_close(second);
    suite_until_waiters(owner, "needle", 0);
    suite_close(owner);
}

/* A call that needs no store: when it is answered, those before it were taken. */
static outcome probe(void *caller)
{
    unsigned call = here.wire->driver->start(caller, &(call_spec){.method = LOCK "Ask"});

    assert_int_not_equal(call, 0);
    return suite_await(caller, call);
}

TEST(a_stopping_server_answers_and_refuses)
{
    server_fixture *server = suite_server(NULL);
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    int status = -1;
    assert_non_null(server);
    void *caller = suite_open(server), *other = suite_open(server);
    suite_put(caller, "pear", 7);
    suite_expect(probe(other), LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "");
    kill(redis_fixture_pid(here.redis), SIGSTOP); /* the store answers later */
    get.group = get.sku = "pear";
    unsigned call = suite_start(caller, STOCK "GetItem", &get, PATIENCE_MS);
    for (int i = 0; i < 3; i++)
        suite_expect(probe(caller), LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "");
    process_signal(server_fixture_process(server), SIGTERM);
    bool drains = process_wait_line(server_fixture_process(server), "event=draining", NULL, 0, PATIENCE_MS);
    outcome refused;
    do {
        refused = probe(other);
    } while (drains && refused.code == LKS_UNIMPLEMENTED); /* it came while the signal was being handled */
    kill(redis_fixture_pid(here.redis), SIGCONT);
    assert_true(drains);
    suite_expect(refused, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    suite_expect_available(suite_await(caller, call), "pear", 7);
    suite_close(caller);
    suite_close(other);
    assert_true(process_wait(server_fixture_process(server), PATIENCE_MS, &status));
    assert_int_equal(status, 0);
    server_fixture_free(server);
}

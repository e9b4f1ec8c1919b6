/* Lost, refused and silent connections: which calls are sent again, which are
 * answered with NO, and which with MAYBE. */
#include <unistd.h>
#include <uv.h>

#include "store_scene.h"
#include "test.h"

/* ---- lost connections ---------------------------------------------------------- */

/* promise T4 */
TEST(a_lost_connection_repeats_what_may_be_repeated)
{
    here.script[0] = fake_silent;
    here.script[1] = fake_close;
    outcome *repeatable = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
    outcome *single = store_driver_submit(here.d, &(driver_call){.function = "echo"});
    store_driver_wait(here.d, single);
    assert_outcome(single, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    store_driver_wait(here.d, repeatable);
    assert_outcome(repeatable, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_connections(here.fake), 2);
    assert_int_equal(store_driver_ups(here.d), 2);
}

/* promise T4 */
TEST(what_was_not_sent_is_kept_for_the_next_connection)
{
    fake_redis_hang_up(here.fake);
    store_driver_wait_ready(here.d, false);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
}

/* Redis reads none of both. */
static void submit_more_than_the_kernel_takes(outcome **large, outcome **behind)
{
    static char big[8 * 1024 * 1024];

    memset(big, 'x', sizeof big - 1);
    *large = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {big}});
    *behind = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {"small"}});
    fake_redis_turn_deaf(here.fake);
    for (int i = 0; i < 10; i++)
        uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
}

/* A call behind one that fills the socket's buffers cannot have been sent. */
/* promise T4 */
TEST(bytes_that_the_kernel_did_not_take_were_not_sent)
{
    outcome *large, *behind;

    submit_more_than_the_kernel_takes(&large, &behind);
    fake_redis_hang_up(here.fake);
    store_driver_wait(here.d, large);
    assert_outcome(large, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    store_driver_wait(here.d, behind);
    assert_outcome(behind, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_calls(here.fake), 1);
}

/* Such a call waits for a connection as long as any other: a moment. */
/* promise T3: connection refused, or no connection: UNAVAILABLE, NO, after a moment */
TEST(an_unsent_call_is_refused_when_redis_stays_away)
{
    outcome *large, *behind;

    submit_more_than_the_kernel_takes(&large, &behind);
    scene_answer("GET", "-LOADING Redis is loading the dataset in memory\r\n");
    fake_redis_hang_up(here.fake);
    store_driver_wait(here.d, behind);
    assert_outcome(behind, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_outcome(large, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
}

/* promise T4 */
TEST(a_refusal_after_a_lost_sending_is_maybe)
{
    here.script[0] = fake_close;
    here.script[1] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
    assert_outcome(o, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE);
}

/* promise T4: reply lost after sending: sent again within the deadline when the call may be repeated, else
 * UNAVAILABLE, MAYBE */
TEST(a_repeatable_call_ends_with_its_deadline_when_redis_stays_away)
{
    here.script[0] = fake_close;
    scene_answer("GET", fake_silent); /* no greeting passes any more */
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true, .timeout_ms = 1500});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
}

/* promise T3 */
TEST(without_a_connection_a_call_waits_a_moment_then_is_refused)
{
    scene_answer("GET", "-LOADING Redis is loading the dataset in memory\r\n");
    fake_redis_hang_up(here.fake);
    store_driver_wait_ready(here.d, false);
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "echo"});
    outcome *soon = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = 20});
    store_driver_wait(here.d, soon);
    assert_outcome(soon, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(o->message, "the store is loading its data");
    assert_true(o->retry_after_ms > 0);

    scene_answer("GET", NULL);
    outcome *later = store_driver_submit(here.d, &(driver_call){.function = "echo"});
    store_driver_wait(here.d, later);
    store_driver_wait_ready(here.d, true);
}

/* promise T13 */
TEST(silence_is_noticed)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 100});
    here.script[0] = fake_silent;
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_connections(here.fake), 2);
}

/* Calls are refused with NO, and the connection stays, for earlier ones may still be answered. */
/* promise T13 */
TEST(a_store_that_does_not_answer_is_not_ready)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 600000, .role_check_ms = 100});
    fake_redis_turn_deaf(here.fake);
    store_driver_wait_ready(here.d, false);
    assert_string_equal(store_driver_reason(here.d), "the store does not answer");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_SILENT);
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(here.fake), 1);
}

TEST(a_quiet_connection_is_tried)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 40});
    scene_answer("PING", fake_silent);
    store_driver_until(here.d, scene_reconnected, &here);
}

/* promise T3 */
/* promise F8 */
TEST(a_refused_connection_is_told_and_tried_again)
{
    store_driver *d = store_driver_new();
    const store_options options = {.url = "redis://127.0.0.1:1"};

    assert_int_equal(store_driver_open(d, &options, NULL), LKS_OK);
    outcome *o = store_driver_call(d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(store_driver_reason(d), "the store cannot be reached: Connection refused");
    assert_int_equal(store_driver_fault(d), LKS_REASON_STORE_UNREACHABLE);
    store_driver_free(d);
}

/* "localhost" may have two addresses, of which one refuses. */
TEST(a_name_is_looked_up_and_each_address_tried)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t i = 0; i < 2; i++) {
        store_driver *d = store_driver_new();
        fake_redis *fake = fake_redis_start(store_driver_loop(d), NULL, NULL);
        char url[64];
        snprintf(url, sizeof url, "redis://%s:%u", hosts[i], fake_redis_listen_tcp(fake));
        const store_options options = {.url = url};
        assert_int_equal(store_driver_open(d, &options, NULL), LKS_OK);
        for (int round = 0; round < 3; round++) {
            assert_outcome(store_driver_call(d, &(driver_call){.function = "echo", .repeatable = true}), LKS_OK,
                           LKS_APPLIED_YES);
            fake_redis_hang_up(fake);
            store_driver_wait_ready(d, false);
        }
        store_driver_close_store(d);
        fake_redis_stop(fake);
        store_driver_free(d);
    }
}

TEST(a_name_that_does_not_exist_is_told)
{
    store_driver *d = store_driver_new();
    const store_options options = {.url = "redis://nonesuch.invalid"};

    assert_int_equal(store_driver_open(d, &options, NULL), LKS_OK);
    outcome *o = store_driver_call(d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    store_driver_free(d);
}

TEST(a_thousand_reconnects_leave_no_descriptor)
{
    unsigned before;
    uv_loop_t *loop;

    loop = store_driver_loop(here.d);
    assert_int_equal(store_driver_call(here.d, &(driver_call){.function = "echo"})->code, LKS_OK);
    int lowest = dup(0);
    close(lowest);
    before = fake_redis_connections(here.fake);
    while (fake_redis_connections(here.fake) < before + 1000) {
        /* A good reply in between, so that the pauses stay short. */
        outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
        assert_int_equal(o->code, LKS_OK);
        fake_redis_hang_up(here.fake);
        store_driver_wait_ready(here.d, false);
        store_driver_wait_ready(here.d, true);
    }
    uv_run(loop, UV_RUN_NOWAIT);
    int now = dup(0);
    close(now);
    assert_int_equal(now, lowest);
}

TEST_MAIN(.setup = scene_start, .teardown = scene_end)

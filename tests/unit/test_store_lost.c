/* Lost, refused and silent connections: which calls are sent again, which are
 * answered with NO, and which with MAYBE. */
#include <unistd.h>
#include <uv.h>

#include "store_scene.h"
#include "test.h"

/* ---- lost connections ---------------------------------------------------------- */

/* promise T4 */
TEST(a_lost_connection_repeats_repeatable_calls)
{
    scene_reply(fake_silent, 1);
    scene_reply(fake_close, 1);
    outcome *repeatable = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
    outcome *single = scene_submit();
    store_driver_wait(here.d, single);
    assert_outcome(single, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    store_driver_wait(here.d, repeatable);
    assert_outcome(repeatable, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_connections(here.fake), 2);
    assert_int_equal(store_driver_ups(here.d), 2);
}

/* Redis reads none of both. */
static void submit_more_than_the_kernel_takes(outcome **large, outcome **behind)
{
    static char big[8 * 1024 * 1024];

    memset(big, 'x', sizeof big - 1);
    *large = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {big}});
    *behind = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {"small"}});
    fake_redis_turn_deaf(here.fake, false);
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
    assert_int_equal(scene_seen("FCALL"), 1);
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
    scene_reply(fake_close, 1);
    scene_reply("-OOM command not allowed when used memory > 'maxmemory'.\r\n", 1);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
    assert_outcome(o, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE);
}

/* promise T4: reply lost after sending: sent again within the deadline when the call may be repeated, else
 * UNAVAILABLE, MAYBE */
TEST(a_repeatable_call_ends_with_its_deadline_when_redis_stays_away)
{
    scene_reply(fake_close, 1);
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
    outcome *o = scene_submit();
    outcome *soon = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = 20});
    store_driver_wait(here.d, soon);
    assert_outcome(soon, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(o->message, "the store is loading its data");
    assert_true(o->retry_after_ms > 0);

    scene_answer("GET", NULL);
    scene_echo();
    store_driver_wait_ready(here.d, true);
}

/* promise T13 */
TEST(silence_is_noticed)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 100});
    scene_reply(fake_silent, 1);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_connections(here.fake), 2);
}

/* Calls are refused with NO, and the connection stays, for earlier ones may still be answered. */
/* promise T13 */
TEST(a_store_that_does_not_answer_is_not_ready)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 600000, .role_check_ms = 100});
    fake_redis_turn_deaf(here.fake, false);
    store_driver_wait_ready(here.d, false);
    assert_string_equal(store_driver_reason(here.d), "the store does not answer");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_SILENT);
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(here.fake), 1);
}

TEST(a_quiet_connection_is_tried)
{
    scene_restart_with(&(store_options){.silence_timeout_ms = 40});
    scene_answer("PING", fake_silent);
    scene_until_connections(2);
}

/* promise T3 */
/* promise F8 */
TEST(refused_connection_is_reported_and_retried)
{
    scene_begin();
    scene_open(&(store_options){.url = "redis://127.0.0.1:1"});
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(store_driver_reason(here.d), "the store cannot be reached: Connection refused");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_UNREACHABLE);
}

/* "localhost" may have two addresses, of which one refuses. What was not sent is kept for the next connection. */
/* promise T4 */
TEST(a_name_is_looked_up_and_each_address_tried)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t i = 0; i < 2; i++) {
        char url[64];
        scene_begin();
        snprintf(url, sizeof url, "redis://%s:%u", hosts[i], fake_redis_listen_tcp(here.fake));
        scene_open(&(store_options){.url = url});
        for (int round = 0; round < 3; round++) {
            scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
            fake_redis_hang_up(here.fake);
            store_driver_wait_ready(here.d, false);
        }
    }
}

TEST(a_thousand_reconnects_leave_no_descriptor)
{
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
    int lowest = dup(0);
    close(lowest);
    for (int i = 0; i < 1000; i++) {
        scene_assert_echo(LKS_OK, LKS_APPLIED_YES); /* so that the pauses stay short */
        fake_redis_hang_up(here.fake);
        store_driver_wait_ready(here.d, false);
        store_driver_wait_ready(here.d, true);
    }
    uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
    int now = dup(0);
    close(now);
    assert_int_equal(now, lowest);
}

TEST_MAIN(.setup = scene_start, .teardown = scene_end)

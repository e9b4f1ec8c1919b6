/* Begins that wait: who is told when an attempt ends, who runs then, and what becomes
 * of a waiter whose time, connection or server ends. */
#include "services/idempotency_script.h"

#include <stdio.h>

TEST(a_result_is_everyones_at_once)
{
    begin("k", "T1");
    says(wait_at("S1", "k", "T2"), "WAITS");
    says(wait_at("S2", "k", "T3"), "WAITS");
    says(wait_at("S1", "k", "T4"), "WAITS");
    says(wait_at("S1", "l", "T5"), "EXECUTE 1"); /* another key: nobody runs there */
    says(messages(), "");
    begin("k", "T1");
    says(complete_with("k", fence(), 200, "paid", "a=1"), "STORED");
    says(deliver(), "S1 T2 REPLAY 1 200 paid a=1, S1 T4 REPLAY 1 200 paid a=1, S2 T3 REPLAY 1 200 paid a=1");
    assert_int_equal(waiting_keys(), 0);
}

TEST(one_message_a_server)
{
    begin("k", "T1");
    for (int i = 0; i < 20; i++)
        says(wait_at(i % 2 ? "S1" : "S2", "k", (char[]){'W', (char)('a' + i), '\0'}), "WAITS");
    says(complete("k", fence(), 200, ""), "STORED");
    says(messages(), "S1:k S2:k");
    says(complete("k", fence(), 200, ""), "STORED again");
    says(messages(), "");
}

TEST(a_final_failure_is_everyones_too)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S2", "k", "T3");
    says(fail_final("k", fence(), "no"), "STORED");
    says(deliver(), "S1 T2 REPLAY 1 -1 lockstock-failure=no, S2 T3 REPLAY 1 -1 lockstock-failure=no");
    assert_int_equal(waiting_keys(), 0);
}

TEST(after_a_failure_exactly_one_runs)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S1", "k", "T3");
    wait_at("S2", "k", "T4");
    says(fail_retryable("k", fence(), ""), "STORED");
    says(deliver(), "S1 T2 EXECUTE 2");
    says(fail_retryable("k", fence(), ""), "STORED");
    says(deliver(), "S1 T3 EXECUTE 3");
    says(complete("k", fence(), 200, "at last"), "STORED");
    says(deliver(), "S2 T4 REPLAY 3 200 at last");
    assert_int_equal(waiting_keys(), 0);
}

TEST(after_a_delete_exactly_one_runs)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S2", "k", "T3");
    says(forget("k"), "OK");
    says(deliver(), "S1 T2 EXECUTE 1");
    says(complete("k", fence(), 200, ""), "STORED");
    says(deliver(), "S2 T3 REPLAY 1 200");
}

TEST(whoever_asks_first_runs)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    fail_retryable("k", fence(), "");
    says(begin("k", "T9"), "EXECUTE 2");
    says(deliver(), "");
    complete("k", fence(), 200, "");
    says(deliver(), "S1 T2 REPLAY 2 200");
}

TEST(the_end_of_a_lease_hands_over)
{
    begin("k", "T1");
    uint64_t first = fence();
    wait_at("S1", "k", "T2");
    wait_at("S2", "k", "T3");
    wait_at("S2", "k", "T4");
    about(ring(), LEASE_MS);
    says(messages(), "");
    pass_seconds(400);
    about(ring(), LEASE_MS - 400000);
    pass_seconds(600);
    int64_t again = ring(); /* S2 looks */
    assert_true(again > 0 && again <= 1000);
    says(deliver(), "S2 T3 EXECUTE 2");
    about(ring(), LEASE_MS);
    says(complete("k", first, 200, "late"), "SUPERSEDED");
    says(messages(), "");
    says(complete("k", fence(), 200, ""), "STORED");
    says(deliver(), "S1 T2 REPLAY 2 200, S2 T4 REPLAY 2 200");
}

TEST(the_alarm_is_for_the_end_of_the_lease)
{
    begin_of("k", "T1", "", 90000, 0);
    int64_t left_ms = (begin("k", "T2"), begun->retry_after_ms);
    assert_true(left_ms > 0 && left_ms <= 90000);
    wait_at("S1", "k", "T2");
    assert_true(ring() <= 90000);
    says(extend("k", fence(), LEASE_MS), "EXTENDED");
    about(ring(), LEASE_MS);
    says(messages(), "");
}

TEST(an_alarm_that_finds_nobody_running_wakes)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    complete("k", fence(), 200, "");
    says(messages(), "S1:k"); /* and is lost, let us say */
    assert_true(ring() <= 1000);
    says(deliver(), "S1 T2 REPLAY 1 200");
    begin("l", "T1");
    wait_at("S1", "l", "T3");
    harness_redis(h, "DEL ls:{default/s/l}:idem:r");
    assert_true(ring() <= 1000);
    says(deliver(), "S1 T3 EXECUTE 1");
}

/* ---- the wait is over --------------------------------------------------------------- */

TEST(when_its_time_is_over_it_is_told_how_long_the_lease_runs)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    pass_seconds(300);
    remember();
    says(timed_out("S1", "T2"), "IN_PROGRESS 1");
    about(begun->retry_after_ms, LEASE_MS - 300000);
    expect_unchanged();
}

TEST(a_waiter_whose_time_is_over_does_not_run)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S1", "k", "T3");
    wait_at("S1", "k", "T4");
    pass_seconds(1001);
    const char *before = harness_snapshot(h);
    says(timed_out("S1", "T2"), "IN_PROGRESS 1");
    assert_int_equal(begun->retry_after_ms, 0);
    fail_retryable("k", fence(), "");
    says(timed_out("S1", "T3"), "IN_PROGRESS 1");
    assert_int_equal(begun->retry_after_ms, 0);
    forget("k");
    says(timed_out("S1", "T4"), "IN_PROGRESS 0");
    says(get("k"), "NONE");
    assert_string_not_equal(before, harness_snapshot(h));
}

TEST(what_came_first_is_its_answer)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_of("S1", "k", "T3", "", LEASE_MS, WAIT_MS);
    wait_at("S2", "k", "T3"); /* the same call again, through another server */
    fail_retryable("k", fence(), "");
    says(woken("S2", "T3"), "EXECUTE 2");
    uint64_t second = fence();
    says(timed_out("S1", "T3"), "EXECUTE 2");
    assert_int_equal(fence(), second);
    complete("k", second, 200, "");
    says(timed_out("S1", "T2"), "REPLAY 2 200");
}

TEST(an_abandoned_one_does_not_run)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S1", "k", "T3");
    fail_retryable("k", fence(), "");
    remember();
    says(abandoned("S1", "T2"), "CANCELLED NO the caller's connection is gone");
    expect_unchanged();
    says(deliver(), "S1 T3 EXECUTE 2");
}

TEST(copies_of_a_call_are_one_attempt)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S2", "k", "T2");
    wait_at("S2", "k", "T3");
    fail_retryable("k", fence(), "");
    says(deliver(), "S1 T2 EXECUTE 2, S2 T2 EXECUTE 2");
}

/* ---- servers ------------------------------------------------------------------------ */

TEST(a_dead_server_is_in_nobodys_way)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S2", "k", "T3");
    server_down("S1");
    fail_retryable("k", fence(), "");
    says(deliver(), "S2 T3 EXECUTE 2");
    wait_at("S2", "k", "T4");
    complete("k", fence(), 200, "");
    says(deliver(), "S2 T4 REPLAY 2 200");
    assert_int_equal(waiting_keys(), 0);
}

TEST(messages_that_were_missed_are_made_up_for)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    wait_at("S1", "k", "T3");
    server_down("S1");
    fail_retryable("k", fence(), "");
    server_up("S1");
    says(messages(), "");
    says(woken("S1", "T2"), "EXECUTE 2"); /* as all are, when it hears again */
    says(woken("S1", "T3"), "WAITS");
    complete("k", fence(), 200, "");
    says(deliver(), "S1 T3 REPLAY 2 200");
}

TEST(who_waits_is_known_as_long_as_anyone_waits)
{
    begin("k", "T1");
    wait_of("S1", "k", "T2", "", LEASE_MS, 500000);
    about(key_number("PTTL", "idem:w", "k"), 510000);
    wait_of("S1", "k", "T3", "", LEASE_MS, 2000000);
    about(key_number("PTTL", "idem:w", "k"), 2010000);
    wait_of("S2", "k", "T4", "", LEASE_MS, 1000);
    about(key_number("PTTL", "idem:w", "k"), 2010000);
    assert_true(key_number("PTTL", "idem:w", "k") > 1900000);
    assert_int_equal(key_number("SCARD", "idem:w", "k"), 2);
}

TEST(nobody_is_registered_who_does_not_wait)
{
    says(wait_at("S1", "k", "T1"), "EXECUTE 1");
    says(wait_at("S1", "k", "T1"), "EXECUTE 1");
    says(begin("k", "T2"), "IN_PROGRESS 1");
    says(wait_of("S1", "k", "T2", "another", LEASE_MS, WAIT_MS), "MISMATCH");
    complete("k", fence(), 200, "");
    says(wait_at("S1", "k", "T2"), "REPLAY 1 200");
    assert_int_equal(waiting_keys(), 0);
}

TEST(a_waiter_may_find_another_request)
{
    begin("k", "T1");
    wait_at("S1", "k", "T2");
    forget("k");
    says(begin_of("k", "T3", "another", LEASE_MS, 0), "EXECUTE 1");
    says(deliver(), "S1 T2 MISMATCH");
}

/* What Redis has run so far, less this. */
static int64_t commands(void)
{
    const char *info = harness_redis(h, "INFO commandstats");
    int64_t n = 0;

    for (const char *at = info; (at = strstr(at, "calls=")); at++)
        n += atoll(at + 6);
    return n;
}

static int64_t cost_of_a_result(int waiters)
{
    char key[16], token[16];

    snprintf(key, sizeof key, "k%d", waiters);
    begin(key, "T1");
    for (int i = 0; i < waiters; i++) {
        snprintf(token, sizeof token, "W%d", i);
        says(wait_at("S1", key, token), "WAITS");
    }
    int64_t before = commands();
    says(complete(key, fence(), 200, ""), "STORED");
    return commands() - before;
}

TEST(a_result_costs_the_same_however_many_wait)
{
    assert_int_equal(cost_of_a_result(1), cost_of_a_result(100));
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)

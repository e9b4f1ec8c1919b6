/* A Release grants at once what its own server parks, one move at a time: whom, from when on, who is told, and what
 * becomes of it where nobody is told any more. Turns that are offered: test_lock_wait.c. */
#include "services/lock_queue_script.h"

#include <stdio.h>

#include "functions/library.h"

/* ---- turns ---------------------------------------------------------------------- */

TEST(a_release_grants_what_its_own_server_parks)
{
    acquire("T1", "a");
    uint64_t before = fence();
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S1", "T3", "a"), "QUEUED");
    says(release_at("S1", "T1", ""), "RELEASED");
    says(messages(), "S1:R T2");
    says(inspect("a"), "EXCLUSIVE T2");
    assert_int_equal(inspected->waiters, 1);
    says(told_of_grant("S1", "T2"), "ACQUIRED");
    assert_int_equal(acquired->lease_ms, LEASE_MS);
    assert_true(fence() > before);
    assert_true(fence() == inspected->holders[0]->fence);
    says(renew("T2", "a"), "RENEWED");
    says(release_at("S1", "T2", ""), "RELEASED");
    says(messages(), "S1:R T3");
    says(told_of_grant("S1", "T3"), "ACQUIRED");
    says(release_at("S1", "T1", ""), "RELEASED again");
    says(release_at("S1", "T3", ""), "RELEASED");
    says(messages(), "");
    assert_int_equal(queue_keys(), 0);
}

TEST(nobody_overtakes_who_waits_at_another_server)
{
    acquire("T1", "a");
    wait_at("S2", "T2", "a");
    wait_at("S1", "T3", "a");
    release_at("S1", "T1", "");
    says(messages(), "S1:A a S2:W T2 S2:A a");
    says(woken("S2", "T2"), "ACQUIRED");
    release_at("S1", "T2", "");
    says(messages(), "S1:R T3");
    says(told_of_grant("S1", "T3"), "ACQUIRED");
}

TEST(readers_of_all_servers_come_together)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a:S");
    wait_at("S2", "T3", "a:S");
    wait_at("S1", "T4", "a:S");
    wait_at("S1", "T5", "a");
    release_at("S1", "T1", "");
    says(inspect("a"), "SHARED T2 T4");
    says(deliver(), "T2 T4 T3");
    says(inspect("a"), "SHARED T2 T4 T3");
    release_at("S1", "T2", "");
    release_at("S1", "T3", "");
    says(deliver(), "");
    release_at("S1", "T4", "");
    says(deliver(), "T5");
}

TEST(permits_are_granted_in_turn)
{
    acquire("T1", "a:P3/5");
    wait_at("S1", "T2", "a:P4/5");
    wait_at("S1", "T3", "a:P1/5");
    wait_at("S1", "T4", "a:P1/5");
    release_at("S1", "T1", "");
    says(messages(), "S1:R T2 S1:R T3");
    says(inspect("a"), "PERMIT/5 T2=4 T3=1");
    says(told_of_grant("S1", "T2"), "ACQUIRED");
    says(release_at("S1", "T2", ""), "RELEASED");
    says(inspect("a"), "PERMIT/5 T3=1 T4=1");
}

TEST(all_names_are_granted_at_once)
{
    acquire("T1", "a");
    acquire("T2", "b");
    wait_at("S1", "T3", "a b");
    wait_at("S1", "T4", "b a");
    release_at("S1", "T1", "");
    says(messages(), "");
    says(acquire("T5", "a"), "BUSY a held by T3");
    release_at("S1", "T2", "");
    says(messages(), "S1:R T3 S1:A a"); /* T4 did not wait for the end of a lease there */
    says(told_of_grant("S1", "T3"), "ACQUIRED");
    assert_int_equal(acquired->n_fences, 2);
    says(inspect("b"), "EXCLUSIVE T3");
    assert_true(acquired->fences[1]->fence == inspected->holders[0]->fence);
    says(inspect("a"), "EXCLUSIVE T3");
    assert_true(acquired->fences[0]->fence == inspected->holders[0]->fence);
    release_at("S1", "T3", "a");
    says(deliver(), "");
    release_at("S1", "T3", "b");
    says(deliver(), "T4");
    release_at("S1", "T4", "");
    assert_int_equal(queue_keys(), 0);
}

/* What is first in a queue is not always what the short way knows. */
TEST(whoever_is_first_is_granted)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a:S");
    wait_at("S1", "T3", "a b");
    wait_at("S1", "T4", "a");
    release_at("S1", "T1", "a");
    says(deliver(), "T2");
    release_at("S1", "T2", "");
    says(deliver(), "T3");
    release_at("S1", "T3", "");
    says(deliver(), "T4");
    harness_redis(h, "ZADD ls:{default/g}:lock:w:a 1 %s", token_of("T9")); /* of which nobody knows */
    release_at("S1", "T4", "");
    says(deliver(), "");
    says(acquire("T5", "a"), "ACQUIRED");
}

TEST(one_fcall_grants_for_each_of_its_releases)
{
    const void *responses[2];
    lks_error errors[2];
    lks_release_request requests[2];

    acquire("T1", "a");
    acquire("T2", "b");
    wait_at("S1", "T3", "a");
    wait_at("S1", "T4", "b");
    for (int i = 0; i < 2; i++) {
        requests[i] = (lks_release_request)LKS_RELEASE_REQUEST_INIT;
        requests[i].group = "g";
        requests[i].token = token_of(i ? "T2" : "T1");
    }
    harness_server(h, "S1");
    harness_call_together(h, &lock_service, "Release", 2, (const void *[]){&requests[0], &requests[1]}, responses,
                          errors);
    harness_server(h, "harness");
    assert_true(responses[0] && responses[1]);
    says(deliver(), "T3 T4");
}

/* ---- leases ----------------------------------------------------------------------- */

TEST(the_lease_begins_with_the_release)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    pass_seconds(300);
    release_at("S1", "T1", "");
    pass_seconds(400);
    says(woken("S1", "T2"), "ACQUIRED again"); /* the message was lost */
    about(acquired->lease_ms, LEASE_MS - 400000);
    pass_seconds(500);
    says(acquire("T3", "a"), "BUSY a held by T2");
    pass_seconds(200);
    says(acquire("T3", "a"), "ACQUIRED");
    says(woken("S1", "T2"), "ACQUIRED again"); /* it was told */
}

TEST(each_call_has_the_lease_that_it_asked_for)
{
    acquire("T1", "a");
    wait_for_ms("S1", "T2", "a", 2 * LEASE_MS, WAIT_MS);
    release_at("S1", "T1", "");
    says(messages(), "S1:R T2");
    says(told_of_grant("S1", "T2"), "ACQUIRED");
    assert_int_equal(acquired->lease_ms, 2 * LEASE_MS);
    inspect("a");
    about(inspected->holders[0]->lease_ms, 2 * LEASE_MS);
}

/* Of a lease that ends later than the one before it, and of one that ends sooner. */
TEST(fences_rise_also_when_the_clock_steps_back)
{
    acquire("T1", "a");
    uint64_t before = fence();
    wait_for_ms("S1", "T2", "a", 10 * LEASE_MS, WAIT_MS);
    wait_at("S1", "T3", "a");
    pass_seconds(-3000);
    release_at("S1", "T1", "");
    says(messages(), "S1:R T2");
    says(told_of_grant("S1", "T2"), "ACQUIRED");
    assert_true(fence() > before);
    before = fence();
    release_at("S1", "T2", "");
    says(messages(), "S1:R T3");
    says(told_of_grant("S1", "T3"), "ACQUIRED");
    assert_true(fence() > before);
}

/* They look at the end of the lease before; a sooner one they are told. */
TEST(those_behind_have_their_turn_when_the_lease_ends)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_for_ms("S1", "T3", "a", LEASE_MS / 10, WAIT_MS);
    wait_at("S2", "T4", "a");
    pass_seconds(500);
    release_at("S1", "T1", "");
    says(deliver(), "T2");
    pass_seconds(700);
    ring_alarms();
    says(deliver(), "");
    release_at("S1", "T2", "");
    says(messages(), "S1:R T3 S1:A a S2:A a");
    says(told_of_grant("S1", "T3"), "ACQUIRED");
    pass_seconds(200);
    ring_alarms();
    says(deliver(), "T4");
}

/* Where the name's key would end too soon after its last lease. */
TEST(a_long_lease_keeps_the_names_key)
{
    enum { DAY_MS = 86400000 };

    acquire_for("T1", "a", DAY_MS);
    wait_for_ms("S1", "T2", "a", DAY_MS, WAIT_MS);
    harness_redis(h, "PEXPIRE ls:{default/g}:lock:n:a 1000000");
    pass_seconds(7200);
    release_at("S1", "T1", "");
    says(messages(), "S1:R T2");
    assert_true(atol(harness_redis(h, "PTTL ls:{default/g}:lock:n:a")) > 2 * DAY_MS);
    assert_true(atol(harness_redis(h, "PTTL ls:{default/g}:lock:t:%s", token_of("T2"))) > DAY_MS);
}

/* ---- nobody is told ----------------------------------------------------------------- */

TEST(a_grant_that_nobody_was_told_is_taken_back)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    wait_at("S1", "T4", "a");
    release_at("S1", "T1", "");
    says(inspect("a"), "EXCLUSIVE T2");
    pass_seconds(1);
    says_begin(abandoned("S1", "T2"), "CANCELLED"); /* before the message came */
    says(messages(), "S1:R T2 S1:A a S2:W T3 S2:A a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(woken("S2", "T3"), "ACQUIRED");
    says(queue_of("a"), "T2 T4"); /* its number was kept */
    release_at("S2", "T3", "");
    says(deliver(), "T2");
}

TEST(a_grant_of_several_names_is_taken_back_whole)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "b:S a c:P2/3");
    release_at("S1", "T1", "");
    says(inspect("c"), "PERMIT/3 T2=2");
    says(acquire("T4", "b:S"), "ACQUIRED");
    abandoned("S1", "T2");
    says(inspect("a"), "FREE");
    says(inspect("b"), "SHARED T4");
    says(inspect("c"), "FREE");
    says(acquire("T3", "a c"), "ACQUIRED");
}

TEST(a_grant_of_which_something_is_gone_is_not_given_again)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a b");
    release_at("S1", "T1", "");
    says(force_release("b"), "T2");
    abandoned("S1", "T2");
    says(inspect("a"), "FREE");
    says(acquire("T2", "a b"), "TOKEN_SPENT");
}

TEST(a_grant_that_somebody_was_told_stays)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release_at("S1", "T1", "");
    says(wait_at("S2", "T2", "a"), "ACQUIRED again"); /* the caller came back */
    says_begin(abandoned("S1", "T2"), "CANCELLED");
    says(inspect("a"), "EXCLUSIVE T2");
    says(renew("T2", "a"), "RENEWED");
}

TEST(only_the_copy_that_was_granted_takes_back)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release_at("S1", "T1", "");
    char copy[64];
    snprintf(copy, sizeof copy, "%s S1.another.%d", token_of("T2"), LEASE_MS);
    says_begin(harness_redis(h, "FCALL lock_abandon_%s 1 ls:{default/g}: 1 %s", functions_digest, copy), "OK\n-1");
    says(inspect("a"), "EXCLUSIVE T2");
    says(release("T2", ""), "RELEASED");
    abandoned("S1", "T2");
    says(acquire("T2", "a"), "TOKEN_SPENT");
}

TEST(a_wait_that_ends_with_the_grant_on_its_way_has_it)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release_at("S1", "T1", "");
    says(timed_out("S1", "T2"), "ACQUIRED again");
    says(release("T2", ""), "RELEASED");
}

/* ---- servers ------------------------------------------------------------------------- */

TEST(who_is_parked_twice_is_offered_its_turn)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T2", "a");
    release_at("S1", "T1", "");
    says(messages(), "S1:W T2 S2:W T2");
    says(acquire("T3", "a"), "BUSY a held by T2");
    assert_int_equal((inspect("a"), inspected->n_holders), 0);
    says(woken("S2", "T2"), "ACQUIRED");
    says(woken("S1", "T2"), "ACQUIRED again");
}

TEST(a_server_that_hears_nothing_is_granted_nothing)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    server_down("S1");
    says(release_at("S1", "T1", ""), "RELEASED");
    says(inspect("a"), "FREE");
    says(deliver(), "T3");
    server_up("S1");
    says(woken("S1", "T2"), "QUEUED");
    release_at("S1", "T3", "");
    says(deliver(), "T2");
}

TEST(a_foreign_record_of_who_is_first_is_left_alone)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    server_down("S1");
    harness_redis(h, "SET ls:{default/g}:lock:t:%s x", token_of("T2"));
    says(release_at("S1", "T1", ""), "RELEASED");
    says(harness_redis(h, "GET ls:{default/g}:lock:t:%s", token_of("T2")), "x");
    harness_redis(h, "DEL ls:{default/g}:lock:w:a");
    acquire("T4", "b");
    wait_at("S2", "T5", "b");
    harness_redis(h, "DEL ls:{default/g}:lock:w:b");
    harness_redis(h, "SET ls:{default/g}:lock:w:b x");
    says_begin(release_at("S2", "T4", ""), "FAILED_PRECONDITION NO");
    says_begin(inspect("b"), "FAILED_PRECONDITION NO");
    acquire("T6", "c");
    wait_at("S1", "T7", "c");
    harness_redis(h, "DEL ls:{default/g}:lock:s:c");
    harness_redis(h, "SET ls:{default/g}:lock:s:c x");
    const char *before = harness_snapshot(h);
    says_begin(release_at("S1", "T6", ""), "FAILED_PRECONDITION NO"); /* S1 hears nothing */
    assert_string_equal(harness_snapshot(h), before);
}

TEST(a_hand_over_works_while_memory_is_short)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    harness_redis(h, "CONFIG SET maxmemory 1");
    release_at("S1", "T1", "");
    says(deliver(), "T2");
}

/* ---- the way into a queue -------------------------------------------------------------- */

TEST(who_comes_to_a_queue_stands_at_its_end)
{
    acquire("T1", "a");
    for (int i = 2; i < 6; i++)
        says(wait_at(i % 2 ? "S1" : "S2", (char[]){'T', (char)('0' + i), '\0'}, "a"), "QUEUED");
    says(queue_of("a"), "T2 T3 T4 T5");
    says(wait_at("S1", "T4", "a"), "QUEUED"); /* again */
    says(queue_of("a"), "T2 T3 T4 T5");
    says(wait_at("S1", "T1", "a"), "ACQUIRED again");
    says_begin(wait_at("S1", "T3", "b"), "ALREADY_EXISTS NO");
    pass_seconds(-3000);
    says(wait_at("S1", "T6", "a"), "QUEUED");
    says(queue_of("a"), "T2 T3 T4 T5 T6");
}

TEST(a_queue_of_foreign_data_is_refused)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    harness_redis(h, "DEL ls:{default/g}:lock:w:a");
    harness_redis(h, "SET ls:{default/g}:lock:w:a x");
    const char *before = harness_snapshot(h);
    says_begin(wait_at("S1", "T3", "a"), "FAILED_PRECONDITION NO");
    assert_string_equal(harness_snapshot(h), before);
    harness_redis(h, "DEL ls:{default/g}:lock:w:a ls:{default/g}:lock:s:a");
    harness_redis(h, "ZADD ls:{default/g}:lock:w:a 1 %s", token_of("T2"));
    harness_redis(h, "SET ls:{default/g}:lock:s:a x");
    before = harness_snapshot(h);
    says_begin(wait_at("S1", "T3", "a"), "FAILED_PRECONDITION NO");
    assert_string_equal(harness_snapshot(h), before);
}

static void expect_end(const char *key)
{
    if (atol(harness_redis(h, "PTTL ls:{default/g}:%s", key)) < WAIT_MS + LEASE_MS)
        fail_msg("%s does not end, or too soon", key);
}

TEST(keys_of_a_queue_end_however_it_was_made)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    harness_redis(h, "DEL ls:{default/g}:lock:s:a");
    wait_at("S1", "T3", "a");
    expect_end("lock:s:a");
    harness_redis(h, "DEL ls:{default/g}:lock:s:a");
    wait_at("S2", "T4", "a:S");
    expect_end("lock:s:a");
    harness_redis(h, "DEL ls:{default/g}:lock:w:a");
    wait_at("S2", "T5", "a");
    expect_end("lock:w:a");
    /* One that went as a whole, and is made again by the same call. */
    acquire("T6", "c");
    wait_at("S1", "T7", "b c");
    server_down("S1");
    wait_at("S2", "T8", "b c");
    says(queue_of("b"), "T8");
    expect_end("lock:w:b");
    expect_end("lock:s:b");
    expect_end("lock:n:b");
}

/* The name's own key is kept for so long already that it stays where it is; the queue's do with it. */
TEST(keys_of_a_queue_end_with_its_names)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a:S");
    harness_redis(h, "PEXPIRE ls:{default/g}:lock:w:a 1000000");
    harness_redis(h, "PEXPIRE ls:{default/g}:lock:s:a 1000000");
    says(renew_for("T1", "a", 86400000), "RENEWED");
    pass_seconds(7200);
    wait_at("S1", "T3", "a");
    expect_end("lock:w:a");
    expect_end("lock:s:a");
    expect_end("lock:n:a");
}

/* ---- resources -------------------------------------------------------------------------- */

/* Of the Release that hands over and of the Acquire that queues behind so many others. */
static void count_commands(void **state, int waiters, long *of_release, long *of_acquire)
{
    char token[16];

    queue_reset(state);
    acquire("H0", "a");
    for (int i = 1; i <= waiters; i++) {
        snprintf(token, sizeof token, "H%d", i);
        says(wait_at("S1", token, "a"), "QUEUED");
    }
    long before = commands_run();
    says(release_at("S1", "H0", ""), "RELEASED");
    *of_release = commands_run() - before;
    messages();
    before = commands_run();
    says(wait_at("S1", "H0again", "a"), "QUEUED");
    *of_acquire = commands_run() - before;
}

/* Some of them are of the clock that tests move. */
TEST(a_hand_over_on_one_server_is_few_commands_for_any_number_of_waiters)
{
    long release_of_ten, acquire_of_ten, release_of_many, acquire_of_many;

    count_commands(state, 10, &release_of_ten, &acquire_of_ten);
    count_commands(state, 1000, &release_of_many, &acquire_of_many);
    print_message("%ld and %ld commands\n", release_of_many, acquire_of_many);
    assert_int_equal(release_of_ten, release_of_many);
    assert_int_equal(acquire_of_ten, acquire_of_many);
    assert_true(release_of_many <= 13);
    assert_true(acquire_of_many <= 13);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = queue_reset)

/* Waiting, one move at a time: what becomes of an offer that nobody claims, and of a
 * waiter whose time, connection or server ends, or whose token comes again. */
#include "services/lock_queue_script.h"

#include <stdio.h>

/* ---- offers ---------------------------------------------------------------------- */

static void an_offer_that_nobody_claims_passes_on(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    wait_at("S2", "T4", "a");
    release("T1", "");
    says(messages(), "S1:W T2 S1:A a S2:A a");
    pass_seconds(3);
    assert_int_equal(promote("a"), -1); /* nobody is left to wait */
    /* S1 has not claimed: T3 is passed over too, and told so. */
    says(messages(), "S1:W T3 S2:W T4");
    says(inspect("a"), "FREE");
    says(woken("S2", "T4"), "ACQUIRED");
    says(wait_at("S2", "T5", "a"), "QUEUED");
    says(woken("S1", "T3"), "QUEUED"); /* it was only slow: back at its number */
    says(woken("S1", "T2"), "QUEUED");
    says(queue_of("a"), "T2 T3 T5");
    release("T4", "");
    says(deliver(), "T2");
    release("T2", "");
    says(deliver(), "T3");
    release("T3", "");
    says(deliver(), "T5");
    release("T5", "");
    assert_int_equal(queue_keys(), 0);
}

static void a_late_claim_takes_what_is_still_free(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release("T1", "");
    pass_seconds(10);
    says(woken("S1", "T2"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE T2");
}

static void an_offer_is_not_a_lock(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release("T1", "");
    pass_seconds(3);
    says(acquire("T3", "a"), "ACQUIRED");
    says(woken("S1", "T2"), "QUEUED");
    release("T3", "");
    says(deliver(), "T2");
}

/* ---- servers ---------------------------------------------------------------------- */

static void waiters_of_a_server_that_is_gone_are_passed_over_at_once(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    wait_at("S2", "T4", "a");
    wait_at("S2", "T5", "a");
    server_down("S1");
    release("T1", "");
    says(messages(), "S2:W T4 S2:A a");
    says(queue_of("a"), "T5");
    says(woken("S2", "T4"), "ACQUIRED");
    /* It lives, and listens again: every call is looked at. */
    server_up("S1");
    says(woken("S1", "T3"), "QUEUED");
    says(woken("S1", "T2"), "QUEUED");
    says(queue_of("a"), "T2 T3 T5");
}

static void what_the_dead_left_is_in_nobodys_way(void **state)
{
    (void)state;
    acquire("T1", "b");
    for (int i = 0; i < 200; i++) {
        char token[16];
        snprintf(token, sizeof token, "D%d", i);
        says(wait_at("S1", token, "a b"), "QUEUED");
    }
    says(acquire("T2", "a"), "BUSY a held by D0");
    server_down("S1");
    says(acquire("T3", "a"), "BUSY a held by D128"); /* not all at once */
    says(acquire("T3", "a"), "ACQUIRED");
    release("T3", "");
    release("T1", "");
    says(acquire("T4", "a b"), "ACQUIRED");
    assert_int_equal(queue_keys(), 0);
}

static void messages_that_were_missed_are_read_again(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    release("T1", "");
    server_down("S1"); /* its messages are lost */
    server_up("S1");
    says(woken("S1", "T3"), "QUEUED");
    says(woken("S1", "T2"), "ACQUIRED");
    release("T2", "");
    says(messages(), "S1:W T3");
}

static void a_waiter_whose_record_was_lost_queues_anew(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    harness_redis(script_harness, "DEL ls:{default/g}:lock:t:%s", token_of("T2"));
    says(woken("S1", "T2"), "QUEUED");
    release("T1", "");
    says(deliver(), "T3");
    release("T3", "");
    says(deliver(), "T2");
}

/* ---- withdrawal -------------------------------------------------------------------- */

static void a_waiter_whose_time_is_over_is_withdrawn(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T1");
    assert_true(acquired->holder->lease_ms > 0);
    says(queue_of("a"), "T3");
    says(wait_at("S1", "T2", "a"), "TOKEN_SPENT");
    says(timed_out("S1", "T3"), "TIMED_OUT a held by T1");
    assert_int_equal(queue_keys(), 0);
    release("T1", "");
    says(messages(), "");
    says(acquire("T3", "a"), "TOKEN_SPENT");
    says(inspect("a"), "FREE");
}

static void a_grant_that_came_first_wins(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release("T1", "");
    says(timed_out("S1", "T2"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE T2");
}

static void a_withdrawal_lets_those_behind_go(void **state)
{
    (void)state;
    acquire("T1", "a:S");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a:S");
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T1");
    says(deliver(), "T3");
    wait_at("S1", "T4", "a b");
    wait_at("S1", "T5", "b:S");
    says_begin(timed_out("S1", "T4"), "TIMED_OUT a held by T");
    says(deliver(), "T5");
}

static void a_lapsed_offer_times_out(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    release("T1", "");
    messages();
    pass_seconds(3);
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T3"); /* whose turn it is */
    says(deliver(), "T3");
}

static void an_abandoned_waiter_keeps_its_number(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    says_begin(abandoned("S1", "T2"), "CANCELLED NO");
    says(queue_of("a"), "T3");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(queue_of("a"), "T2 T3");
    release("T1", "");
    says(messages(), "S1:A a S2:W T2 S2:A a");
}

static void an_abandoned_offer_passes_on(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    release("T1", "");
    abandoned("S1", "T2");
    says(messages(), "S1:W T2 S1:A a S2:A a S2:W T3");
    says(woken("S2", "T3"), "ACQUIRED");
    release("T3", "");
    assert_int_equal(queue_keys(), 0);
}

static void only_who_parks_a_waiter_abandons_it(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T2", "a"); /* sent again to another server */
    abandoned("S1", "T2");
    says(queue_of("a"), "T2");
    wait_at("S2", "T3", "a");
    /* Sent again to the same one, on another connection. */
    harness_waiting *first = harness_start(script_harness, &lock_service, "S1", "Acquire",
                                           acquire_request("T4", "a", LEASE_MS, WAIT_MS));
    wait_at("S1", "T4", "a");
    harness_event(script_harness, first, SERVICE_ABANDONED);
    says(queue_of("a"), "T2 T3 T4");
    release("T1", "");
    says(deliver(), "T2");
}

static void a_release_withdraws(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a b");
    wait_at("S2", "T3", "a");
    says(release("T2", "c"), "NOT_HELD"); /* not its name */
    says(queue_of("a"), "T2 T3");
    says(release("T2", "b"), "NOT_HELD");
    says(queue_of("a"), "T3");
    says(messages(), "S1:W T2");
    says(woken("S1", "T2"), "TOKEN_SPENT");
    says(release("T2", ""), "NOT_HELD");
    release("T1", "");
    says(messages(), "S2:W T3");
    says(release("T3", ""), "NOT_HELD"); /* offered, not claimed */
    says(woken("S2", "T3"), "TOKEN_SPENT");
    says(acquire("T4", "a"), "ACQUIRED");
    assert_int_equal(queue_keys(), 0);
}

static void a_late_copy_after_the_release_does_not_queue(void **state)
{
    (void)state;
    acquire("T1", "a");
    release("T2", "a");
    says(wait_at("S1", "T2", "a"), "TOKEN_SPENT");
    assert_int_equal(queue_keys(), 0);
}

/* ---- the same token again ------------------------------------------------------------ */

static void the_same_token_again_is_the_same_place(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(queue_of("a"), "T2 T3");
    says(acquire("T2", "a"), "BUSY a held by T1");
    says(acquire("T2", "b"), "ALREADY_EXISTS NO token: used for other targets");
    says(queue_of("a"), "T2 T3");
    release("T1", "");
    says(messages(), "S1:A a S2:W T2 S2:A a");
    says(acquire("T2", "a"), "ACQUIRED"); /* whoever asks first claims */
    says(woken("S2", "T2"), "ACQUIRED again");
    says(woken("S1", "T2"), "ACQUIRED again");
    release("T2", "");
    says(messages(), "S1:W T3");
}

static void a_copy_that_times_out_ends_the_other(void **state)
{
    (void)state;
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T2", "a");
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T1");
    says(messages(), "S2:W T2");
    says(woken("S2", "T2"), "TOKEN_SPENT");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, queue_reset)
    const struct CMUnitTest tests[] = {
        TEST(an_offer_that_nobody_claims_passes_on),
        TEST(a_late_claim_takes_what_is_still_free),
        TEST(an_offer_is_not_a_lock),
        TEST(waiters_of_a_server_that_is_gone_are_passed_over_at_once),
        TEST(what_the_dead_left_is_in_nobodys_way),
        TEST(messages_that_were_missed_are_read_again),
        TEST(a_waiter_whose_record_was_lost_queues_anew),
        TEST(a_waiter_whose_time_is_over_is_withdrawn),
        TEST(a_grant_that_came_first_wins),
        TEST(a_withdrawal_lets_those_behind_go),
        TEST(a_lapsed_offer_times_out),
        TEST(an_abandoned_waiter_keeps_its_number),
        TEST(an_abandoned_offer_passes_on),
        TEST(only_who_parks_a_waiter_abandons_it),
        TEST(a_release_withdraws),
        TEST(a_late_copy_after_the_release_does_not_queue),
        TEST(the_same_token_again_is_the_same_place),
        TEST(a_copy_that_times_out_ends_the_other),
    };

    return cmocka_run_group_tests(tests, script_open, servers_close);
}

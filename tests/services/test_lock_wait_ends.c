/* Waiting, one move at a time: what becomes of an offer that nobody claims, and of a
 * waiter whose time, connection or server ends, or whose token comes again. */
#include "services/lock_queue_script.h"

#include <stdio.h>

#include "functions/library.h"

/* ---- offers ---------------------------------------------------------------------- */

TEST(an_offer_that_nobody_claims_passes_on)
{
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

TEST(a_late_claim_takes_what_is_still_free)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release("T1", "");
    pass_seconds(10);
    says(woken("S1", "T2"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE T2");
}

TEST(an_offer_is_not_a_lock)
{
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

TEST(waiters_of_a_server_that_is_gone_are_passed_over_at_once)
{
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

TEST(entries_of_dead_servers_block_nobody)
{
    acquire("T1", "b");
    for (int i = 0; i < 1000; i++) {
        char token[16];
        snprintf(token, sizeof token, "D%d", i);
        says(wait_at("S1", token, "a b"), "QUEUED");
    }
    says(acquire("T2", "a"), "BUSY a held by D0");
    server_down("S1");
    says(acquire("T3", "a"), "ACQUIRED"); /* at once, however many they were */
    release("T3", "");
    release("T1", "");
    assert_int_equal(queue_keys(), 0);
    says(acquire("T4", "a b"), "ACQUIRED");
    assert_int_equal(queue_keys(), 0);
}

/* Nobody holds b: W is barred by V alone, whose server says nothing any more. */
TEST(a_waiter_blocked_only_by_dead_ones_is_looked_at)
{
    acquire("T1", "x");
    says(wait_at("S1", "V", "x y"), "QUEUED");
    says(wait_at("S2", "W", "y"), "QUEUED");
    messages();
    assert_int_equal(promote("y"), 300);
    server_down("S1");
    pass_seconds(1);
    ring_alarms();
    says(deliver(), "W");
    assert_int_equal(promote("y"), -1);
}

TEST(a_waiter_behind_a_dead_writer_is_looked_at)
{
    acquire("T1", "a:S");
    says(wait_at("S1", "V", "a"), "QUEUED");
    says(wait_at("S2", "W", "a:S"), "QUEUED");
    server_down("S1");
    pass_seconds(1);
    ring_alarms();
    says(deliver(), "W");
}

/* When W came, x was held; it is told when nobody holds it any more. */
TEST(room_that_comes_later_is_looked_at_too)
{
    acquire("T1", "x");
    acquire("T2", "y");
    says(wait_at("S1", "V", "x y"), "QUEUED");
    says(wait_at("S2", "W", "y"), "QUEUED");
    release("T2", "");
    says(messages(), "S1:A y S2:A y");
    server_down("S1");
    pass_seconds(1);
    ring_alarms();
    says(deliver(), "W");
}

/* W waits behind V, which waits behind U, which is dead; and V's server does not look. */
TEST(a_waiter_that_blocks_a_blocker_is_looked_at)
{
    server_up("S3");
    acquire("T1", "x");
    says(wait_at("S1", "U", "x y"), "QUEUED");
    says(wait_at("S3", "V", "y z"), "QUEUED");
    says(wait_at("S2", "W", "z"), "QUEUED");
    server_down("S1");
    messages();
    promote("z"); /* the only one that S2 asks for */
    assert_non_null(strstr(messages(), "S3:W V"));
    says(woken("S3", "V"), "ACQUIRED");
    says(inspect("z"), "EXCLUSIVE V");
}

/* A server is frozen: it is heard, but claims nothing. */
TEST(a_frozen_server_costs_half_a_second)
{
    acquire_for("T1", "a", 1000000);
    says(wait_at("S1", "V", "a"), "QUEUED");
    says(wait_at("S2", "W", "a"), "QUEUED");
    pass_seconds(1000);
    int64_t offered_ms = promote("a");
    assert_true(offered_ms > 0 && offered_ms <= 500);
    says(messages(), "S1:W V S1:A a S2:A a");
    harness_advance_ms(h, offered_ms);
    promote("a");
    says(messages(), "S2:W W");
    says(woken("S2", "W"), "ACQUIRED");
}

TEST(one_server_asks_nothing_for_its_own)
{
    acquire("T1", "x");
    says(wait_at("S1", "V", "x y"), "QUEUED");
    says(wait_at("S1", "W", "y"), "QUEUED");
    assert_int_equal(promote("y"), -1);
    says(messages(), "");
    says(wait_at("S2", "U", "y"), "QUEUED");
    says(messages(), "S1:A y S2:A y"); /* it may come before W again, with its number */
}

TEST(an_offer_to_a_dead_server_blocks_no_try)
{
    acquire("T1", "a");
    says(wait_at("S1", "V", "a"), "QUEUED");
    release("T1", "");
    says(acquire("T2", "a"), "BUSY a held by V");
    server_down("S1");
    says(acquire("T2", "a"), "ACQUIRED");
    says(woken("S1", "V"), "QUEUED");
    release("T2", "");
    server_up("S1");
    says(woken("S1", "V"), "ACQUIRED");
}

/* Its own waiting call went with the server. */
TEST(a_try_with_the_token_that_waits_is_granted)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a b"), "QUEUED");
    says(wait_at("S1", "T3", "a"), "QUEUED");
    says(wait_at("S1", "T4", "c a"), "QUEUED");
    says(acquire("T2", "a b"), "BUSY a held by T1");
    server_down("S1");
    says(acquire("T9", "b c"), "ACQUIRED"); /* which takes T2 out of b, and T4 out of c */
    release("T9", "");
    says(acquire("T4", "c a"), "BUSY a held by T1");
    says(queue_of("a"), "T2 T3");
    release("T1", "");
    says(acquire("T2", "a b"), "ACQUIRED");
    release("T2", "");
    says(acquire("T3", "a"), "ACQUIRED");
    assert_int_equal(queue_keys(), 0);
}

TEST(a_clock_set_back_an_hour_does_not_keep_an_offer)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    release("T1", "");
    says(messages(), "S1:W T2");
    pass_seconds(-3600);
    says(acquire("T3", "a"), "ACQUIRED");
    says(woken("S1", "T2"), "QUEUED");
    says(wait_at("S2", "T4", "a"), "QUEUED");
    release("T3", "");
    says(messages(), "S1:W T2 S1:A a S2:A a");
    pass_seconds(-3600);
    promote("a"); /* in its time: what is told in ms is not by Redis' clock */
    says(messages(), "S2:W T4");
    acquire("T5", "b:P200/200");
    says(wait_at("S1", "T6", "b:P200/200"), "QUEUED");
    release("T5", "");
    pass_seconds(-3600);
    says(acquire("T7", "b:P1/200"), "ACQUIRED");
}

TEST(messages_that_were_missed_are_read_again)
{
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

TEST(a_waiter_whose_record_was_lost_queues_anew)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    harness_redis(h, "DEL ls:{default/g}:lock:t:%s", token_of("T2"));
    says(woken("S1", "T2"), "QUEUED");
    release("T1", "");
    says(deliver(), "T3");
    release("T3", "");
    says(deliver(), "T2");
}

/* ---- withdrawal -------------------------------------------------------------------- */

TEST(a_waiter_whose_time_is_over_is_withdrawn)
{
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

TEST(a_grant_that_came_first_wins)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    release("T1", "");
    says(timed_out("S1", "T2"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE T2");
}

TEST(a_withdrawal_lets_those_behind_go)
{
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

TEST(a_lapsed_offer_times_out)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    release("T1", "");
    messages();
    pass_seconds(3);
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T3"); /* whose turn it is */
    says(deliver(), "T3");
}

TEST(an_abandoned_waiter_keeps_its_number)
{
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

TEST(an_abandoned_offer_passes_on)
{
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

TEST(only_who_parks_a_waiter_abandons_it)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T2", "a"); /* sent again to another server */
    abandoned("S1", "T2");
    says(queue_of("a"), "T2");
    wait_at("S2", "T3", "a");
    /* Sent again to the same one, on another connection. */
    harness_waiting *first = start_at("S1", acquire_request("T4", "a", LEASE_MS, WAIT_MS));
    wait_at("S1", "T4", "a");
    harness_event(h, first, SERVICE_ABANDONED);
    says(queue_of("a"), "T2 T3 T4");
    release("T1", "");
    says(deliver(), "T2");
}

TEST(a_release_withdraws)
{
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

TEST(a_late_copy_after_the_release_does_not_queue)
{
    acquire("T1", "a");
    release("T2", "a");
    says(wait_at("S1", "T2", "a"), "TOKEN_SPENT");
    assert_int_equal(queue_keys(), 0);
}

/* ---- the same token again ------------------------------------------------------------ */

TEST(the_same_token_again_is_the_same_place)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(queue_of("a"), "T2 T3");
    says(acquire("T2", "a"), "BUSY a held by T1");
    says(acquire("T2", "b"), "ALREADY_EXISTS NO token: used for other targets");
    says(queue_of("a"), "T2 T3");
    release("T1", "");
    says(messages(), "S1:W T2 S1:A a S2:W T2 S2:A a");
    says(acquire("T2", "a"), "ACQUIRED"); /* whoever asks first claims */
    says(messages(), "S1:W T2 S2:W T2");
    says(woken("S2", "T2"), "ACQUIRED again");
    says(woken("S1", "T2"), "ACQUIRED again");
    release("T2", "");
    says(messages(), "S1:W T3");
}

TEST(all_copies_are_told_and_get_the_grant)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    release("T1", "");
    says(messages(), "S1:W T2 S2:W T2");
    says(woken("S2", "T2"), "ACQUIRED");
    says(messages(), "S1:W T2"); /* once more: it may have come first */
    says(woken("S1", "T2"), "ACQUIRED again");
}

TEST(a_lost_copy_takes_out_itself_alone)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says_begin(abandoned("S2", "T2"), "CANCELLED"); /* the one that came last */
    says(queue_of("a"), "T2");
    char late[64]; /* of a copy that is not there any more: it changes nothing */
    snprintf(late, sizeof late, "%s S1.gone", token_of("T2"));
    harness_redis(h, "FCALL lock_abandon_%s 1 ls:{default/g}: 1 %s", functions_digest, late);
    says(queue_of("a"), "T2");
    release("T1", "");
    says(messages(), "S1:W T2");
    says(woken("S1", "T2"), "ACQUIRED");
}

TEST(a_release_ends_all_copies)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(release("T2", ""), "NOT_HELD");
    says(messages(), "S1:W T2 S2:W T2");
    says(woken("S1", "T2"), "TOKEN_SPENT");
    says(woken("S2", "T2"), "TOKEN_SPENT");
}

TEST(the_turn_of_a_copy_outlives_the_others_server)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    says(wait_at("S1", "T3", "a"), "QUEUED");
    server_down("S2");
    release("T1", "");
    says(deliver(), "T2");
}

/* Who waits longest keeps its place as long. */
TEST(a_copy_that_waits_less_shortens_nothing)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_for_ms("S2", "T2", "a", 1000, 1), "QUEUED");
    assert_true(atol(harness_redis(h, "PTTL ls:{default/g}:lock:t:%s", token_of("T2"))) > WAIT_MS + LEASE_MS);
}

TEST(copies_are_bounded_and_the_dead_make_room)
{
    acquire("T1", "a");
    for (int i = 0; i < 16; i++)
        says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T2", "a"), "RESOURCE_EXHAUSTED NO token: 16 calls wait with it already");
    server_down("S1");
    says(wait_at("S2", "T2", "a"), "QUEUED");
    release("T1", "");
    says(deliver(), "T2");
}

TEST(a_copy_that_times_out_ends_the_other)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T2", "a");
    says(timed_out("S1", "T2"), "TIMED_OUT a held by T1");
    says(messages(), "S2:W T2");
    says(woken("S2", "T2"), "TOKEN_SPENT");
}

int main(void)
{
    return TEST_RUN(.setup_all = script_open, .teardown_all = servers_close, .setup = queue_reset);
}

/* Waiting, one move at a time: who has the next turn, who is told, and what it costs.
 * What becomes of a waiter whose time, connection or server ends: test_lock_wait_ends.c. */
#include "services/lock_queue_script.h"

#include <stdio.h>

/* ---- turns ---------------------------------------------------------------------- */

TEST(a_release_hands_over)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(wait_at("S2", "T3", "a"), "QUEUED");
    says(queue_of("a"), "T2 T3");
    says(messages(), "");
    assert_int_equal((inspect("a"), inspected->waiters), 2);
    says(release("T1", ""), "RELEASED");
    says(messages(), "S1:W T2 S1:A a S2:A a");
    assert_int_equal((inspect("a"), inspected->n_holders), 0);
    assert_int_equal(inspected->waiters, 2);
    says(acquire("T4", "a"), "BUSY a held by T2");
    says(renew("T2", "a"), "LOST");
    says(woken("S1", "T2"), "ACQUIRED");
    assert_int_equal(acquired->lease_ms, LEASE_MS);
    assert_true(fence() > 0);
    says(inspect("a"), "EXCLUSIVE T2");
    assert_int_equal(inspected->waiters, 1);
    says(renew("T2", "a"), "RENEWED");
    says(messages(), "");
    release("T2", "");
    says(messages(), "S2:W T3");
    says(woken("S2", "T3"), "ACQUIRED");
    release("T3", "");
    assert_int_equal(queue_keys(), 0);
}

TEST(list_tells_the_owner_of_the_longest_lease_and_who_waits)
{
    static const char *const waiters[] = {"T3", "T4"};

    acquire_for("T1", "a:S", LEASE_MS / 2);
    acquire("T2", "a:S");
    acquire_for("T5", "a:S", LEASE_MS / 2);
    for (int64_t n = 0;; n++) {
        const lks_list_response *page = ask(list, .prefix = "");
        assert_int_equal(page->n_locks, 1);
        assert_string_equal(page->locks[0]->owner, "T2");
        assert_int_equal(page->locks[0]->waiters, n);
        if (n == 2)
            break;
        says(wait_at("S1", waiters[n], "a"), "QUEUED");
    }
    release("T1", "");
    release("T5", "");
    release("T2", ""); /* and offers the lock to T3 */
    says(woken("S1", "T3"), "ACQUIRED");
    const lks_list_response *page = ask(list, .prefix = "");
    assert_string_equal(page->locks[0]->owner, "T3");
    assert_int_equal(page->locks[0]->waiters, 1);
}

TEST(list_counts_a_waiter_to_whom_the_lock_is_offered)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a:S"), "QUEUED");
    says(wait_at("S1", "T3", "a:S"), "QUEUED");
    release("T1", ""); /* and offers the lock to both */
    says(woken("S1", "T2"), "ACQUIRED");
    const lks_list_response *page = ask(list, .prefix = "");
    assert_string_equal(page->locks[0]->owner, "T2");
    assert_int_equal(page->locks[0]->holders, 1);
    assert_int_equal(page->locks[0]->waiters, 1);
}

TEST(a_free_name_is_acquired_without_waiting)
{
    says(wait_at("S1", "T1", "a b:S"), "ACQUIRED");
    says(wait_at("S1", "T2", "b:S"), "ACQUIRED");
    assert_int_equal(queue_keys(), 0);
}

TEST(the_lease_begins_at_the_claim)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    uint64_t before = (acquire("T3", "b"), fence());
    pass_seconds(300);
    release("T1", "");
    pass_seconds(1);
    says(woken("S1", "T2"), "ACQUIRED");
    assert_true(fence() > before);
    pass_seconds(900);
    says(acquire("T4", "a"), "BUSY a held by T2");
    about(acquired->holder->lease_ms, LEASE_MS - 900000);
}

TEST(nobody_overtakes)
{
    acquire("T1", "a:S");
    says(wait_at("S1", "T2", "a"), "QUEUED");
    says(acquire("T3", "a:S"), "BUSY a held by T1");
    says(wait_at("S2", "T4", "a:S"), "QUEUED");
    release("T1", "");
    says(deliver(), "T2");
    release("T2", "");
    says(deliver(), "T4");
}

TEST(readers_come_together)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a:S");
    wait_at("S2", "T3", "a:S");
    wait_at("S1", "T4", "a");
    wait_at("S1", "T5", "a:S");
    release("T1", "");
    says(messages(), "S1:W T2 S1:A a S2:W T3 S2:A a");
    says(woken("S2", "T3"), "ACQUIRED");
    says(woken("S1", "T2"), "ACQUIRED");
    says(inspect("a"), "SHARED T3 T2");
    release("T2", "");
    says(messages(), "");
    release("T3", "");
    says(deliver(), "T4");
    release("T4", "");
    says(deliver(), "T5");
}

TEST(permits_are_given_in_turn)
{
    acquire("T1", "a:P3/5");
    says(wait_at("S1", "T2", "a:P4/5"), "QUEUED");
    says(wait_at("S1", "T3", "a:P1/5"), "QUEUED"); /* though one is left */
    release("T1", "");
    says(deliver(), "T2 T3");
    says(inspect("a"), "PERMIT/5 T2=4 T3=1");
}

TEST(all_names_come_at_once)
{
    acquire("T1", "a");
    acquire("T2", "b");
    says(wait_at("S1", "T3", "a b"), "QUEUED");
    says(wait_at("S1", "T4", "b a"), "QUEUED");
    release("T1", "");
    says(messages(), "");
    says(acquire("T5", "a"), "BUSY a held by T3"); /* free, but its turn */
    release("T2", "");
    says(messages(), "S1:W T3 S1:A b S1:A a");
    says(acquire("T5", "a"), "BUSY a held by T3");
    says(woken("S1", "T3"), "ACQUIRED");
    assert_int_equal(acquired->n_fences, 2);
    release("T3", "a");
    says(deliver(), "");
    release("T3", "b");
    says(deliver(), "T4");
    release("T4", "");
    assert_int_equal(queue_keys(), 0);
}

TEST(a_wide_request_is_not_starved)
{
    acquire("T1", "a:S");
    acquire("T2", "b");
    says(wait_at("S1", "T3", "a b"), "QUEUED");
    says(wait_at("S1", "T4", "a:S"), "QUEUED"); /* would delay T3 */
    says(wait_at("S1", "T5", "b:S"), "QUEUED");
    says(acquire("T6", "c"), "ACQUIRED");
    release("T2", "");
    says(messages(), "");
    release("T1", "");
    says(deliver(), "T3");
    release("T3", "");
    says(deliver(), "T4 T5");
}

TEST(who_is_not_in_the_way_goes_past)
{
    acquire("T1", "b");
    says(wait_at("S1", "T2", "a:S b"), "QUEUED");
    says(acquire("T3", "a:S"), "ACQUIRED"); /* beside T2 */
    says(acquire("T4", "a"), "BUSY a held by T3");
    release("T1", "");
    says(deliver(), "T2");
    says(inspect("a"), "SHARED T3 T2");
}

TEST(the_end_of_a_lease_hands_over)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S2", "T3", "a");
    about(promote("a"), LEASE_MS);
    pass_seconds(1000);
    int64_t again = promote("a");
    assert_true(again > 0 && again <= 500);
    says(deliver(), "T2");
    about(promote("a"), LEASE_MS);
    says(acquire("T1", "a"), "TOKEN_SPENT");
    release("T2", "");
    says(deliver(), "T3");
    assert_int_equal(promote("a"), -1);
}

TEST(an_acquire_that_finds_a_lease_over_hands_over)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    pass_seconds(1000);
    says(acquire("T3", "a"), "BUSY a held by T2");
    says(deliver(), "T2");
}

TEST(force_release_hands_over)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    says(force_release("a"), "T1");
    says(force_release("a"), ""); /* an offer is not a holder */
    says(deliver(), "T2");
    says(acquire("T1", "a"), "TOKEN_SPENT");
}

TEST(a_waiter_arms_an_alarm_for_each_lease)
{
    acquire("T1", "a");
    pass_seconds(400);
    harness_waiting *w = start_at("S1", acquire_request("T2", "b a", LEASE_MS, WAIT_MS));
    assert_true(harness_is_parked(w));
    const service_alarm *alarm = harness_alarms(w);
    assert_non_null(alarm);
    assert_null(alarm->next); /* b is free */
    assert_string_equal(alarm->function, "lock_promote");
    assert_int_equal(alarm->argument.len, 1);
    assert_memory_equal(alarm->argument.data, "a", 1);
    about(alarm->in_ms, LEASE_MS - 400000);
    assert_true(alarm->in_ms > 0);
}

TEST(whoever_waits_is_told_of_an_end_that_is_sooner)
{
    acquire("T1", "a");
    wait_for_ms("S1", "T2", "a", 20, WAIT_MS);
    wait_at("S2", "T3", "a");
    release("T1", "");
    says(messages(), "S1:W T2 S1:A a S2:A a"); /* the offer's */
    says(woken("S1", "T2"), "ACQUIRED");
    says(messages(), "S1:A a S2:A a"); /* its lease is shorter */
}

/* ---- rules of modes ------------------------------------------------------------------ */

TEST(a_capacity_is_fixed_while_anyone_waits)
{
    acquire("T1", "a");
    says(wait_at("S1", "T2", "a:P1/3"), "QUEUED");
    says(wait_at("S1", "T3", "a:P1/4"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    says(acquire("T3", "a:P1/4"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    says(wait_at("S1", "T4", "a"), "QUEUED");
    timed_out("S1", "T2");
    says(wait_at("S1", "T5", "a:P1/4"), "QUEUED");
    release("T1", "");
    says(deliver(), "T4");
    release("T4", "");
    says(deliver(), "T5");
    says(inspect("a"), "PERMIT/4 T5=1");
}

/* ---- resources ------------------------------------------------------------------------ */

TEST(more_than_one_call_can_promote_is_continued)
{
    enum { N = 300 };
    char token[16];

    acquire("T1", "a");
    for (int i = 0; i < N; i++) {
        snprintf(token, sizeof token, "R%d", i);
        says(wait_at("S1", token, "a:S"), "QUEUED");
    }
    release("T1", "");
    int offered = atoi(harness_redis(h, "HLEN ls:{default/g}:lock:h:a"));
    assert_true(offered > 0 && offered < N);
    assert_non_null(strstr(messages(), "S1:A a"));
    int calls = 0;
    while (promote("a") == 0)
        calls++;
    assert_true(calls >= 1 && calls < 10);
    assert_int_equal(atoi(harness_redis(h, "HLEN ls:{default/g}:lock:h:a")), N);
    assert_string_equal(queue_of("a"), "");
    assert_int_equal(queue_keys(), 0);
    for (int i = 0; i < N; i++) {
        snprintf(token, sizeof token, "R%d", i);
        says(woken("S1", token), "ACQUIRED");
    }
}

static long commands_of_a_hand_over(int waiters)
{
    char token[16];

    harness_reset(h);
    acquire("H0", "a");
    for (int i = 1; i <= waiters; i++) {
        snprintf(token, sizeof token, "H%d", i);
        says(wait_at(i % 2 ? "S1" : "S2", token, "a"), "QUEUED");
    }
    long before = commands_run();
    says(release("H0", ""), "RELEASED");
    says(woken("S1", "H1"), "ACQUIRED");
    long spent = commands_run() - before;
    messages();
    return spent;
}

TEST(a_hand_over_is_the_same_number_of_commands_for_any_number_of_waiters)
{
    long ten = commands_of_a_hand_over(10);
    long many = commands_of_a_hand_over(1000);

    print_message("%ld commands\n", many);
    assert_int_equal(ten, many);
    assert_true(many <= 40);
}

TEST(waiting_ends_also_when_memory_is_short)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    wait_at("S1", "T3", "a");
    wait_at("S1", "T4", "a");
    harness_redis(h, "CONFIG SET maxmemory 1"); /* as renew_release, where Acquire is refused */
    says(timed_out("S1", "T3"), "TIMED_OUT a held by T1");
    says_begin(abandoned("S1", "T4"), "CANCELLED");
    promote("a");
    release("T1", "");
    says(woken("S1", "T2"), "ACQUIRED");
}

TEST(every_key_of_the_queue_ends)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a b:P1/2");
    wait_at("S1", "T3", "b:P1/2");
    abandoned("S1", "T3");
    wait_for_ms("S1", "T4", "a", 1000, 1); /* who waits for less does not shorten it */
    says(harness_redis(h, "EVAL %s 0",
                       "for _, key in ipairs(redis.call('KEYS', 'ls:{*')) do\n"
                       "  if redis.call('PTTL', key) <= 0 then return key end\n"
                       "end\n"
                       "return ''"),
         "");
    assert_true(atol(harness_redis(h, "PTTL ls:{default/g}:lock:t:%s", token_of("T2"))) > WAIT_MS + LEASE_MS);
    assert_true(atol(harness_redis(h, "PTTL ls:{default/g}:lock:w:a")) > 2 * 86400000);
    long ends = atol(harness_redis(h, "PEXPIRETIME ls:{default/g}:lock:n:a"));
    assert_int_equal(atol(harness_redis(h, "PEXPIRETIME ls:{default/g}:lock:w:a")), ends);
    assert_int_equal(atol(harness_redis(h, "PEXPIRETIME ls:{default/g}:lock:s:a")), ends);
}

TEST(a_clock_that_steps_back_keeps_the_order)
{
    acquire("T1", "a");
    wait_at("S1", "T2", "a");
    pass_seconds(-3000);
    wait_at("S2", "T3", "a:S");
    says(queue_of("a"), "T2 T3");
    release("T1", "");
    says(messages(), "S1:W T2 S1:A a S2:A a");
    pass_seconds(-3000); /* by its end, the offer would now last for long */
    promote("a");
    says(deliver(), "T3");
}

TEST(foreign_data_is_refused_and_left_alone)
{
    static const char refused[] = "FAILED_PRECONDITION NO the store holds foreign data under this name";
    static const char *const commands_[] = {
        "SET ls:{default/g}:lock:w:b foreign",  "SET ls:{default/g}:lock:s:b foreign",
        "SET ls:{default/g}:lock:n:b foreign",  "SETRANGE ls:{default/g}:lock:n:b 0 x",
        "SETRANGE ls:{default/g}:lock:n:b 1 x", "SET ls:{default/g}:lock:h:b foreign",
    };

    for (size_t i = 0; i < sizeof commands_ / sizeof commands_[0]; i++) {
        queue_reset(state);
        acquire("T1", "a b:S");
        acquire("T3", "b:S");
        wait_at("S1", "T4", "b c");
        harness_redis(h, commands_[i]);
        remember();
        says(wait_at("S1", "T2", "c a b"), refused);
        says(release("T1", ""), refused);
        says(force_release("b"), refused);
        says(release("T4", ""), refused);
        if (i >= 2)
            says(renew("T1", ""), refused);
        expect_unchanged();
    }
}

/* Entries that nobody had to read so far are read before anything is changed. */
TEST(foreign_entries_are_refused_and_left_alone)
{
    static const char refused[] = "FAILED_PRECONDITION NO the store holds foreign data under this name";

    acquire("T1", "a b:S");
    acquire_for("T3", "b:S", LEASE_MS / 2);
    harness_redis(h, "HSET ls:{default/g}:lock:h:b foreign-token-of-16 foreign-and-as-long-as-it-likes");
    remember();
    says(force_release("b"), refused);
    pass_seconds(LEASE_MS / 2000);
    says(release("T1", ""), refused);
    says(acquire("T2", "b"), refused);
    expect_unchanged();
}

int main(void)
{
    return TEST_RUN(.setup_all = script_open, .teardown_all = servers_close, .setup = queue_reset);
}

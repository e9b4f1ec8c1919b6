/* Modes: who may hold a name beside whom, semaphores, and many holders of one
 * name, some of whose leases are over. */
#include "services/lock_script.h"

#include <stdio.h>

TEST(each_mode_beside_each_other)
{
    static const struct {
        const char *first, *second, *said;
    } row[] = {
        {"a", "a", "BUSY a held by T1"},           {"a", "a b", "BUSY a held by T1"},
        {"a", "a:S", "BUSY a held by T1"},         {"a", "a:P1/9", "BUSY a held by T1"},
        {"a:S", "a", "BUSY a held by T1"},         {"a:S", "a:S", "ACQUIRED"},
        {"a:S", "a:P1/9", "BUSY a held by T1"},    {"a:P1/9", "a", "BUSY a held by T1"},
        {"a:P1/9", "a:S", "BUSY a held by T1"},    {"a:P1/9", "a:P1/9", "ACQUIRED"},
        {"a:P9/9", "a:P1/9", "BUSY a held by T1"}, {"a:P1/9", "a:P9/9", "BUSY a held by T1"},
        {"a:P8/9", "a:P1/9", "ACQUIRED"},
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        script_reset(state);
        says(acquire("T1", row[i].first), "ACQUIRED");
        remember();
        says(acquire("T2", row[i].second), row[i].said);
        if (strcmp(row[i].said, "ACQUIRED") != 0)
            expect_unchanged();
    }
}

TEST(permits_are_counted)
{
    says(acquire("T1", "a:P2/5"), "ACQUIRED");
    says(acquire("T2", "a:P3/5"), "ACQUIRED");
    says_begin(acquire("T3", "a:P1/5"), "BUSY a held by T");
    says(inspect("a"), "PERMIT/5 T1=2 T2=3");
    says(release("T1", ""), "RELEASED");
    says(acquire("T4", "a:P0/5"), "ACQUIRED"); /* none asked for is one */
    says(inspect("a"), "PERMIT/5 T2=3 T4=1");
    says_begin(acquire("T5", "a:P2/5"), "BUSY a held by T");
    says(acquire("T6", "a:P1/5"), "ACQUIRED");
    says(release("T2", ""), "RELEASED");
    says(release("T4", ""), "RELEASED");
    says(release("T6", ""), "RELEASED");
    says(acquire("T7", "a"), "ACQUIRED");
}

TEST(the_largest_semaphore_counts_exactly)
{
    says(acquire("T1", "a:P9007199254740990/9007199254740991"), "ACQUIRED");
    says(acquire("T2", "a:P2/9007199254740991"), "BUSY a held by T1");
    says(acquire("T3", "a:P1/9007199254740991"), "ACQUIRED");
    says_begin(acquire("T4", "a:P1/9007199254740991"), "BUSY a held by T");
    says(inspect("a"), "PERMIT/9007199254740991 T1=9007199254740990 T3=1");
}

TEST(a_capacity_is_fixed_while_anyone_holds)
{
    acquire("T1", "a:P1/5");
    remember();
    says(acquire("T2", "a:P1/6"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    says(acquire("T2", "b a:P1/4"), "FAILED_PRECONDITION NO targets[1].capacity: another one is in use");
    expect_unchanged();
    release("T1", "");
    says(acquire("T2", "a:P1/6"), "ACQUIRED");
    pass_seconds(1000);
    says(acquire("T3", "a:P7/7"), "ACQUIRED");
}

TEST(readers_share_and_a_writer_comes_after_the_last)
{
    acquire_for("T1", "a:S", 1000000);
    acquire_for("T2", "a:S", 2000000);
    says_begin(acquire("W1", "a"), "BUSY a held by T");
    pass_seconds(1500);
    says(acquire("W1", "a"), "BUSY a held by T2"); /* not T1, whose lease is over */
    about(acquired->holder->lease_ms, 500000);
    says(inspect("a"), "SHARED T2");
    says(acquire("T3", "a:S"), "ACQUIRED");
    pass_seconds(500);
    says(acquire("W2", "a"), "BUSY a held by T3");
    says(release("T3", ""), "RELEASED");
    says(acquire("W2", "a"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE W2");
}

TEST(permits_come_back_when_leases_end)
{
    acquire_for("T1", "a:P2/4", 1000000);
    acquire_for("T2", "a:P1/4", 3000000);
    acquire_for("T3", "a:P1/4", 2000000);
    pass_seconds(1500);
    says_begin(acquire("T4", "a:P3/4"), "BUSY a held by T");
    says(acquire("T5", "a:P2/4"), "ACQUIRED");
    says(inspect("a"), "PERMIT/4 T2=1 T3=1 T5=2");
    pass_seconds(1000);
    says(acquire("T6", "a:P3/4"), "ACQUIRED");
    says(inspect("a"), "PERMIT/4 T2=1 T6=3");
}

/* What nobody stopped by is left where it is: a release among leases that are over. */
TEST(leases_that_are_over_do_not_confuse_the_count)
{
    acquire_for("T1", "a:P1/9", 1000000);
    acquire_for("T2", "a:P1/9", 3000000);
    pass_seconds(1500);
    says(acquire("T3", "a:P1/9"), "ACQUIRED");
    says(release("T3", ""), "RELEASED");
    says(release("T1", ""), "NOT_HELD");
    says(release("T2", ""), "RELEASED");
    says(inspect("a"), "FREE");
    says(acquire("T4", "a"), "ACQUIRED");
    says(inspect("a"), "EXCLUSIVE T4");
}

TEST(a_renewed_reader_still_stands_in_the_way)
{
    acquire_for("T1", "a:S", 1000000);
    acquire_for("T2", "a:S", 1000000);
    pass_seconds(500);
    says(renew_for("T1", "", 2000000), "RENEWED");
    pass_seconds(1000);
    says(acquire("W1", "a"), "BUSY a held by T1");
    about(acquired->holder->lease_ms, 1000000);
    says(acquire("W1", "a"), "BUSY a held by T1");
    pass_seconds(1000);
    says(acquire("W1", "a"), "ACQUIRED");
}

TEST(a_renewal_does_not_hide_the_end_of_another_lease)
{
    acquire_for("T1", "a:P1/2", 1000000);
    acquire_for("T2", "a:P1/2", 1000000);
    says(renew_for("T1", "", 2000000), "RENEWED");
    pass_seconds(1500);
    says(acquire("T3", "a:P1/2"), "ACQUIRED");
    says(inspect("a"), "PERMIT/2 T1=1 T3=1");
}

static long calls_of(const char *command)
{
    return harness_commands(h, command);
}

/* Being refused again and again does not read all holders again and again. */
TEST(holders_are_read_once_after_a_lease_has_ended)
{
    acquire_for("T1", "a:S", 1000000);
    acquire_for("T2", "a:S", 3000000);
    pass_seconds(1500);
    harness_redis(h, "CONFIG RESETSTAT");
    for (int i = 0; i < 5; i++)
        says(acquire("W1", "a"), "BUSY a held by T2");
    assert_int_equal(calls_of("hgetall"), 1);
    says(harness_redis(h, "HLEN ls:{default/g}:lock:h:a"), "1"); /* T2 */
}

TEST(one_request_may_mix_modes)
{
    says(acquire("T1", "r:S w p:P1/1"), "ACQUIRED");
    says(acquire("T2", "r:S p:P1/1"), "BUSY p held by T1");
    says(acquire("T2", "r:S"), "ACQUIRED");
    says(release("T1", ""), "RELEASED");
    says(acquire("T3", "w p:P1/1"), "ACQUIRED");
    says(inspect("r"), "SHARED T2");
}

TEST(a_name_has_a_bounded_number_of_holders)
{
    enum { HOLDERS_MAX = 4096 };
    char alias[16];

    for (int i = 0; i < HOLDERS_MAX; i++) {
        snprintf(alias, sizeof alias, "T%d", i);
        says(acquire_for(alias, "a:S", i < 10 ? LEASE_MS : 3 * LEASE_MS), "ACQUIRED");
        if (i % 100 == 0)
            harness_forget(h);
    }
    /* While nobody's lease is over, that is known without reading them. */
    harness_redis(h, "CONFIG RESETSTAT");
    says(acquire("T4096", "a:S"), "RESOURCE_EXHAUSTED NO targets[0]: has 4096 holders");
    assert_int_equal(calls_of("hgetall"), 0);
    pass_seconds(1000);
    says(acquire("T4096", "a:S"), "ACQUIRED");
    /* They are described in parts: 4,087 are 16 times 256 or less. */
    harness_redis(h, "CONFIG RESETSTAT");
    inspect("a");
    assert_int_equal(calls_of("fcall"), 1 + 16);
    assert_int_equal(inspected->n_holders, HOLDERS_MAX - 9);
    for (size_t i = 1; i < inspected->n_holders; i++)
        assert_true(inspected->holders[i]->fence > inspected->holders[i - 1]->fence);
    assert_string_equal(inspected->holders[0]->owner, "T10");
    harness_redis(h, "CONFIG RESETSTAT");
    force_release("a");
    assert_int_equal(calls_of("fcall"), 1 + 16);
    says(inspect("a"), "FREE");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

/* The stored form of a group in the ensemble, and its time. */
#include <stdlib.h>

#include "quorum/group_clock.h"
#include "quorum/stored.h"
#include "test.h"

enum {
    MS = 1000000,
    APART_US = GROUP_CLOCK_APART_MS * 1000,
    SLACK_US = GROUP_CLOCK_SLACK_MS * 1000,
    LEASE_US = 5000000
};

/* ---- time ------------------------------------------------------------------------------ */

TEST(time_advances_a_little_slower_than_the_clock)
{
    const group_clock c = {.time_us = 1000, .at_ns = 5 * MS};

    assert_int_equal(group_clock_now(&c, 5 * MS), 1000);
    assert_int_equal(group_clock_now(&c, 1005 * MS), 1000 + 999000);
}

TEST(a_write_that_is_ahead_is_adopted)
{
    group_clock c = {.time_us = 1000, .at_ns = 5 * MS};

    group_clock_see(&c, 2000, 5 * MS);
    assert_int_equal(group_clock_now(&c, 5 * MS), 2000);
}

/* Else two servers that write in turns would stop the time. */
TEST(a_write_that_is_a_little_behind_does_not_hold_the_time)
{
    group_clock c = {.time_us = APART_US, .at_ns = 5 * MS};

    group_clock_see(&c, 0, 5 * MS);
    assert_int_equal(group_clock_now(&c, 5 * MS), APART_US);
    group_clock_see(&c, -1, 5 * MS);
    assert_int_equal(group_clock_now(&c, 5 * MS), -1);
}

/* Servers start, write and read at random moments. For each lease the time of no server passes its end,
 * which is stored with the slack, before it has really passed. */
TEST(no_lease_ends_early)
{
    enum { SERVERS = 3, STEPS = 20000 };
    group_clock servers[SERVERS] = {0};
    uint64_t now_ns = MS;
    int64_t stored_us = 1000000, lease_end_us = 0;
    uint64_t lease_ends_ns = 0;

    srand(7);
    for (int i = 0; i < SERVERS; i++)
        group_clock_see(&servers[i], stored_us, now_ns);
    for (int step = 0; step < STEPS; step++) {
        group_clock *c = &servers[rand() % SERVERS];
        const int late_ms = step % 1000 < 500 ? 60 : 600; /* within the slack, and far beyond it */
        now_ns += (uint64_t)(rand() % late_ms) * MS;
        if (rand() % 8 == 0)
            *c = (group_clock){0}; /* a server that has just started, and lags behind by the age of the write */
        group_clock_see(c, stored_us, now_ns); /* a write is made over what was read */
        const int64_t time_us = group_clock_now(c, now_ns);
        if (lease_end_us > 0 && time_us >= lease_end_us)
            assert_true(now_ns >= lease_ends_ns);
        if (lease_end_us == 0 || time_us >= lease_end_us) {
            lease_end_us = time_us + LEASE_US + SLACK_US;
            lease_ends_ns = now_ns + (uint64_t)LEASE_US * 1000;
        }
        stored_us = time_us;
        now_ns += (uint64_t)(rand() % late_ms) / 2 * MS; /* until it is applied and others can see it */
    }
}

/* Each server is ahead of the one before by as much as it may be without stepping back, and sees that one's write only. The
 * first has granted a lease, which the last would end early but for the slack. */
TEST(the_slack_covers_servers_that_are_apart)
{
    const uint64_t early_ns = MS + (uint64_t)LEASE_US * 1000 - 50 * MS;
    group_clock c = {.time_us = 0, .at_ns = MS};
    const int64_t end_us = group_clock_now(&c, MS) + LEASE_US;

    for (int i = 1; i < GROUP_CLOCK_SERVERS; i++) {
        const int64_t written_us = group_clock_now(&c, MS);
        c = (group_clock){.time_us = i * APART_US, .at_ns = MS};
        group_clock_see(&c, written_us, MS);
    }
    assert_true(group_clock_now(&c, early_ns) >= end_us);
    assert_true(group_clock_now(&c, early_ns) < end_us + SLACK_US);
}

/* ---- stored form -------------------------------------------------------------------- */

static lks_rpc_slice text(const char *of)
{
    return lks_rpc_slice_of(of);
}

static void fill(stored_group *s)
{
    s->time_us = 123456789;
    keys_set(s->keys, text("a"), text("1"), 5);
    stored_note_write(s, "first", 7);
    stored_note_write(s, "second", 8);
    stored_send(s, text("first"), text("W key"), 10);
    stored_send(s, text("second"), text("A 1"), 11);
}

TEST(a_group_comes_back_as_it_was)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    stored_group s, read;

    stored_init(&s);
    stored_init(&read);
    fill(&s);
    const lks_rpc_slice packed = stored_pack(&s, arena);
    assert_true(stored_unpack(&read, packed.data, packed.len));
    const lks_rpc_slice again = stored_pack(&read, arena);
    assert_int_equal(packed.len, again.len);
    assert_memory_equal(packed.data, again.data, packed.len);
    assert_int_equal(stored_write_of(&read, "first"), 7);
    assert_int_equal(stored_write_of(&read, "nobody"), 0);
    assert_int_equal(read.sent, 2);
    assert_string_equal(TAILQ_FIRST(&read.messages)->text, "W key");
    stored_free(&s);
    stored_free(&read);
    lks_rpc_arena_free(arena);
}

TEST(bytes_that_are_no_group_are_refused)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    stored_group s, read;

    stored_init(&s);
    stored_init(&read);
    fill(&s);
    const lks_rpc_slice packed = stored_pack(&s, arena);
    for (size_t len = 0; len < packed.len; len++)
        assert_false(stored_unpack(&read, packed.data, len));
    char *other = lks_rpc_arena_copy(arena, packed.data, packed.len);
    for (size_t i = 0; i < packed.len; i++) {
        other[i] ^= 0x40;
        stored_unpack(&read, other, packed.len); /* whatever it is: no access beyond it */
        other[i] ^= 0x40;
    }
    stored_free(&s);
    stored_free(&read);
    lks_rpc_arena_free(arena);
}

TEST(the_oldest_writer_makes_room)
{
    char name[16];
    stored_group s;

    stored_init(&s);
    for (int i = 0; i <= STORED_WRITERS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        stored_note_write(&s, name, (uint64_t)i + 1);
    }
    assert_int_equal(s.n_writers, STORED_WRITERS);
    assert_int_equal(stored_write_of(&s, "s0"), 0);
    assert_int_equal(stored_write_of(&s, "s1"), 2);
    stored_note_write(&s, "s1", 50);
    assert_int_equal(stored_write_of(&s, "s1"), 50);
    assert_int_equal(s.n_writers, STORED_WRITERS);
    stored_free(&s);
}

TEST(old_messages_go)
{
    stored_group s;

    stored_init(&s);
    for (int i = 0; i < STORED_MESSAGES + 10; i++)
        stored_send(&s, text("x"), text("m"), 0);
    assert_int_equal(s.n_messages, STORED_MESSAGES);
    assert_int_equal(TAILQ_FIRST(&s.messages)->number, 11);
    stored_send(&s, text("x"), text("m"), 60000000);
    assert_int_equal(s.n_messages, 1);
    stored_free(&s);
}

TEST_MAIN()

/* The lock store over an ensemble of the test's own: which requests a call makes, and what becomes of it when they
 * fail, are lost, or another server was faster. */
#include "quorum_scene.h"

/* ---- writes are shared ----------------------------------------------------------------- */

TEST(calls_of_a_turn_share_a_write_and_groups_a_multi)
{
    call *x = acquire(&a, "g", "t1", "x"), *again = acquire(&a, "g", "t2", "x"), *other = acquire(&a, "h", "t3", "y");

    answers(&a, "get ns%2Fg");
    fake_answer(a.z); /* "get ns%2Fh" in the same turn */
    expects(&a, "check /floor 0, create ns%2Fg, create ns%2Fh");
    assert_int_equal(fake_waiting(a.z), 1);
    assert_int_equal(x->answers + again->answers + other->answers, 0);
    fake_answer(a.z);
    assert_true(is_granted(x));
    assert_says(again, "BUSY 0 o 30000");
    assert_true(is_granted(other));
    expects(&a, "");
}

/* ---- another server was faster --------------------------------------------------------- */

TEST(conflict_rereads_the_group_and_reruns_the_call)
{
    open_both();
    done(&a, acquire(&a, "g", "t0", "y"));
    done(&a, acquire(&a, "h", "t0", "y"));
    call *mine = acquire(&a, "g", "t1", "x"), *other = release(&a, "h", "t0");
    expects(&a, "check /floor 0, set ns%2Fg 0, set ns%2Fh 0");
    const lks_rpc_slice data = fake_data(a.z, 2);
    done(&b, acquire(&b, "g", "t2", "x"));
    fake_answer(a.z);
    assert_int_equal(mine->answers + other->answers, 0);
    answers(&a, "check /floor 0, set ns%2Fh 0");
    assert_int_equal(fake_find(path_of_group("h"))->len, data.len);
    assert_memory_equal(fake_find(path_of_group("h"))->data, data.data, data.len);
    assert_says(other, "RELEASED");
    answers(&a, "sync ns%2Fg");
    assert_int_equal(mine->answers, 0);
    answers(&a, "check /floor 0, check ns%2Fg 1");
    assert_says(mine, "BUSY 0 o");
    assert_int_equal(other->answers, 1);
}

/* Its write waits for its answer. */
static call *write_acquire(void)
{
    call *c = acquire(&a, "g", "t1", "x");

    answers(&a, "get ns%2Fg");
    expects(&a, "check /floor 0, create ns%2Fg");
    return c;
}

/* ---- the outcome is not known ---------------------------------------------------------- */

TEST(a_lost_write_that_was_applied_gives_its_first_answer)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    call *c = release(&a, "g", "t1");
    expects(&a, "check /floor 0, set ns%2Fg 0");
    fake_lose(a.z, true);
    assert_int_equal(c->answers, 0);
    answers(&a, "sync ns%2Fg");
    assert_string_equal(c->text, "RELEASED"); /* a repeat is "RELEASED 1" */
    expects(&a, "");
    assert_int_equal(fake_find(path_of_group("g"))->version, 1);
}

TEST(a_write_of_another_server_with_the_same_number_is_not_taken_for_the_lost_one)
{
    open_both();
    call *c = write_acquire(); /* its write 1, as that of b */

    done(&b, acquire(&b, "g", "t2", "x"));
    fake_lose(a.z, false);
    settle_all(&a);
    assert_says(c, "BUSY 0 o");
}

/* The server has forgotten the group, as after many others. The lost write was not applied, so it is made again. */
TEST(write_numbers_continue_from_the_stored_one)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    server_close(&a);
    server_open(&a, "a", true);
    call *c = release(&a, "g", "t1");
    answers(&a, "get ns%2Fg");
    expects(&a, "check /floor 0, set ns%2Fg 0");
    fake_lose(a.z, false);
    answers(&a, "sync ns%2Fg");
    assert_int_equal(c->answers, 0);
    answers(&a, "check /floor 0, set ns%2Fg 0");
    assert_says(c, "RELEASED");
}

/* ---- a write that was not sent, and deadlines ------------------------------------------- */

TEST(a_call_that_was_not_sent_ends_at_its_deadline_without_effect)
{
    call *c = write_acquire();

    fake_fail(a.z, ZK_NOT_SENT, 0);
    pass_ms(&a, CALL_MS - 1);
    assert_int_equal(c->answers, 0);
    pass_ms(&a, 1);
    assert_ended(c, DEADLINE_EXCEEDED, NO);
}

/* Requests lost with the connection end before the state is reported, or after it. */
static void lose_connection(bool state_first)
{
    call *unsent = acquire(&a, "g", "t1", "x"), *lost = acquire(&a, "h", "t1", "x");

    answers(&a, "get ns%2Fg");
    expects(&a, "get ns%2Fh");
    if (state_first)
        fake_down(a.z, "gone");
    fake_answer(a.z);
    fake_fail(a.z, ZK_NOT_SENT, 0);
    if (!state_first)
        fake_down(a.z, "gone");
    pass_ms(&a, 999);
    assert_int_equal(unsent->answers + lost->answers, 0);
    pass_ms(&a, 1);
    assert_ended(unsent, UNAVAILABLE, NO);
    assert_ended(lost, UNAVAILABLE, NO);
}

TEST(calls_that_end_before_the_connection_is_lost_end_after_a_second)
{
    lose_connection(false);
}

TEST(calls_that_end_after_the_connection_was_lost_end_after_a_second)
{
    lose_connection(true);
}

TEST(a_call_whose_outcome_is_not_known_ends_a_second_after_the_connection)
{
    call *c = write_acquire();

    fake_lose(a.z, true);
    fake_down(a.z, "gone");
    pass_ms(&a, 1000);
    assert_ended(c, UNAVAILABLE, MAYBE);
    fake_up(a.z, false);
    assert_says(done(&a, acquire(&a, "g", "t2", "x")), "BUSY 0 o");
}

/* This was a use after free. */
TEST(a_call_that_ended_while_it_was_written_is_not_touched_and_has_its_effect)
{
    call *c = write_acquire();

    pass_ms(&a, CALL_MS);
    assert_ended(c, DEADLINE_EXCEEDED, MAYBE);
    call_free(c);
    fake_answer(a.z);
    assert_says(done(&a, acquire(&a, "g", "t2", "x")), "BUSY 0 o");
}

TEST(call_that_ended_during_its_write_is_not_repeated)
{
    call *c = write_acquire();

    pass_ms(&a, CALL_MS);
    call_free(c);
    fake_fail(a.z, ZK_NOT_SENT, 0);
    assert_true(is_granted(done(&a, acquire(&a, "g", "t2", "x"))));
}

/* ---- calls that change nothing ---------------------------------------------------------- */

TEST(a_call_that_changes_nothing_is_answered_after_a_check)
{
    open_both();
    done(&a, acquire(&a, "g", "t1", "x"));
    call *c = ask(&a, "lock_inspect g y");
    expects(&a, "check /floor 0, check ns%2Fg 0");
    assert_int_equal(c->answers, 0);
    fake_answer(a.z);
    assert_ended(c, OK, YES);
    call *late = acquire(&a, "g", "t2", "x");
    expects(&a, "check /floor 0, check ns%2Fg 0");
    done(&b, release(&b, "g", "t1"));
    fake_answer(a.z);
    settle_all(&a);
    assert_true(is_granted(late));
}

/* Else another server, whose time of the group differs, might answer otherwise later. */
TEST(an_answer_that_a_lease_runs_or_has_ended_is_written_with_the_time)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    call *again = acquire(&a, "g", "t1", "x");
    expects(&a, "check /floor 0, set ns%2Fg 0");
    assert_says(done(&a, again), "ACQUIRED");
    pass_ms(&a, 2 * LEASE_MS);
    call *late = release(&a, "g", "t1");
    expects(&a, "check /floor 0, set ns%2Fg 1");
    assert_says(done(&a, late), "NOT_HELD");
}

TEST(that_a_group_is_missing_is_checked_by_making_and_deleting_it)
{
    call *c = ask(&a, "lock_inspect g y");

    answers(&a, "get ns%2Fg");
    expects(&a, "check /floor 0, create ns%2Fg, delete ns%2Fg");
    assert_int_equal(c->answers, 0);
    fake_answer(a.z);
    assert_ended(c, OK, YES);
    assert_null(fake_find(path_of_group("g")));
}

/* ---- messages --------------------------------------------------------------------------- */

TEST(a_message_for_this_server_is_delivered_after_the_write)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    call *c = release(&a, "g", "t1");
    expects(&a, "check /floor 0, set ns%2Fg 1");
    fake_fail(a.z, ZK_NOT_SENT, 0); /* it is made again */
    answers(&a, "sync ns%2Fg");
    expects(&a, "check /floor 0, set ns%2Fg 1");
    assert_string_equal(a.heard, "");
    assert_int_equal(c->answers, 0);
    fake_answer(a.z);
    assert_says(c, "RELEASED");
    assert_text_begins(a.heard, "R ");
    assert_null(strchr(strchr(a.heard, '\n') + 1, '\n')); /* once */
}

TEST(a_lost_write_that_was_applied_delivers_its_messages)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    release(&a, "g", "t1");
    expects(&a, "check /floor 0, set ns%2Fg 1");
    fake_lose(a.z, true);
    assert_string_equal(a.heard, "");
    settle_all(&a);
    assert_text_begins(a.heard, "R ");
}

TEST(a_message_for_another_server_is_in_the_node_and_that_server_delivers_it_once)
{
    open_both();
    done(&b, acquire(&b, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    done(&b, release(&b, "g", "t1"));
    assert_string_equal(TAILQ_FIRST(&group_in_node("g")->messages)->server, "a");
    assert_string_equal(b.heard, "");
    assert_string_equal(a.heard, "");
    settle_all(&a); /* its watch has fired */
    assert_text_begins(a.heard, "W ");
    const size_t len = strlen(a.heard);
    done(&b, acquire(&b, "g", "t3", "y")); /* the message is still there */
    done(&a, acquire(&a, "g", "t4", "z"));
    assert_int_equal(strlen(a.heard), len);
}

TEST(messages_from_before_the_group_was_known_are_not_delivered)
{
    open_both();
    done(&b, acquire(&b, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    done(&b, release(&b, "g", "t1"));
    server_close(&a);
    server_open(&a, "a", true);
    done(&a, acquire(&a, "g", "t3", "y"));
    assert_string_equal(a.heard, "");
}

TEST(gap_in_message_numbers_refreshes_all_waiters)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    stored_group *s = group_in_node("g");
    stored_send(s, lks_rpc_slice_of("a"), lks_rpc_slice_of("W 1"), s->time_us);
    write_group("g", s);
    settle_all(&a);
    assert_string_equal(a.heard, "W 1\n");
    assert_int_equal(a.listened, 0);
    s->sent++; /* one that was dropped */
    stored_send(s, lks_rpc_slice_of("a"), lks_rpc_slice_of("W 3"), s->time_us + 20000000);
    write_group("g", s);
    settle_all(&a);
    assert_string_equal(a.heard, "W 1\nW 3\n");
    assert_int_equal(a.listened, 1);
}

TEST(messages_that_this_server_sent_are_no_gap)
{
    open_both();
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&b, park(&b, "g", "t2", "x"));
    done(&a, release(&a, "g", "t1"));
    stored_group *s = group_in_node("g");
    assert_int_equal(s->sent, 1);
    stored_send(s, lks_rpc_slice_of("b"), lks_rpc_slice_of("W 2"), s->time_us + 20000000); /* drops the first one */
    write_group("g", s);
    done(&a, acquire(&a, "g", "t3", "y"));
    assert_int_equal(a.listened, 0);
}

/* ---- watches ---------------------------------------------------------------------------- */

TEST(a_group_with_parked_calls_is_watched)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    uv_run(&loop, UV_RUN_NOWAIT);
    park(&a, "g", "t2", "x");
    answers(&a, "check /floor 0, set ns%2Fg 0");
    answers(&a, "watch ns%2Fg");
    expects(&a, "");
    write_group("g", group_in_node("g"));
    answers(&a, "get ns%2Fg");
    answers(&a, "watch ns%2Fg"); /* the next write, too */
    expects(&a, "");
}

TEST(a_write_before_the_watch_is_set_is_noticed)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    park(&a, "g", "t2", "x");
    answers(&a, "check /floor 0, set ns%2Fg 0");
    expects(&a, "watch ns%2Fg");
    write_group("g", group_in_node("g"));
    fake_answer(a.z);
    expects(&a, "get ns%2Fg");
}

TEST(new_session_rereads_groups_with_parked_calls)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    done(&a, acquire(&a, "h", "t1", "x"));
    fake_down(a.z, "gone");
    fake_up(a.z, true);
    while (!a.ready)
        fake_answer(a.z);
    assert_int_equal(a.listened, 1);
    answers(&a, "get ns%2Fg");
    answers(&a, "watch ns%2Fg");
    expects(&a, "");
}

/* ---- groups that are large --------------------------------------------------------------- */

#define BASE "ls:{ns/g}:"

/* Puts a string of so many zeros into the group. */
static void put(const char *key, size_t len, int64_t ends_in_us, const char *begin)
{
    char *value = calloc(1, len);
    stored_group *s = group_in_node("g");

    memcpy(value, begin, strlen(begin));
    keys_set(s->keys, lks_rpc_slice_of(key), (lks_rpc_slice){value, len}, ends_in_us ? s->time_us + ends_in_us : 0);
    write_group("g", s);
    free(value);
}

TEST(full_group_refuses_calls_that_make_it_grow)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    put(BASE "big", 600 * 1024, 0, "");
    assert_ended(done(&a, acquire(&a, "g", "t2", "y")), RESOURCE_EXHAUSTED, NO);
    assert_says(done(&a, release(&a, "g", "t1")), "RELEASED");
}

static bool has_key(const char *key)
{
    return keys_find(group_in_node("g")->keys, lks_rpc_slice_of(key));
}

TEST(large_groups_keep_spent_tokens_for_thirty_seconds)
{
    static const int64_t s_us = 1000000;

    done(&a, acquire(&a, "g", "t1", "x"));
    put(BASE "lock:t:old", 40, 569 * s_us, "\2X");
    put(BASE "lock:t:holds", 40, 569 * s_us, "\2H");
    put(BASE "lock:t:young", 40, 571 * s_us, "\2X");
    done(&a, acquire(&a, "g", "t2", "y"));
    assert_true(has_key(BASE "lock:t:old"));
    put(BASE "big", 129 * 1024, 0, "");
    done(&a, acquire(&a, "g", "t3", "z"));
    assert_false(has_key(BASE "lock:t:old"));
    assert_true(has_key(BASE "lock:t:holds"));
    assert_true(has_key(BASE "lock:t:young"));
}

/* More than all requests that may be under way hold. */
TEST(all_groups_of_a_turn_are_written)
{
    enum { GROUPS = 8 * 64 + 100 };
    static call *calls[GROUPS];
    char name[16];

    for (int i = 0; i < GROUPS; i++) {
        snprintf(name, sizeof name, "g%d", i);
        calls[i] = acquire(&a, name, "t1", "x");
    }
    settle_all(&a);
    for (int i = 0; i < GROUPS; i++)
        assert_true(is_granted(calls[i]));
}

/* The groups that are sent again must find room, though as many wait to be sent. */
TEST(many_groups_are_written_again_beside_many_that_wait)
{
    enum { FULL = 64, MORE = 7, ALL = 2 * FULL + MORE };
    call *calls[ALL];
    char name[16];

    for (int i = 0; i < ALL; i++) {
        snprintf(name, sizeof name, "g%d", i);
        done(&a, acquire(&a, name, "t", "x"));
    }
    for (int i = 0; i < ALL; i++) {
        snprintf(name, sizeof name, "g%d", i);
        calls[i] = release(&a, name, "t");
        if (i >= FULL - 1 && i < FULL + MORE)
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(fake_waiting(a.z), MORE + 1);
    fake_fail(a.z, ZK_BAD_VERSION, 1);
    settle_all(&a);
    for (int i = 0; i < ALL; i++)
        assert_says(calls[i], "RELEASED");
}

/* ---- refusals of the ensemble ------------------------------------------------------------ */

static void refuse_one_of_two(zk_code code, const char *words)
{
    call *refused = acquire(&a, "g", "t1", "x"), *other = acquire(&a, "h", "t1", "x");

    answers(&a, "get ns%2Fg");
    fake_answer(a.z);
    expects(&a, "check /floor 0, create ns%2Fg, create ns%2Fh");
    fake_fail(a.z, code, 1);
    assert_ended(refused, UNAVAILABLE, NO);
    assert_text_begins(refused->text, words);
    answers(&a, "check /floor 0, create ns%2Fh");
    assert_true(is_granted(other));
    expects(&a, "");
}

TEST(a_write_that_is_denied_ends_its_calls_with_words)
{
    refuse_one_of_two(ZK_NO_AUTH, "the lock store denies access");
}

TEST(a_write_that_is_refused_ends_its_calls_with_words)
{
    refuse_one_of_two(ZK_REFUSED, "the lock store refuses writes");
}

TEST(foreign_bytes_end_the_calls)
{
    fake_write(path_of_group("g"), lks_rpc_slice_of("not ours"));
    assert_ended(done(&a, acquire(&a, "g", "t1", "x")), FAILED_PRECONDITION, NO);
}

TEST_MAIN(.setup = scene_setup_a, .teardown = scene_teardown)

/* The lock store over an ensemble of the test's own: the nodes beside the groups, groups that are forgotten, and the end. */
#include "quorum_scene.h"

#include <time.h>

/* ---- the nodes beside the groups ----------------------------------------------------------- */

TEST_WITH(all_nodes_are_made_at_once_and_then_the_server_is_ready, scene_setup, scene_teardown)
{
    server_open(&a, "a", false);
    fake_up(a.z, true);
    assert_text_begins(fake_next(a.z),
                       "create /groups, create /servers, create /floor, create /forced, create /groups/00");
    fake_answer(a.z);
    assert_non_null(fake_find(NODES_GROUPS "/ff"));
    answers(&a, "ephemeral /servers/a");
    answers(&a, "watch /servers");
    answers(&a, "get /floor");
    assert_false(a.ready);
    answers(&a, "watch /forced");
    assert_true(a.ready);
    assert_int_equal(a.listened, 1);
}

TEST(the_node_of_the_session_before_is_replaced)
{
    fake_write(NODES_SERVERS "/b", lks_rpc_slice_of(""));
    server_open(&b, "b", false);
    fake_up(b.z, true);
    fake_answer(b.z);
    answers(&b, "ephemeral /servers/b");
    expects(&b, "delete /servers/b, ephemeral /servers/b");
    fake_fail(b.z, ZK_NO_NODE, 0); /* it has just gone */
    answers(&b, "ephemeral /servers/b");
    settle_all(&b);
    assert_ptr_equal(fake_find(NODES_SERVERS "/b")->owner, b.z);
    assert_true(b.ready);
}

TEST(without_access_calls_end_with_words)
{
    server_open(&b, "b", false);
    fake_up(b.z, true);
    fake_fail(b.z, ZK_NO_AUTH, 0);
    assert_false(b.ready);
    assert_string_equal(b.fault, "the lock store denies access to its nodes");
    call *c = acquire(&b, "g", "t1", "x");
    pass_ms(&b, 1000);
    assert_ended(c, UNAVAILABLE, NO);
    assert_string_equal(c->text, b.fault);
    settle_all(&b); /* access is granted: the server tries again */
    assert_true(b.ready);
}

TEST(missing_node_is_an_error_until_it_is_back)
{
    server_open(&b, "b", false);
    fake_up(b.z, true);
    fake_answer(b.z);
    expects(&b, "ephemeral /servers/b");
    fake_fail(b.z, ZK_NO_NODE, 0);
    assert_string_equal(b.fault, "the path of the lock store, or a node that lockstockd made there, is gone");
    expects(&b, "");
    pass_ms(&b, 1000);
    settle_all(&b);
    assert_true(b.ready);
}

TEST(unsent_request_of_a_step_is_repeated)
{
    server_open(&b, "b", false);
    fake_up(b.z, true);
    fake_answer(b.z);
    expects(&b, "ephemeral /servers/b");
    fake_fail(b.z, ZK_NOT_SENT, 0); /* the connection stays */
    pass_ms(&b, 1000);
    settle_all(&b);
    assert_true(b.ready);
}

TEST(servers_are_listed_again_when_the_request_was_not_taken)
{
    open_both();
    server_close(&b);
    expects(&a, "watch /servers");
    fake_fail(a.z, ZK_NOT_SENT, 0);
    call *c = acquire(&a, "g", "t1", "x");
    expects(&a, "");
    pass_ms(&a, 1000);
    assert_true(is_granted(done(&a, c)));
}

TEST(calls_end_soon_when_the_nodes_cannot_be_used_any_more)
{
    open_both();
    server_close(&b);
    call *c = acquire(&a, "g", "t1", "x");
    expects(&a, "watch /servers");
    fake_fail(a.z, ZK_NO_AUTH, 0);
    assert_false(a.ready);
    pass_ms(&a, 1000);
    assert_ended(c, UNAVAILABLE, NO);
}

TEST(a_group_that_may_not_be_read_ends_its_calls)
{
    call *c = acquire(&a, "g", "t1", "x");

    expects(&a, "get ns%2Fg");
    fake_fail(a.z, ZK_NO_AUTH, 0);
    assert_ended(c, UNAVAILABLE, NO);
    expects(&a, "");
}

/* The server has read the waiter, and knows by a watch only that there is a server more. */
TEST(waiter_at_a_newly_started_server_is_not_skipped)
{
    open_both();
    done(&b, acquire(&b, "g", "t1", "x"));
    server_close(&b);
    settle_all(&a);
    call *c = release(&a, "g", "t1");
    expects(&a, "get ns%2Fg");
    server_open(&b, "b", true);
    done(&b, park(&b, "g", "t2", "x"));
    answers(&a, "get ns%2Fg");
    answers(&a, "watch /servers");
    done(&a, c);
    settle_all(&b);
    assert_text_begins(b.heard, "W ");
}

/* ---- groups that were forgotten ---------------------------------------------------------- */

static void set_floor(int64_t floor_us)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)floor_us);
    fake_write(NODES_FLOOR, lks_rpc_slice_of(text));
}

static int64_t tomorrow_us(int days)
{
    return ((int64_t)time(NULL) + days * 86400) * 1000000;
}

TEST_WITH(a_new_group_begins_above_the_floor, scene_setup, scene_teardown)
{
    const int64_t floor_us = tomorrow_us(1);

    server_open(&a, "a", true);
    server_close(&a);
    set_floor(floor_us);
    server_open(&a, "a", true);
    assert_true(strtoll(done(&a, acquire(&a, "g", "t1", "x"))->text, NULL, 10) > floor_us);
}

TEST(when_the_floor_was_raised_the_group_is_made_again_above_it)
{
    const int64_t floor_us = tomorrow_us(2);
    call *c = acquire(&a, "g", "t1", "x");

    answers(&a, "get ns%2Fg");
    expects(&a, "check /floor 0, create ns%2Fg");
    set_floor(floor_us);
    fake_answer(a.z);
    answers(&a, "sync /floor");
    answers(&a, "sync ns%2Fg");
    answers(&a, "check /floor 1, create ns%2Fg");
    assert_true(is_granted(c));
    assert_true(strtoll(c->text, NULL, 10) > floor_us);
}

TEST(lease_ends_although_its_group_is_reread)
{
    call *c = done(&a, acquire(&a, "g", "t1", "x"));

    for (int i = 0; i < 2; i++) {
        pass_ms(&a, LEASE_MS / 3 * 2);
        set_floor(tomorrow_us(2 + i));
        nodes_read_floor(a.q->nodes);
        settle_all(&a);
        c = done(&a, acquire(&a, "g", "t2", "x"));
    }
    assert_true(is_granted(c));
}

TEST(a_lease_that_calls_wait_for_ends_although_the_connection_breaks)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, park(&a, "g", "t2", "x"));
    for (int i = 0; i < 2; i++) {
        pass_ms(&a, LEASE_MS / 3 * 2);
        fake_down(a.z, "gone");
        fake_up(a.z, false);
        settle_all(&a);
    }
    assert_says(done(&a, ask(&a, "lock_promote g x")), "");
    assert_text_begins(a.heard, "W ");
}

TEST(a_lease_ends_although_a_write_of_another_call_was_in_doubt)
{
    char token[16];

    done(&a, acquire(&a, "g", "t1", "x"));
    for (int i = 0; i < 8; i++) {
        snprintf(token, sizeof token, "other%d", i);
        call *c = acquire(&a, "g", token, token);
        uv_run(&loop, UV_RUN_NOWAIT);
        fake_lose(a.z, true);
        pass_ms(&a, CALL_MS - 1);
        done(&a, c);
    }
    assert_true(is_granted(done(&a, acquire(&a, "g", "t2", "x"))));
}

static void find_many_groups(quorum *q, int round)
{
    char base[64];

    for (int i = 0; i < 20000; i++) {
        snprintf(base, sizeof base, "ls:{ns/%d-%d}:", round, i);
        group_find(q, lks_rpc_slice_of(base));
    }
}

TEST(a_lease_ends_although_very_many_other_groups_are_used)
{
    call *c = done(&a, acquire(&a, "g", "t1", "x"));

    for (int i = 0; i < 2; i++) {
        pass_ms(&a, LEASE_MS / 3 * 2);
        find_many_groups(a.q, i);
        c = done(&a, acquire(&a, "g", "t2", "x"));
    }
    assert_true(is_granted(c));
    assert_true(HASH_COUNT(a.q->groups) < 20000);
}

/* The call's write is applied only after that time. */
static void take_slowly(server *s, const call *c, uint64_t ms)
{
    for (uv_run(&loop, UV_RUN_NOWAIT); c->answers == 0; uv_run(&loop, UV_RUN_NOWAIT)) {
        if (strncmp(fake_next(s->z), "check", strlen("check")) == 0)
            pass_ms(s, ms);
        fake_answer(s->z);
    }
}

/* The token of the other lock asks again and again; its answer is written with the time. */
TEST(a_lease_ends_although_two_servers_write_in_turn)
{
    open_both();
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&b, acquire(&b, "g", "other", "y"));
    for (uint64_t ms = 0; ms < 2 * LEASE_MS; ms += GROUP_CLOCK_APART_MS / 2) {
        server *s = ms % GROUP_CLOCK_APART_MS ? &a : &b;
        call *c = acquire(s, "g", "other", "y");
        take_slowly(s, c, GROUP_CLOCK_APART_MS / 2);
        call_free(c);
    }
    assert_true(is_granted(done(&a, acquire(&a, "g", "t2", "x"))));
}

static void on_forgotten(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    (void)arg, (void)failed, (void)versions;
    assert_int_equal(code, ZK_OK);
}

/* Like the sweep of an unknown server. */
static void forget_group(const char *in)
{
    const zk_op ops[] = {{.kind = ZK_DELETE, .path = path_of_group(in), .version = -1},
                         {.kind = ZK_SET, .path = NODES_FLOOR, .data = lks_rpc_slice_of("7"), .version = -1}};

    zk_multi(b.z, ops, 2, on_forgotten, NULL);
    fake_answer(b.z);
}

/* The node was deleted and recreated, and has the version that the server remembers. */
TEST(recreated_group_is_not_taken_for_the_deleted_one)
{
    open_both();
    done(&a, acquire(&a, "g", "t1", "x"));
    done(&a, release(&a, "g", "t1"));
    forget_group("g");
    done(&b, acquire(&b, "g", "t2", "x"));
    done(&b, acquire(&b, "g", "t3", "y"));
    assert_int_equal(fake_find(path_of_group("g"))->version, 1);
    assert_says(done(&a, acquire(&a, "g", "t4", "x")), "BUSY 0 o");
    done(&a, acquire(&a, "h", "t4", "x")); /* which tells the server of the floor */
    forget_group("h");
    done(&a, acquire(&a, "i", "t4", "x"));
    done(&b, acquire(&b, "h", "t5", "x"));
    call *c = acquire(&a, "h", "t6", "x");
    answers(&a, "get ns%2Fh"); /* it need not try */
    assert_says(done(&a, c), "BUSY 0 o");
}

/* ---- the sweep ----------------------------------------------------------------------------- */

enum { HOUR_MS = 3600000, MINUTE_MS = 60000 };

static void sweep(server *s)
{
    server_sweep(s);
    settle_all(s);
}

TEST(a_group_is_forgotten_after_its_keys_have_ended_and_the_floor_is_above_it)
{
    const call *c = done(&a, acquire(&a, "g", "t1", "x")); /* its fence is kept for 25 hours */

    open_both();
    done(&a, ask(&a, "lock_check_fence lasting 5"));
    done(&a, acquire(&a, "used", "t1", "x"));
    pass_ms(&a, 25 * HOUR_MS); /* the server has not looked yet: nothing has passed */
    sweep(&a);
    sweep(&a);
    pass_ms(&a, 25 * HOUR_MS);
    sweep(&a);
    assert_non_null(fake_find(path_of_group("g")));
    done(&b, acquire(&b, "used", "t2", "y")); /* it continues from the time that is stored */
    pass_ms(&a, 5 * MINUTE_MS);
    server_sweep(&a);
    while (strncmp(fake_next(a.z), "delete", strlen("delete")) != 0)
        fake_answer(a.z);
    assert_string_equal(fake_next(a.z), "delete ns%2Fg 0, set /floor 0");
    settle_all(&a);
    assert_null(fake_find(path_of_group("g")));
    assert_non_null(fake_find(path_of_group("lasting")));
    assert_non_null(fake_find(path_of_group("used")));
    const fake_node *floor = fake_find(NODES_FLOOR);
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)floor->len, floor->data);
    assert_true(strtoll(text, NULL, 10) > strtoll(c->text, NULL, 10));
}

/* It has the version of the one that was forgotten. */
TEST(recreated_group_is_not_swept)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    sweep(&a);
    pass_ms(&a, 26 * HOUR_MS);
    sweep(&a);
    assert_null(fake_find(path_of_group("g")));
    done(&a, acquire(&a, "g", "t2", "x"));
    assert_int_equal(fake_find(path_of_group("g"))->version, 0);
    sweep(&a);
    assert_non_null(fake_find(path_of_group("g")));
}

/* No caller wants the lock any more. */
TEST(a_group_that_another_sweep_forgot_and_that_is_held_again_is_not_forgotten)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    open_both();
    sweep(&a);
    pass_ms(&a, 26 * HOUR_MS);
    server_sweep(&a);
    for (uv_run(&loop, UV_RUN_NOWAIT); strcmp(fake_next(a.z), "get ns%2Fg") != 0; uv_run(&loop, UV_RUN_NOWAIT))
        fake_answer(a.z);
    fake_answer(a.z);
    forget_group("g");
    assert_true(is_granted(done(&b, acquire(&b, "g", "t2", "x"))));
    done(&a, acquire(&a, "h", "t3", "x")); /* which tells the server of the floor */
    assert_says(done(&a, acquire(&a, "g", "t4", "x")), "BUSY");
}

TEST(list_fails_if_a_group_cannot_be_read)
{
    char words[128];

    done(&a, acquire(&a, "g", "t1", "x"));
    snprintf(words, sizeof words, "lock_list g '' 10 %lu.000000000000 '' ''",
             strtoul(path_of_group("g") + strlen(NODES_GROUPS "/"), NULL, 16));
    call *c = ask(&a, words);
    for (uv_run(&loop, UV_RUN_NOWAIT); strcmp(fake_next(a.z), "get ns%2Fg") != 0; uv_run(&loop, UV_RUN_NOWAIT))
        fake_answer(a.z);
    fake_fail(a.z, ZK_UNKNOWN, 0);
    settle_all(&a);
    assert_ended(c, UNAVAILABLE, NO);
}

TEST_WITH(waiters_of_a_server_that_is_gone_leave, scene_setup_a, scene_teardown)
{
    open_both();
    done(&a, acquire(&a, "g", "t1", "x"));
    assert_says(done(&b, park(&b, "g", "t2", "x")), "QUEUED");
    server_close(&b);
    settle_all(&a);
    pass_ms(&a, LEASE_MS + GROUP_CLOCK_SLACK_MS);
    for (int walk = 0; walk < 3; walk++) {
        server_sweep(&a);
        settle_all(&a);
        pass_ms(&a, 2 * LEASE_MS);
    }
    const keys *k = group_in_node("g")->keys;
    assert_null(keys_find(k, lks_rpc_slice_of("ls:{ns/g}:lock:s:x")));
    assert_null(keys_find(k, lks_rpc_slice_of("ls:{ns/g}:lock:w:x")));
}

TEST(sweeps_follow_each_other)
{
    for (int i = 0; i < 2; i++) {
        pass_ms(&a, SCENE_SWEEP_MS);
        expects(&a, "list /groups/00");
        settle_all(&a);
    }
}

TEST(only_the_first_of_the_living_servers_sweeps)
{
    open_both();
    server_sweep(&b);
    expects(&b, "");
    server_close(&a);
    settle_all(&b);
    server_sweep(&b);
    expects(&b, "list /groups/00");
    settle_all(&b);
}

/* ---- the end ------------------------------------------------------------------------------- */

TEST(closing_ends_each_call_once)
{
    done(&a, acquire(&a, "g", "t1", "x"));
    call *written = release(&a, "g", "t1");
    expects(&a, "check /floor 0, set ns%2Fg 0");
    call *waits = acquire(&a, "g", "t2", "x"), *reads = acquire(&a, "h", "t1", "x"), *late;
    uv_run(&loop, UV_RUN_NOWAIT);
    late = ask(&a, "lock_inspect i x");
    server_sweep(&a);
    server_close(&a);
    assert_ended(written, UNAVAILABLE, MAYBE);
    assert_ended(waits, UNAVAILABLE, NO);
    assert_ended(reads, UNAVAILABLE, NO);
    assert_ended(late, UNAVAILABLE, NO);
}

TEST_MAIN(.setup = scene_setup_a, .teardown = scene_teardown)

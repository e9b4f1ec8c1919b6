/* Calls between the store and Redis: which calls share an FCALL, deadlines and
 * bounds, reloading of a missing function, closing. */
#include "store_scene.h"
#include "test.h"

/* ---- combining ----------------------------------------------------------------- */

/* promise T11 */
TEST(calls_of_one_turn_and_function_share_an_fcall)
{
    outcome *o[5];

    scene_reply("[[ONE :1] [ERR :9 NO no   ] [THREE :3]]", 1);
    o[0] = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {"a"}, .weight = 1});
    o[1] = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {"b", ""}, .weight = 1});
    o[2] = store_driver_submit(here.d, &(driver_call){.function = "echo", .weight = 1});
    for (int i = 0; i < 3; i++)
        store_driver_wait(here.d, o[i]);
    assert_int_equal(scene_seen("FCALL"), 1);
    scene_assert_last("FCALL echo_7e577e577e577e57 1 ls:{test/g}: 1 a 2 b  0");
    assert_outcome(o[0], LKS_OK, LKS_APPLIED_YES);
    assert_string_equal(outcome_text(o[0], 0), "ONE");
    assert_outcome(o[1], LKS_FAILED_PRECONDITION, LKS_APPLIED_NO);
    assert_string_equal(o[1]->message, "no");
    assert_outcome(o[2], LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(outcome_number(o[2], 1), 3);
}

static const driver_call of_groups[] = {{.function = "echo", .base = "ls:{test/a}:", .weight = 1},
                                        {.function = "echo", .base = "ls:{test/b}:", .weight = 1},
                                        {.function = "echo", .base = "ls:{test/a}:", .weight = 1}};

/* Each sub-call has its own base then, also where two have the same. In Redis Cluster the keys of a command must lie in
 * one slot: several bases are arguments. */
/* promise T11 */
TEST(calls_of_several_groups_share_an_fcall)
{
    outcome *o[3];

    scene_call_all(of_groups, 3, o);
    scene_assert_last("FCALL echo_7e577e577e577e57 3 ls:{test/a}: ls:{test/b}: ls:{test/a}: 0 0 0");
    scene_restart_on_cluster();
    scene_call_all(of_groups, 3, o);
    assert_int_equal(scene_seen("FCALL"), 1);
    scene_assert_last("FCALL echo_7e577e577e577e57 0 1 ls:{test/a}: 1 ls:{test/b}: 1 ls:{test/a}:");
}

/* Nothing was done there; with its base for a key the node says where that is, and a key is of one call alone. */
/* promise T11 */
TEST(call_of_another_node_is_sent_with_its_key)
{
    outcome *o[3];

    scene_restart_on_cluster();
    scene_reply("[[DONE] [ELSEWHERE] [ELSEWHERE]]", 1);
    scene_call_all(of_groups, 3, o);
    for (int i = 0; i < 3; i++)
        assert_string_equal(outcome_text(o[i], 0), "DONE");
    assert_int_equal(scene_seen("FCALL"), 3);
    scene_assert_last("FCALL echo_7e577e577e577e57 1 ls:{test/a}: 0");
}

/* promise T11 */
TEST(different_or_unshared_calls_travel_alone)
{
    outcome *o[6];
    static const driver_call calls[] = {
        {.function = "echo", .weight = 1},
        {.function = "get", .weight = 1},
        {.function = "set", .weight = 1, .base = "ls:{test/h}:"},
        {.function = "echo", .weight = 0},
        {.function = "echo", .weight = 0},
        {.function = "echo", .weight = 1},
    };

    scene_call_all(calls, 6, o);
    assert_int_equal(scene_seen("FCALL"), 5);
    assert_int_equal(fake_redis_sub_calls(here.fake, 0), 2);
}

static bool turn_passed(void *arg)
{
    return (*(int *)arg)++ > 1;
}

static void pass_a_turn(void)
{
    int turns = 0;

    store_driver_until(here.d, turn_passed, &turns);
}

/* A call that may share an FCALL. */
static outcome *submit_light(void)
{
    return store_driver_submit(here.d, &(driver_call){.function = "echo", .weight = 1});
}

static outcome *submit_in_a_turn(void)
{
    outcome *o = submit_light();

    pass_a_turn();
    return o;
}

TEST(a_few_calls_wait_for_others_while_redis_has_two_fcalls_to_run)
{
    outcome *o[5];

    scene_reply(fake_silent, 3);
    for (int i = 0; i < 5; i++)
        o[i] = submit_in_a_turn();
    fake_redis_say(here.fake, "[A]");
    store_driver_wait(here.d, o[0]);
    fake_redis_say(here.fake, "[B]");
    store_driver_wait(here.d, o[1]);
    fake_redis_say(here.fake, "[[C] [D] [E]]");
    for (int i = 2; i < 5; i++)
        store_driver_wait(here.d, o[i]);
    assert_int_equal(scene_seen("FCALL"), 3);
    assert_int_equal(fake_redis_sub_calls(here.fake, 2), 3);
}

/* The callback of an answer that makes a further call. */
static void submit_another(void *arg, const store_result *result)
{
    *(outcome **)arg = submit_light();
}

static bool was_answered(void *arg)
{
    return *(outcome **)arg != NULL;
}

/* So Redis need not wait while this process delivers the answers of a whole FCALL. */
/* promise T11 */
TEST(waiting_calls_are_sent_before_answers_are_delivered)
{
    const store_call call = {.base = {"ls:{test/g}:", 12}, .function = "echo", .weight = 1};
    outcome *another = NULL;

    scene_reply(fake_silent, 2);
    store_submit(store_driver_store(here.d), &call, UINT64_MAX, submit_another, &another);
    pass_a_turn();
    submit_in_a_turn();
    outcome *waits = submit_in_a_turn();
    assert_int_equal(scene_seen("FCALL"), 2);
    fake_redis_say(here.fake, "[A]");
    store_driver_until(here.d, was_answered, &another);
    store_driver_wait(here.d, another);
    store_driver_wait(here.d, waits);
    assert_int_equal(scene_seen("FCALL"), 4);
    assert_int_equal(fake_redis_sub_calls(here.fake, 2), 1); /* without the other */
}

TEST(calls_that_fill_an_fcall_do_not_wait)
{
    scene_reply(fake_silent, 2);
    submit_in_a_turn();
    submit_in_a_turn();
    for (int i = 0; i < 64; i++)
        submit_light();
    scene_until_seen("FCALL", 3);
    assert_int_equal(fake_redis_sub_calls(here.fake, 2), 64);
    assert_int_equal(fake_redis_connections(here.fake), 1); /* and not because Redis said nothing for so long */
}

static void submit_late(void *arg, const store_result *result)
{
    *(outcome **)arg = store_driver_submit(here.d, &(driver_call){.function = "echo", .weight = 1, .timeout_ms = -1});
}

/* Both replies come at once: the second one's before the timers had their turn. */
/* promise T11 */
TEST(expired_call_is_not_sent_with_the_next_reply)
{
    const store_call call = {.base = {"ls:{test/g}:", 12}, .function = "echo", .weight = 1};
    outcome *late = NULL;

    scene_reply(fake_silent, 2);
    store_submit(store_driver_store(here.d), &call, UINT64_MAX, submit_late, &late);
    pass_a_turn();
    outcome *second = submit_in_a_turn();
    fake_redis_say(here.fake, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
    store_driver_wait(here.d, second);
    store_driver_wait(here.d, late);
    assert_outcome(late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_int_equal(scene_seen("FCALL"), 2);
}

/* 400 functions of one group, and one function of 400 groups. */
static void many_targets(void)
{
    enum { N = 400 };
    static outcome *o[2 * N];
    static char functions[N][16], bases[N][32];

    for (int i = 0; i < N; i++) {
        snprintf(functions[i], sizeof functions[i], "f%d", i);
        snprintf(bases[i], sizeof bases[i], "ls:{test/%d}:", i);
        o[2 * i] = store_driver_submit(here.d, &(driver_call){.function = functions[i], .weight = 1});
        o[2 * i + 1] = store_driver_submit(here.d, &(driver_call){.function = "echo", .base = bases[i], .weight = 1});
    }
    for (int i = 0; i < 2 * N; i++) {
        store_driver_wait(here.d, o[i]);
        assert_outcome(o[i], LKS_OK, LKS_APPLIED_YES);
    }
}

/* More of them than there are places to look for a companion. */
/* promise T11: only calls of one function that allows it share an FCALL, up to its limits; in Redis Cluster bases are
 * arguments, and a call of another slot is sent by its key */
TEST(different_calls_are_separated_among_many)
{
    many_targets();
    assert_int_equal(scene_seen("FCALL"), 400 + 7); /* the groups in FCALLs of 64 */
    scene_restart_on_cluster();
    many_targets();
    assert_int_equal(scene_seen("FCALL"), 400 + 7);
}

/* A heavy call shares an FCALL with few others, and no call overtakes it. */
/* promise T11 */
/* promise B1 */
TEST(a_shared_fcall_carries_a_bounded_weight)
{
    static const unsigned weights[] = {40, 24, 1, 60, 1, 64, 1};
    driver_call calls[7];
    outcome *o[7];

    for (int i = 0; i < 7; i++)
        calls[i] = (driver_call){.function = "echo", .weight = weights[i]};
    scene_call_all(calls, 7, o);
    assert_int_equal(scene_seen("FCALL"), 4);
    assert_int_equal(fake_redis_sub_calls(here.fake, 0), 2); /* 40, 24 */
    assert_int_equal(fake_redis_sub_calls(here.fake, 1), 3); /* 1, 60, 1 */
    assert_int_equal(fake_redis_sub_calls(here.fake, 2), 1); /* 64 */
    assert_int_equal(fake_redis_sub_calls(here.fake, 3), 1);
}

/* promise T11 */
TEST(a_shared_fcall_has_few_bytes)
{
    static char long_text[100 * 1024];
    const driver_call one = {.function = "echo", .args = {long_text}, .weight = 1}, calls[] = {one, one, one};
    outcome *o[3];

    memset(long_text, 'x', sizeof long_text - 1);
    scene_call_all(calls, 3, o);
    assert_int_equal(scene_seen("FCALL"), 2);
    assert_int_equal(fake_redis_sub_calls(here.fake, 0), 2);
    assert_int_equal(fake_redis_sub_calls(here.fake, 1), 1);
}

/* ---- deadlines and room -------------------------------------------------------- */

/* promise T5: deadline: NO before sending, MAYBE after */
TEST(a_deadline_says_no_before_sending_and_maybe_after)
{
    outcome *past, *sent;

    past = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = -1, .repeatable = true});
    store_driver_wait(here.d, past);
    assert_outcome(past, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_int_equal(scene_seen("FCALL"), 0);

    scene_reply(fake_silent, 1);
    sent = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = SENT_MS, .repeatable = true});
    store_driver_wait(here.d, sent);
    assert_outcome(sent, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_int_equal(scene_seen("FCALL"), 1);

    /* Its reply comes late, before that of the next call. */
    scene_reply("*1\r\n$4\r\nLATE\r\n*1\r\n$4\r\nNEXT\r\n", 1);
    outcome *next = store_driver_call(here.d, &(driver_call){.function = "echo"});
    assert_outcome(next, LKS_OK, LKS_APPLIED_YES);
    assert_string_equal(outcome_text(next, 0), "NEXT");
    assert_int_equal(sent->ends, 1);
}

/* promise T5 */
TEST(one_call_of_a_shared_fcall_may_be_late)
{
    scene_reply(fake_silent, 1);
    outcome *late = store_driver_submit(here.d, &(driver_call){.function = "echo", .weight = 1, .timeout_ms = SENT_MS});
    outcome *patient = submit_light();
    store_driver_wait(here.d, late);
    fake_redis_say(here.fake, "[[A] [B]]");
    store_driver_wait(here.d, patient);
    assert_outcome(late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_string_equal(outcome_text(patient, 0), "B");
}

/* promise T10: calls under way are bounded, by number and bytes: RESOURCE_EXHAUSTED, NO */
TEST(late_calls_count_as_in_flight)
{
    outcome *o[4];

    scene_restart_with(&(store_options){.in_flight_max = 3});
    scene_reply(fake_silent, 3);
    for (int i = 0; i < 4; i++)
        o[i] = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = SENT_MS});
    store_driver_wait(here.d, o[3]);
    assert_outcome(o[3], LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_true(o[3]->retry_after_ms > 0);
    for (int i = 0; i < 3; i++) {
        store_driver_wait(here.d, o[i]);
        assert_outcome(o[i], LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    }
    /* Their replies are still owed: the room comes back with those. */
    scene_assert_echo(LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    fake_redis_say(here.fake, "*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n");
    outcome *again;
    do {
        again = scene_echo();
    } while (again->code == LKS_RESOURCE_EXHAUSTED);
    assert_outcome(again, LKS_OK, LKS_APPLIED_YES);
}

/* promise T10 */
TEST(too_many_bytes_are_refused)
{
    static char big[40 * 1024 * 1024];

    memset(big, 'x', sizeof big - 1);
    scene_reply(fake_silent, 1);
    outcome *first = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {big}});
    outcome *second = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {big}});
    store_driver_wait(here.d, second);
    assert_outcome(second, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    store_driver_close_store(here.d);
    assert_int_equal(first->code, LKS_UNAVAILABLE);
}

/* ---- the library ---------------------------------------------------------------- */

static const char missing[] = "-ERR Function not found\r\n";

/* promise T6: function missing: loaded again, unseen; once */
TEST(a_function_that_stays_missing_is_an_error)
{
    scene_answer("FCALL", missing);
    scene_assert_echo(LKS_INTERNAL, LKS_APPLIED_NO);
    assert_int_equal(scene_seen("FCALL"), 2);
}

/* promise T6 */
TEST(a_library_that_cannot_be_loaded_again_means_not_ready)
{
    scene_reply(missing, 1);
    scene_answer(SCENE_LIBRARY, "-NOPERM this user has no permissions to run the 'function|list' command\r\n");
    outcome *o = scene_submit();
    store_driver_wait_ready(here.d, false);
    scene_answer(SCENE_LIBRARY, NULL);
    store_driver_wait_ready(here.d, true);
    store_driver_wait(here.d, o);
}

/* ---- closing -------------------------------------------------------------------- */

TEST(closing_ends_every_call_once)
{
    outcome *out[3], *queued;

    scene_reply(fake_silent, 3);
    for (int i = 0; i < 3; i++)
        out[i] = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
    scene_until_seen("FCALL", 1);
    queued = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
    store_driver_close_store(here.d);
    for (int i = 0; i < 3; i++)
        assert_outcome(out[i], LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_outcome(queued, LKS_UNAVAILABLE, LKS_APPLIED_NO);
}

TEST(a_store_may_close_before_it_ever_connected)
{
    scene_begin();
    scene_open(&(store_options){.url = "unix:///nonexistent/redis.sock"});
    outcome *o = scene_submit();
    store_driver_close_store(here.d);
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
}

TEST_MAIN(.setup = scene_start, .teardown = scene_end)

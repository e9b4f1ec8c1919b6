/* --wait-replicas: no answer and no wake message is delivered before so many replicas have the change. */
/* promise T20 */
#include "store_scene.h"
#include "test.h"

enum { REPLICAS = 2 };

/* What WAIT answers from now on. */
static void confirm(const char *reply)
{
    scene_answer("WAIT", reply);
}

static void set_replicas(unsigned n)
{
    scene_answer("ROLE", n == 1 ? "[master :9 [[a 1 9]]]" : "[master :9 [[a 1 9] [b 1 9]]]");
}

static void begin_at(bool cluster, unsigned replicas)
{
    const store_options options = {.wait_replicas = REPLICAS, .wait_ms = 70, .role_check_ms = 100};
    const store_options listening = scene_listens(options);

    scene_begin();
    scene_answer("HELLO", cluster ? SCENE_CLUSTER : NULL);
    scene_answer("INFO", "-NOPERM\r\n");
    scene_answer("PUBLISH", ":0\r\n");
    scene_answer("EXPIRE", ":1\r\n");
    confirm(":2\r\n");
    set_replicas(replicas);
    scene_open(cluster ? &options : &listening);
}

static int begin(void **state)
{
    begin_at(false, REPLICAS);
    store_driver_wait_ready(here.d, true);
    return 0;
}

static int begin_in_a_cluster(void **state)
{
    begin_at(true, REPLICAS);
    store_driver_wait_ready(here.d, true);
    return 0;
}

/* Until WAIT was asked `more` times more. */
static void until_waits(unsigned more)
{
    scene_until_seen("WAIT", scene_seen("WAIT") + more);
}

/* Redis 7.2 answers WAIT at once on a connection that has written nothing, and a node of a cluster sends its
 * replicas no PUBLISH. */
TEST_WITH(in_a_cluster_wait_is_preceded_by_a_write, begin_in_a_cluster, scene_end)
{
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(scene_seen("WAIT"), 1);
    assert_int_equal(scene_seen("EXPIRE ls:{meta}:wait"), 1);
    assert_int_equal(scene_seen("PUBLISH"), 0);
}

/* Its slot is elsewhere; or memory is full, and the key was never there. */
TEST_WITH(without_that_write_nothing_is_confirmed, begin_in_a_cluster, scene_end)
{
    static const char *const refusals[] = {"-MOVED 1 127.0.0.1:1\r\n", ":0\r\n"};

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        unsigned before = scene_seen("FCALL");
        scene_answer("EXPIRE", refusals[i]);
        outcome *never = store_driver_call(here.d, &(driver_call){.function = "put"});
        assert_outcome(never, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        outcome *again = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
        until_waits(2);
        assert_int_equal(again->ends, 0);
        scene_answer("EXPIRE", ":1\r\n");
        store_driver_wait(here.d, again);
        assert_outcome(again, LKS_OK, LKS_APPLIED_YES);
        assert_in_range(scene_seen("FCALL"), before + 3, UINT32_MAX);
    }
}

TEST_WITH(calls_of_a_turn_share_one_question, begin, scene_end)
{
    unsigned waits = scene_seen("WAIT");
    outcome *a = scene_submit();
    outcome *b = store_driver_submit(here.d, &(driver_call){.function = "put"});
    store_driver_wait(here.d, a);
    store_driver_wait(here.d, b);
    assert_outcome(a, LKS_OK, LKS_APPLIED_YES);
    assert_string_equal(outcome_text(a, 0), "DONE");
    assert_outcome(b, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(scene_seen("WAIT 2 70"), waits + 1);
    assert_int_equal(scene_seen("PUBLISH"), waits + 1);
}

/* Redis has answered it, but its caller does not get the answer yet. */
TEST_WITH(no_answer_comes_before_the_replicas_have_it, begin, scene_end)
{
    confirm(fake_stuck);
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put", .timeout_ms = SENT_MS});
    until_waits(1);
    assert_int_equal(o->ends, 0);
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
}

TEST_WITH(call_confirmed_by_too_few_replicas_is_maybe, begin, scene_end)
{
    confirm(":1\r\n");
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "put"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_non_null(strstr(o->message, "replicas"));
}

TEST_WITH(a_repeatable_call_is_asked_again_until_it_is_sure, begin, scene_end)
{
    confirm(":1\r\n");
    unsigned fcalls = scene_seen("FCALL");
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put", .repeatable = true});
    until_waits(2);
    assert_int_equal(o->ends, 0);
    confirm(":2\r\n");
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    assert_true(scene_seen("FCALL") - fcalls >= 2);
}

TEST_WITH(a_connection_lost_before_the_replicas_answer_is_maybe, begin, scene_end)
{
    confirm(fake_close);
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put"});
    outcome *again = store_driver_submit(here.d, &(driver_call){.function = "get", .repeatable = true});
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    confirm(":2\r\n");
    store_driver_wait(here.d, again);
    assert_outcome(again, LKS_OK, LKS_APPLIED_YES);
}

static void publish(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const char text[] = {(char)('0' + i), '\0'};
        fake_redis_publish(here.fake, SCENE_CHANNEL, text);
    }
}

TEST_WITH(message_is_delivered_when_the_replicas_have_it, begin, scene_end)
{
    unsigned waits = scene_seen("WAIT");
    publish(3);
    scene_until_messages(3);
    assert_string_equal(here.last, "2");
    assert_true(scene_seen("WAIT") > waits);
    assert_int_equal(here.listening, 1);
}

TEST_WITH(unconfirmed_message_makes_waiters_ask_again, begin, scene_end)
{
    unsigned listening = here.listening;
    confirm(":0\r\n");
    publish(1);
    scene_until_listening(listening + 1);
    assert_int_equal(here.messages, 0);
}

TEST_WITH(unconfirmed_messages_are_missed_with_the_connection, begin, scene_end)
{
    unsigned listening = here.listening;
    confirm(fake_close);
    publish(5);
    scene_until_listening(listening + 1);
    assert_int_equal(here.messages, 0);
    confirm(":2\r\n");
    store_driver_wait_ready(here.d, true);
}

TEST_WITH(store_with_too_few_replicas_is_not_ready, begin, scene_end)
{
    set_replicas(1);
    store_driver_wait_ready(here.d, false);
    assert_string_equal(store_driver_reason(here.d), "the store has 1 replicas, --wait-replicas asks for 2");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_TOO_FEW_REPLICAS);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "put"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    set_replicas(2);
    store_driver_wait_ready(here.d, true);
}

/* ROLE is answered after the probe where INFO is not permitted. */
TEST_WITH(it_is_not_ready_before_its_replicas_are_known, NULL, scene_end)
{
    begin_at(false, 1);
    scene_until_reason("the store has 1 replicas");
    assert_int_equal(store_driver_ups(here.d), 0);
}

TEST_MAIN()

/* The store's wake channel: what is published comes, in order; who may have missed
 * something is told; and a store that does not hear is not ready at first. */
#include <uv.h>

#include "store_scene.h"
#include "support/kept_stderr.h"
#include "support/redis_fixture.h"
#include "test.h"

#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$12\r\n" SCENE_CHANNEL "\r\n:1\r\n"

enum { MESSAGES = 2000, LONG_MESSAGE = 300 * 1000, URL_BYTES = 256 };

static redis_fixture *redis;

static void open_store(const char *url, uint32_t silence_timeout_ms)
{
    const store_options options = scene_listens((store_options){.url = url, .silence_timeout_ms = silence_timeout_ms});

    assert_int_equal(store_driver_open(here.d, &options, NULL), LKS_OK);
}

static void start_redis(void)
{
    here = (scene){.d = store_driver_new()};
    redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
}

static void set_up(void)
{
    start_redis();
    open_store(redis_fixture_url(redis), 0);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
}

static int end(void **state)
{
    scene_end(state);
    redis_fixture_free(redis);
    redis = NULL;
    return 0;
}

/* Fails unless the reply to the command begins so. */
static void tell_redis(const char *command, const char *expected)
{
    char *reply = redis_fixture_command(redis, command);

    assert_non_null(reply);
    if (strncmp(reply, expected, strlen(expected)) != 0)
        fail_msg("%s: %s", command, reply);
    free(reply);
}

static bool redis_says(const char *command, const char *text)
{
    char *reply = redis_fixture_command(redis, command);
    bool found = reply && strstr(reply, text);

    free(reply);
    return found;
}

static void hello(unsigned messages)
{
    tell_redis("PUBLISH " SCENE_CHANNEL " hello", ":1");
    scene_until_messages(messages);
}

/* ---- on a real Redis ------------------------------------------------------------ */

/* promise T17 */
TEST(messages_come_in_order)
{
    char command[128];

    set_up();
    snprintf(command, sizeof command, "EVAL \"for i=1,%d do redis.call('PUBLISH','" SCENE_CHANNEL "',i) end\" 0",
             MESSAGES);
    tell_redis(command, "$-1");
    scene_until_messages(MESSAGES);
    assert_int_equal(strtol(here.last, NULL, 10), MESSAGES);
}

TEST(a_message_comes_as_it_is)
{
    char command[160];

    set_up();
    tell_redis("PUBLISH " SCENE_CHANNEL " \"W ls:{a/b}:\\x00 c\"", ":1");
    scene_until_messages(1);
    assert_int_equal(here.last_len, 14);
    assert_string_equal(here.last, "W ls:{a/b}:");
    tell_redis("PUBLISH " SCENE_CHANNEL " \"\"", ":1");
    scene_until_messages(2);
    assert_int_equal(here.last_len, 0);
    snprintf(command, sizeof command, "EVAL \"return redis.call('PUBLISH','" SCENE_CHANNEL "',string.rep('x',%d))\" 0",
             LONG_MESSAGE);
    tell_redis(command, ":1");
    scene_until_messages(3);
    assert_int_equal(here.last_len, LONG_MESSAGE);
    tell_redis("PUBLISH ls:wake:other x", ":0");
}

/* Calls go on: only what waits must know. */
/* promise T17 */
TEST(a_lost_channel_is_heard_again_and_told)
{
    set_up();
    for (unsigned i = 2; i <= 5; i++) {
        tell_redis("CLIENT KILL TYPE pubsub", ":1");
        scene_until_listening(i);
        hello(i - 1);
        assert_int_equal(here.listening, i);
    }
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* The store comes back on what may be another Redis. */
/* promise T17 */
TEST(a_lost_store_renews_the_channel)
{
    set_up();
    tell_redis("CLIENT KILL TYPE normal", ":1");
    scene_until_listening(2);
    hello(1);
    assert_true(redis_says("INFO commandstats", "cmdstat_subscribe:calls=2,"));
    assert_int_equal(store_driver_ups(here.d), 2);
}

TEST(redis_may_be_killed_and_come_back)
{
    set_up();
    for (unsigned i = 2; i <= 4; i++) {
        redis_fixture_kill(redis);
        store_driver_wait_ready(here.d, false);
        assert_true(redis_fixture_restart(redis));
        scene_until_listening(i);
        hello(i - 1);
    }
}

static bool redis_was_pinged(void *arg)
{
    char *reply = redis_fixture_command(redis, "INFO commandstats");
    const char *calls = reply ? strstr(reply, "cmdstat_ping:calls=") : NULL;
    bool enough = calls && strtol(calls + strlen("cmdstat_ping:calls="), NULL, 10) >= 7;

    (void)arg;
    free(reply);
    return enough;
}

/* Each connection is tried with PING as it is quiet. */
TEST(a_quiet_channel_is_kept)
{
    start_redis();
    tell_redis("CONFIG RESETSTAT", "+OK");
    open_store(redis_fixture_url(redis), 40);
    scene_until_listening(1);
    store_driver_until(here.d, redis_was_pinged, NULL);
    assert_true(redis_says("CLIENT LIST TYPE pubsub", "cmd=ping"));
    assert_true(redis_says("INFO commandstats", "cmdstat_subscribe:calls=1,"));
    assert_int_equal(here.listening, 1);
}

TEST(who_may_not_subscribe_is_not_ready)
{
    char url[URL_BYTES];

    start_redis();
    tell_redis("ACL SETUSER me on >se/cret ~* resetchannels +@all", "+OK");
    snprintf(url, sizeof url, "unix://me:se%%2fcret@%s", redis_fixture_socket(redis));
    open_store(url, 0);
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = 200});
    scene_until_reason("permission");
    store_driver_wait(here.d, o);
    assert_true(o->code != LKS_OK && o->applied == LKS_APPLIED_NO);
    assert_int_equal(here.listening, 0);
    tell_redis("ACL SETUSER me &ls:wake:*", "+OK");
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_OK, LKS_APPLIED_YES);
    /* Later the channel alone is no reason: what does not wait goes on. */
    tell_redis("ACL SETUSER me resetchannels", "+OK");
    for (int i = 0; i < 10; i++)
        assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(store_driver_ups(here.d), 1);
    tell_redis("ACL SETUSER me &ls:wake:*", "+OK");
    scene_until_listening(2);
}

/* ---- on one that does as scripted ----------------------------------------------- */

/* `words` are answered with `reply`. */
static void start_stage(const char *words, const char *reply, uint32_t connect_timeout_ms, uint32_t silence_timeout_ms)
{
    const store_options options = scene_listens(
        (store_options){.connect_timeout_ms = connect_timeout_ms, .silence_timeout_ms = silence_timeout_ms});

    scene_begin();
    scene_answer(words, reply);
    scene_open(&options);
}

static unsigned subscribes(void)
{
    return fake_redis_seen(here.fake, "SUBSCRIBE " SCENE_CHANNEL);
}

TEST(an_answer_that_confirms_nothing_is_tried_again)
{
    static const struct row {
        const char *answer, *why;
    } rows[] = {
        {"-NOPERM this user has no permissions to access the channel\r\n", "permission"},
        {"+OK\r\n", "not understood"},
        {"[subscribe]", "not understood"},
        {"[unsubscribe x :0]", "not understood"},
        {"[:1 :1 :1]", "not understood"},
        {"garbage\r\n", "a malformed reply"},
        {NULL, "closed"},
        {NULL, "greeting"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *act = strcmp(rows[i].why, "closed") == 0 ? fake_close : fake_silent;
        print_message("%s\n", rows[i].why);
        start_stage("SUBSCRIBE", rows[i].answer ? rows[i].answer : act, 50, 0);
        scene_until_reason(rows[i].why);
        assert_int_equal(here.listening, 0);
        assert_int_equal(store_driver_ups(here.d), 0);
        scene_answer("SUBSCRIBE", NULL);
        store_driver_wait_ready(here.d, true);
        assert_int_equal(here.listening, 1);
        scene_end(NULL);
    }
}

/* Functions would publish on the node's own channel. */
/* promise T22 */
TEST(a_node_of_a_cluster_wants_a_clusters_url)
{
    start_stage("HELLO", SCENE_CLUSTER, 0, 0);
    scene_until_reason("redis+cluster://");
    assert_int_equal(subscribes(), 0);
    assert_int_equal(store_driver_ups(here.d), 0);
}

/* Said on the channel's connection only: the store stays. */
TEST(what_is_no_message_costs_the_connection)
{
    static const char *const said[] = {
        CONFIRMED "+hello\r\n",
        CONFIRMED "-ERR you are not welcome\r\n",
        CONFIRMED "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n:1\r\n",
        CONFIRMED "*4\r\n$8\r\npmessage\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n",
        CONFIRMED "*3\r\n*0\r\n*0\r\n*0\r\n",
        CONFIRMED "*0\r\n",
        CONFIRMED "$-1\r\n",
        CONFIRMED "garbage\r\n",
    };

    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        start_stage("SUBSCRIBE", said[i], 0, 0);
        scene_until_seen("SUBSCRIBE", 3);
        scene_answer("SUBSCRIBE", NULL);
        scene_until_listening(here.listening + 1);
        assert_int_equal(fake_redis_open_connections(here.fake), 2);
        assert_int_equal(here.messages, 0);
        assert_int_equal(store_driver_ups(here.d), 1);
        scene_end(NULL);
    }
}

/* Redis refuses PING, too, while it cannot write to its disk. */
TEST(a_ping_that_is_refused_is_answered)
{
    start_stage("SUBSCRIBE",
                CONFIRMED "-MISCONF Errors writing to the AOF file: No space left on device\r\n"
                          "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n",
                0, 0);
    scene_until_messages(1);
    assert_int_equal(subscribes(), 1);
}

/* Its peer may be gone though the connection stands; then messages would be missed for ever. */
/* promise T13 */
TEST(a_channel_that_is_silent_is_heard_again)
{
    start_stage("", NULL, 0, 40);
    scene_until_listening(1);
    fake_redis_deafen_subscribers(here.fake);
    scene_until_listening(2);
    assert_in_range(subscribes(), 2, 100);
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* A call that had to wait could not be woken. */
TEST(a_store_that_comes_back_is_ready_when_it_hears_again)
{
    start_stage("", NULL, 0, 0);
    store_driver_wait_ready(here.d, true);
    scene_answer("SUBSCRIBE", "-NOPERM no\r\n");
    fake_redis_hang_up(here.fake);
    scene_until_reason("permission");
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .timeout_ms = 100});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_int_equal(store_driver_ups(here.d), 1);
    scene_answer("SUBSCRIBE", NULL);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 2);
}

/* What is heard leads to calls, which need the store. */
/* promise T17: wake messages arrive in order; after a lost subscription the server looks again */
TEST(its_owner_is_told_when_the_store_can_be_asked)
{
    start_stage("GET", fake_silent, 50, 0);
    scene_until_seen("SUBSCRIBE", 3);
    assert_int_equal(here.listening, 0);
    scene_answer("GET", NULL);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
}

/* Publishers are not there. */
TEST(a_replica_is_not_subscribed_to)
{
    start_stage("HELLO", "[version 7.0.15 role replica]", 0, 0);
    scene_until_connections(6);
    assert_int_equal(subscribes(), 0);
    scene_answer("HELLO", NULL);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
}

/* The channel is heard each time, until the store's first connection is refused. */
/* promise T17 */
TEST(the_channel_of_a_store_that_is_never_ready_is_lost_once_in_the_log)
{
    const store_options options = scene_listens((store_options){0});

    scene_begin();
    scene_answer("SELECT", "-ERR DB index is out of range\r\n");
    kept_stderr_begin();
    scene_open_url(&options, "", "?db=99");
    scene_until_seen("SUBSCRIBE", 5);
    assert_string_equal(store_driver_reason(here.d), "the store has no database 99 (--store)");
    assert_int_equal(kept_stderr_count("event=wake-channel-lost"), 1);
    scene_answer("SELECT", NULL);
    store_driver_wait_ready(here.d, true);
    for (unsigned i = 2; i <= 3; i++) { /* what was well in between is lost again */
        fake_redis_hang_up(here.fake);
        scene_until_listening(i);
    }
    assert_int_equal(kept_stderr_count("event=wake-channel-lost reason=\"the connection to the store broke"), 2);
    kept_stderr_end();
}

/* At once; at each step; and while messages come. */
TEST(a_subscription_may_be_closed_at_any_moment)
{
    for (int turns = 0; turns < 30; turns++) {
        start_stage("", NULL, 0, 0);
        for (int i = 0; i < turns; i++)
            uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
        scene_end(NULL);
    }
    start_stage("SUBSCRIBE", "-NOPERM no\r\n", 0, 0);
    scene_until_reason("permission");
    scene_end(NULL);

    set_up();
    tell_redis("EVAL \"for i=1,5000 do redis.call('PUBLISH','" SCENE_CHANNEL "',i) end\" 0", "$-1");
    scene_until_messages(1);
}

TEST_MAIN(.teardown = end)

/* The store's wake channel: what is published comes, in order; who may have missed something is told; and a store that
 * does not hear is not ready at first. */
#include <uv.h>

#include "store_scene.h"
#include "support/kept_stderr.h"
#include "test.h"

#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$12\r\n" SCENE_CHANNEL "\r\n:1\r\n"

/* `words` are answered with `reply`. */
static void start_stage(const char *words, const char *reply, uint32_t connect_timeout_ms, uint32_t silence_timeout_ms)
{
    const store_options options = scene_listens(
        (store_options){.connect_timeout_ms = connect_timeout_ms, .silence_timeout_ms = silence_timeout_ms});

    scene_begin();
    scene_answer(words, reply);
    scene_open(&options);
}

static void start_listening(void)
{
    start_stage("", NULL, 0, 0);
    scene_until_listening(1);
}

static unsigned subscribes(void)
{
    return scene_seen("SUBSCRIBE " SCENE_CHANNEL);
}

static void publish(unsigned number)
{
    char text[16];

    snprintf(text, sizeof text, "%u", number);
    fake_redis_publish(here.fake, SCENE_CHANNEL, text);
}

/* promise T17 */
TEST(messages_come_in_order)
{
    enum { MESSAGES = 2000 };

    start_listening();
    for (unsigned i = 1; i <= MESSAGES; i++)
        publish(i);
    scene_until_messages(MESSAGES);
    assert_int_equal(strtol(here.last, NULL, 10), MESSAGES);
}

TEST(message_is_delivered_unchanged)
{
    static char long_text[300 * 1000 + 1];
    const char *const texts[] = {"W ls:{a/b}: c", "", long_text};

    memset(long_text, 'x', sizeof long_text - 1);
    start_listening();
    for (unsigned i = 0; i < 3; i++) {
        fake_redis_publish(here.fake, SCENE_CHANNEL, texts[i]);
        scene_until_messages(i + 1);
        assert_int_equal(here.last_len, strlen(texts[i]));
        assert_memory_equal(here.last, texts[i], strlen(here.last));
    }
}

/* The store comes back on what may be another Redis. */
/* promise T17 */
TEST(a_lost_store_renews_the_channel)
{
    start_listening();
    scene_reply(fake_close, 1); /* that connection alone */
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true}), LKS_OK,
                   LKS_APPLIED_YES);
    scene_until_listening(2);
    assert_int_equal(subscribes(), 2);
    assert_int_equal(store_driver_ups(here.d), 2);
    publish(1);
    scene_until_messages(1);
}

/* Each connection is tried with PING as it is quiet. */
TEST(a_quiet_channel_is_kept)
{
    start_stage("", NULL, 0, 40);
    scene_until_seen("PING", 7);
    assert_int_equal(subscribes(), 1);
    assert_int_equal(here.listening, 1);
}

TEST(unconfirmed_subscription_is_retried)
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
        {fake_close, "closed"},
        {fake_silent, "greeting"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s\n", rows[i].why);
        start_stage("SUBSCRIBE", rows[i].answer, 50, 0);
        scene_until_reason(rows[i].why);
        assert_int_equal(here.listening, 0);
        assert_int_equal(store_driver_ups(here.d), 0);
        scene_answer("SUBSCRIBE", NULL);
        store_driver_wait_ready(here.d, true);
        assert_int_equal(here.listening, 1);
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

static bool hears_what_is_published(void *arg)
{
    fake_redis_publish(here.fake, SCENE_CHANNEL, "x");
    return here.messages > 0;
}

/* Said on the channel's connection only: the store stays, and what does not wait goes on. */
/* promise T17 */
TEST(invalid_message_closes_the_subscription)
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
        scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
        scene_answer("SUBSCRIBE", NULL);
        scene_until_listening(here.listening + 1);
        assert_int_equal(fake_redis_open_connections(here.fake), 2);
        assert_int_equal(here.messages, 0);
        assert_int_equal(store_driver_ups(here.d), 1);
        store_driver_until(here.d, hears_what_is_published, NULL);
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

/* Its peer may be lost although the connection is open; then all messages would be missed. */
/* promise T13 */
TEST(silent_subscription_is_renewed)
{
    start_stage("", NULL, 0, 40);
    scene_until_listening(1);
    fake_redis_turn_deaf(here.fake, true);
    scene_until_listening(2);
    assert_in_range(subscribes(), 2, 100);
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* A call that had to wait could not be woken. */
TEST(returning_store_is_ready_after_its_subscription)
{
    start_listening();
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

/* Messages lead to calls, which need the store. */
/* promise T17: wake messages arrive in order; after a lost subscription the server looks again */
TEST(owner_learns_of_the_subscription_when_the_store_is_ready)
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

/* The channel is subscribed each time, until the store's first connection is refused. */
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
    }
    start_stage("SUBSCRIBE", "-NOPERM no\r\n", 0, 0);
    scene_until_reason("permission");

    start_listening();
    for (unsigned i = 1; i <= 5000; i++)
        publish(i);
    scene_until_messages(1);
}

TEST_MAIN(.teardown = scene_end)

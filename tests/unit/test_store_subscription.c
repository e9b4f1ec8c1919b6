/* The store's wake channel: what is published comes, in order; who may have missed
 * something is told; and a store that does not hear is not ready at first. */
#include <uv.h>

#include "support/fake_redis.h"
#include "support/kept_stderr.h"
#include "support/redis_fixture.h"
#include "support/store_driver.h"
#include "test.h"

#define CHANNEL "ls:wake:test"
#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$12\r\n" CHANNEL "\r\n:1\r\n"

enum { MESSAGES = 2000, LONG_MESSAGE = 300 * 1000, URL_BYTES = 256 };

/* One store at a time: its driver is the callbacks' argument. */
static struct {
    store_driver *d;
    redis_fixture *redis;
    unsigned listening;      /* times told */
    unsigned wanted;         /* ... that a test waits for */
    bool told_while_unready; /* ever */
    size_t n_messages, n_wanted;
    char first[64], last[64]; /* messages, cut */
    size_t last_len;
    bool disorder; /* numbers that do not follow each other */
} here;

static void on_wake(void *arg, const char *data, size_t len)
{
    long number = strtol(data, NULL, 10);

    assert_ptr_equal(arg, here.d);
    here.disorder |= number > 0 && number != strtol(here.last, NULL, 10) + 1;
    snprintf(here.last, sizeof here.last, "%.*s", len < 60 ? (int)len : 60, data);
    if (here.n_messages++ == 0)
        memcpy(here.first, here.last, sizeof here.first);
    here.last_len = len;
}

static void on_listening(void *arg)
{
    assert_ptr_equal(arg, here.d);
    here.listening++;
    here.told_while_unready |= !store_ready(store_driver_store(here.d), NULL);
}

static bool is_listening(void *arg)
{
    (void)arg;
    return here.listening >= here.wanted;
}

static void wait_listening(unsigned times)
{
    here.wanted = times;
    store_driver_until(here.d, is_listening, NULL);
}

static bool has_messages(void *arg)
{
    (void)arg;
    return here.n_messages >= here.n_wanted;
}

static void wait_messages(size_t n)
{
    here.n_wanted = n;
    store_driver_until(here.d, has_messages, NULL);
}

static void open_store(const char *url, uint32_t connect_timeout_ms, uint32_t silence_timeout_ms)
{
    const store_options options = {
        .url = url,
        .connect_timeout_ms = connect_timeout_ms,
        .silence_timeout_ms = silence_timeout_ms,
        .wake_channel = CHANNEL,
        .on_wake = on_wake,
        .on_listening = on_listening,
    };
    assert_int_equal(store_driver_open(here.d, &options, NULL), LKS_OK);
}

static void start_redis(void)
{
    memset(&here, 0, sizeof here);
    here.d = store_driver_new();
    here.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(here.redis);
}

static void set_up(void)
{
    start_redis();
    open_store(redis_fixture_url(here.redis), 0, 0);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
}

static void tear_down(void)
{
    store_driver_free(here.d);
    redis_fixture_free(here.redis);
    assert_false(here.told_while_unready);
    assert_false(here.disorder);
}

/* Fails unless the reply to the command begins so. */
static void tell_redis(const char *command, const char *expected)
{
    char *reply = redis_fixture_command(here.redis, command);

    assert_non_null(reply);
    if (strncmp(reply, expected, strlen(expected)) != 0)
        fail_msg("%s: %s", command, reply);
    free(reply);
}

static bool redis_says(const char *command, const char *text)
{
    char *reply = redis_fixture_command(here.redis, command);
    bool found = reply && strstr(reply, text);

    free(reply);
    return found;
}

/* ---- on a real Redis ------------------------------------------------------------ */

/* promise T17 */
TEST(messages_come_in_order)
{
    char command[128];

    set_up();
    snprintf(command, sizeof command, "EVAL \"for i=1,%d do redis.call('PUBLISH','" CHANNEL "',i) end\" 0", MESSAGES);
    tell_redis(command, "$-1");
    wait_messages(MESSAGES);
    assert_string_equal(here.first, "1");
    assert_int_equal(strtol(here.last, NULL, 10), MESSAGES);
    tear_down();
}

TEST(a_message_comes_as_it_is)
{
    char command[160];

    set_up();
    tell_redis("PUBLISH " CHANNEL " \"W ls:{a/b}:\\x00 c\"", ":1");
    wait_messages(1);
    assert_int_equal(here.last_len, 14);
    assert_string_equal(here.last, "W ls:{a/b}:");
    tell_redis("PUBLISH " CHANNEL " \"\"", ":1");
    wait_messages(2);
    assert_int_equal(here.last_len, 0);
    snprintf(command, sizeof command, "EVAL \"return redis.call('PUBLISH','" CHANNEL "',string.rep('x',%d))\" 0",
             LONG_MESSAGE);
    tell_redis(command, ":1");
    wait_messages(3);
    assert_int_equal(here.last_len, LONG_MESSAGE);
    tell_redis("PUBLISH ls:wake:other x", ":0");
    tear_down();
}

/* Calls go on: only what waits must know. */
/* promise T17 */
TEST(a_lost_channel_is_heard_again_and_told)
{
    set_up();
    for (unsigned i = 2; i <= 5; i++) {
        tell_redis("CLIENT KILL TYPE pubsub", ":1");
        wait_listening(i);
        tell_redis("PUBLISH " CHANNEL " hello", ":1");
        wait_messages(i - 1);
        assert_int_equal(here.listening, i);
    }
    assert_int_equal(store_driver_ups(here.d), 1);
    tear_down();
}

/* The store comes back on what may be another Redis. */
/* promise T17 */
TEST(a_lost_store_renews_the_channel)
{
    set_up();
    tell_redis("CLIENT KILL TYPE normal", ":1");
    wait_listening(2);
    tell_redis("PUBLISH " CHANNEL " hello", ":1");
    wait_messages(1);
    assert_int_equal(store_driver_ups(here.d), 2);
    tear_down();
}

TEST(redis_may_be_killed_and_come_back)
{
    set_up();
    for (unsigned i = 2; i <= 4; i++) {
        redis_fixture_kill(here.redis);
        store_driver_wait_ready(here.d, false);
        assert_true(redis_fixture_restart(here.redis));
        wait_listening(i);
        tell_redis("PUBLISH " CHANNEL " hello", ":1");
        wait_messages(i - 1);
    }
    tear_down();
}

static bool redis_was_pinged(void *arg)
{
    char *reply = redis_fixture_command(here.redis, "INFO commandstats");
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
    open_store(redis_fixture_url(here.redis), 0, 40);
    wait_listening(1);
    store_driver_until(here.d, redis_was_pinged, NULL);
    assert_true(redis_says("CLIENT LIST TYPE pubsub", "cmd=ping"));
    assert_true(redis_says("INFO commandstats", "cmdstat_subscribe:calls=1,"));
    assert_int_equal(here.listening, 1);
    tear_down();
}

static bool has_reason(void *arg)
{
    return strstr(store_driver_reason(here.d), arg);
}

TEST(who_may_not_subscribe_is_not_ready)
{
    char url[URL_BYTES];

    start_redis();
    tell_redis("ACL SETUSER me on >se/cret ~* resetchannels +@all", "+OK");
    snprintf(url, sizeof url, "unix://me:se%%2fcret@%s", redis_fixture_socket(here.redis));
    open_store(url, 0, 0);
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = 200});
    store_driver_until(here.d, has_reason, (void *)(uintptr_t) "permission");
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
    wait_listening(2);
    tear_down();
}

/* ---- on one that does as scripted ----------------------------------------------- */

typedef struct stage {
    fake_redis *fake;
    const char *get, *hello, *subscribe; /* the answers; NULL = as usual */
    const char *select;                  /* the same */
    unsigned subscribes;                 /* seen */
    unsigned wanted;                     /* of those, or of connections */
} stage;

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    stage *s = arg;

    if (strcmp(argv[0], "SUBSCRIBE") == 0) {
        s->subscribes++;
        assert_int_equal(argc, 2);
        assert_string_equal(argv[1], CHANNEL);
        return s->subscribe ? s->subscribe : CONFIRMED;
    }
    if (strcmp(argv[0], "GET") == 0 && s->get)
        return s->get;
    if (strcmp(argv[0], "SELECT") == 0 && s->select)
        return s->select;
    return strcmp(argv[0], "HELLO") == 0 && s->hello ? s->hello : fake_usual;
}

static void start_stage_with(stage *s, uint32_t connect_timeout_ms, uint32_t silence_timeout_ms)
{
    memset(&here, 0, sizeof here);
    here.d = store_driver_new();
    s->fake = fake_redis_start(store_driver_loop(here.d), play, s);
    open_store(fake_redis_url(s->fake), connect_timeout_ms, silence_timeout_ms);
}

static void start_stage(stage *s, uint32_t connect_timeout_ms)
{
    start_stage_with(s, connect_timeout_ms, 0);
}

static void end_stage(stage *s)
{
    store_driver_close_store(here.d);
    fake_redis_stop(s->fake);
    store_driver_free(here.d);
    assert_false(here.told_while_unready);
}

static bool has_subscribed(void *arg)
{
    stage *s = arg;

    return s->subscribes >= s->wanted;
}

static bool has_connected(void *arg)
{
    stage *s = arg;

    return fake_redis_connections(s->fake) >= s->wanted;
}

TEST(an_answer_that_confirms_nothing_is_tried_again)
{
    static const struct row {
        const char *answer, *why;
    } rows[] = {
        {"-NOPERM this user has no permissions to access the channel\r\n", "permission"},
        {"+OK\r\n", "not understood"},
        {"*1\r\n$9\r\nsubscribe\r\n", "not understood"},
        {"*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n", "not understood"},
        {"*3\r\n:1\r\n:1\r\n:1\r\n", "not understood"},
        {"garbage\r\n", "no reply"},
        {fake_close, "closed"},
        {fake_silent, "greeting"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage s = {.subscribe = rows[i].answer};
        print_message("%s\n", rows[i].why);
        start_stage(&s, 50);
        store_driver_until(here.d, has_reason, (void *)(uintptr_t)rows[i].why);
        assert_int_equal(here.listening, 0);
        assert_int_equal(store_driver_ups(here.d), 0);
        s.subscribe = NULL;
        store_driver_wait_ready(here.d, true);
        assert_int_equal(here.listening, 1);
        end_stage(&s);
    }
}

/* Functions would publish on the node's own channel. */
/* promise T22 */
TEST(a_node_of_a_cluster_wants_a_clusters_url)
{
    stage s = {.hello = "*6\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                        "$4\r\nmode\r\n$7\r\ncluster\r\n"};

    start_stage(&s, 0);
    store_driver_until(here.d, has_reason, (void *)(uintptr_t) "redis+cluster://");
    assert_int_equal(s.subscribes, 0);
    assert_int_equal(store_driver_ups(here.d), 0);
    end_stage(&s);
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
        stage s = {.subscribe = said[i], .wanted = 3};
        start_stage(&s, 0);
        store_driver_until(here.d, has_subscribed, &s);
        s.subscribe = NULL;
        wait_listening(here.listening + 1);
        assert_int_equal(fake_redis_open_connections(s.fake), 2);
        assert_int_equal(here.n_messages, 0);
        assert_int_equal(store_driver_ups(here.d), 1);
        end_stage(&s);
    }
}

/* Redis refuses PING, too, while it cannot write to its disk. */
TEST(a_ping_that_is_refused_is_answered)
{
    stage s = {.subscribe = CONFIRMED "-MISCONF Errors writing to the AOF file: No space left on device\r\n"
                                      "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n"};

    start_stage(&s, 0);
    wait_messages(1);
    assert_int_equal(s.subscribes, 1);
    end_stage(&s);
}

/* Its peer may be gone though the connection stands; then messages would be missed for ever. */
/* promise T13 */
TEST(a_channel_that_is_silent_is_heard_again)
{
    stage s = {.wanted = 2};

    start_stage_with(&s, 0, 40);
    wait_listening(1);
    fake_redis_deafen_subscribers(s.fake);
    store_driver_until(here.d, has_subscribed, &s);
    wait_listening(2);
    assert_int_equal(store_driver_ups(here.d), 1);
    end_stage(&s);
}

/* What would wait could not be woken. */
TEST(a_store_that_comes_back_is_ready_when_it_hears_again)
{
    stage s = {0};

    start_stage(&s, 0);
    store_driver_wait_ready(here.d, true);
    s.subscribe = "-NOPERM no\r\n";
    fake_redis_hang_up(s.fake);
    store_driver_until(here.d, has_reason, (void *)(uintptr_t) "permission");
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .timeout_ms = 100});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_int_equal(store_driver_ups(here.d), 1);
    s.subscribe = NULL;
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 2);
    end_stage(&s);
}

/* What is heard leads to calls, which need the store. */
/* promise T17: wake messages come in order; after a lost subscription the server is told to look again */
TEST(its_owner_is_told_when_the_store_can_be_asked)
{
    stage s = {.get = fake_silent, .wanted = 3};

    start_stage(&s, 50);
    store_driver_until(here.d, has_subscribed, &s);
    assert_int_equal(here.listening, 0);
    s.get = NULL;
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
    end_stage(&s);
}

/* Where publishers are not, nobody would be heard. */
TEST(a_replica_is_not_subscribed_to)
{
    stage s = {.hello = "*4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$7\r\nreplica\r\n", .wanted = 6};

    start_stage(&s, 0);
    store_driver_until(here.d, has_connected, &s);
    assert_int_equal(s.subscribes, 0);
    s.hello = NULL;
    store_driver_wait_ready(here.d, true);
    assert_int_equal(here.listening, 1);
    end_stage(&s);
}

/* The channel is heard each time, until the store's first connection is refused. */
/* promise T17 */
TEST(the_channel_of_a_store_that_is_never_ready_is_lost_once_in_the_log)
{
    stage s = {.select = "-ERR DB index is out of range\r\n", .wanted = 5};
    char url[URL_BYTES];

    memset(&here, 0, sizeof here);
    here.d = store_driver_new();
    s.fake = fake_redis_start(store_driver_loop(here.d), play, &s);
    snprintf(url, sizeof url, "%s?db=99", fake_redis_url(s.fake));
    kept_stderr_begin();
    open_store(url, 0, 0);
    store_driver_until(here.d, has_subscribed, &s);
    assert_string_equal(store_driver_reason(here.d), "the store has no database 99 (--store)");
    assert_int_equal(kept_stderr_count("event=wake-channel-lost"), 1);
    s.select = NULL;
    store_driver_wait_ready(here.d, true);
    for (unsigned i = 2; i <= 3; i++) { /* what was well in between is lost again */
        fake_redis_hang_up(s.fake);
        wait_listening(i);
    }
    assert_int_equal(kept_stderr_count("event=wake-channel-lost reason=\"the connection to the store broke"), 2);
    kept_stderr_end();
    end_stage(&s);
}

/* At once; at each step; and while messages come. */
TEST(a_subscription_may_be_closed_at_any_moment)
{
    for (int turns = 0; turns < 30; turns++) {
        stage s = {0};
        start_stage(&s, 0);
        for (int i = 0; i < turns; i++)
            uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
        end_stage(&s);
    }
    stage refused = {.subscribe = "-NOPERM no\r\n"};
    start_stage(&refused, 0);
    store_driver_until(here.d, has_reason, (void *)(uintptr_t) "permission");
    end_stage(&refused);

    set_up();
    tell_redis("EVAL \"for i=1,5000 do redis.call('PUBLISH','" CHANNEL "',i) end\" 0", "$-1");
    wait_messages(1);
    tear_down();
}

TEST_MAIN()

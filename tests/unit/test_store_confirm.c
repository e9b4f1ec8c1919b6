/* --wait-replicas: no answer, and no wake message, is told before so many replicas have what it tells of. */
/* promise T20 */
#include "support/fake_redis.h"
#include "support/store_driver.h"
#include "test.h"

#define CHANNEL "ls:wake:test"

enum { REPLICAS = 2 };

static struct stage {
    store_driver *d;
    fake_redis *fake;
    int confirm;        /* how many replicas WAIT says; below 0: nothing */
    bool stuck;         /* by that */
    bool hang_up;       /* at WAIT, instead */
    unsigned replicas;  /* that ROLE says */
    bool cluster;       /* it is a node of one */
    const char *expire; /* the answer to EXPIRE */
    unsigned expires;
    char expired[64];
    unsigned waits, fcalls, publishes;
    unsigned messages, listening;
    char wanted[32];
} here;

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    static char reply[128];

    (void)arg;
    if (here.stuck)
        return fake_silent; /* the connection stands still until WAIT is answered */
    if (strcmp(argv[0], "WAIT") == 0) {
        here.waits++;
        here.stuck = here.confirm < 0;
        snprintf(here.wanted, sizeof here.wanted, "%s %s", argv[1], argv[2]);
        snprintf(reply, sizeof reply, ":%d\r\n", here.confirm);
        return here.hang_up ? fake_close : here.stuck ? fake_silent : reply;
    }
    if (strcmp(argv[0], "PUBLISH") == 0) {
        here.publishes++;
        return ":0\r\n";
    }
    if (strcmp(argv[0], "EXPIRE") == 0) {
        here.expires++;
        snprintf(here.expired, sizeof here.expired, "%s", argv[1]);
        return here.expire;
    }
    if (strcmp(argv[0], "HELLO") == 0 && here.cluster)
        return "*6\r\n$7\r\nversion\r\n$5\r\n7.2.6\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n$7\r\ncluster\r\n";
    here.fcalls += strcmp(argv[0], "FCALL") == 0;
    if (strcmp(argv[0], "SUBSCRIBE") == 0)
        return "*3\r\n$9\r\nsubscribe\r\n$12\r\n" CHANNEL "\r\n:1\r\n";
    if (strcmp(argv[0], "INFO") == 0)
        return "-NOPERM\r\n";
    if (strcmp(argv[0], "ROLE") == 0)
        return here.replicas == 0   ? "*3\r\n$6\r\nmaster\r\n:9\r\n*0\r\n"
               : here.replicas == 1 ? "*3\r\n$6\r\nmaster\r\n:9\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n9\r\n"
                                    : "*3\r\n$6\r\nmaster\r\n:9\r\n*2\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n9\r\n"
                                      "*3\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\n9\r\n";
    return fake_usual;
}

static void on_wake(void *arg, const char *data, size_t len)
{
    (void)arg;
    assert_int_equal(len, 1);
    assert_int_equal(data[0], '0' + (char)here.messages);
    here.messages++;
}

static void on_listening(void *arg)
{
    (void)arg;
    here.listening++;
}

static int begin_at(bool cluster)
{
    here = (struct stage){
        .d = store_driver_new(), .confirm = REPLICAS, .replicas = REPLICAS, .cluster = cluster, .expire = ":1\r\n"};
    here.fake = fake_redis_start(store_driver_loop(here.d), play, NULL);
    const store_options options = {.url = fake_redis_url(here.fake),
                                   .wait_replicas = REPLICAS,
                                   .wait_ms = 70,
                                   .role_check_ms = 100,
                                   .wake_channel = cluster ? NULL : CHANNEL,
                                   .on_wake = on_wake,
                                   .on_listening = on_listening};
    assert_int_equal(store_driver_open(here.d, &options, NULL), LKS_OK);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_at(false);
}

static int begin_in_a_cluster(void **state)
{
    (void)state;
    return begin_at(true);
}

static int end(void **state)
{
    (void)state;
    store_driver_close_store(here.d);
    fake_redis_stop(here.fake);
    store_driver_free(here.d);
    return 0;
}

static bool waited(void *arg)
{
    return here.waits > *(unsigned *)arg;
}

/* Until WAIT was asked `more` times more. */
static void until_waits(unsigned more)
{
    unsigned seen = here.waits + more - 1;

    store_driver_until(here.d, waited, &seen);
}

/* Redis 7.2 answers WAIT at once on a connection that has written nothing, and a node of a cluster sends its replicas no
 * PUBLISH. */
TEST_WITH(in_a_cluster_a_write_of_its_own_stands_before_each_question, begin_in_a_cluster, end)
{
    store_driver_wait_ready(here.d, true);
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(here.waits, 1);
    assert_int_equal(here.expires, 1);
    assert_string_equal(here.expired, "ls:{meta}:wait");
    assert_int_equal(here.publishes, 0);
}

/* Its slot is elsewhere; or memory is full, and the key was never there. */
TEST_WITH(without_that_write_nothing_is_confirmed, begin_in_a_cluster, end)
{
    static const char *const refusals[] = {"-MOVED 1 127.0.0.1:1\r\n", ":0\r\n"};

    store_driver_wait_ready(here.d, true);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        unsigned before = here.fcalls;
        here.expire = refusals[i];
        outcome *never = store_driver_call(here.d, &(driver_call){.function = "put"});
        assert_outcome(never, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        outcome *again = store_driver_submit(here.d, &(driver_call){.function = "echo", .repeatable = true});
        until_waits(2);
        assert_int_equal(again->ends, 0);
        here.expire = ":1\r\n";
        store_driver_wait(here.d, again);
        assert_outcome(again, LKS_OK, LKS_APPLIED_YES);
        assert_in_range(here.fcalls, before + 3, UINT32_MAX);
    }
}

TEST_WITH(calls_of_a_turn_share_one_question, begin, end)
{
    store_driver_wait_ready(here.d, true);
    unsigned waits = here.waits;
    outcome *a = store_driver_submit(here.d, &(driver_call){.function = "echo"});
    outcome *b = store_driver_submit(here.d, &(driver_call){.function = "put"});
    store_driver_wait(here.d, a);
    store_driver_wait(here.d, b);
    assert_outcome(a, LKS_OK, LKS_APPLIED_YES);
    assert_string_equal(outcome_text(a, 0), "DONE");
    assert_outcome(b, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(here.waits, waits + 1);
    assert_int_equal(here.publishes, here.waits);
    assert_string_equal(here.wanted, "2 70");
}

/* It is answered by Redis, and its caller is not told. */
TEST_WITH(no_answer_comes_before_the_replicas_have_it, begin, end)
{
    store_driver_wait_ready(here.d, true);
    here.confirm = -1;
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put", .timeout_ms = SENT_MS});
    until_waits(1);
    assert_int_equal(o->ends, 0);
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
}

TEST_WITH(what_too_few_confirmed_is_maybe, begin, end)
{
    store_driver_wait_ready(here.d, true);
    here.confirm = REPLICAS - 1;
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "put"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_non_null(strstr(o->message, "replicas"));
}

TEST_WITH(a_repeatable_call_is_asked_again_until_it_is_sure, begin, end)
{
    store_driver_wait_ready(here.d, true);
    here.confirm = REPLICAS - 1;
    unsigned fcalls = here.fcalls;
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put", .repeatable = true});
    until_waits(2);
    assert_int_equal(o->ends, 0);
    here.confirm = REPLICAS;
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    assert_true(here.fcalls - fcalls >= 2);
}

TEST_WITH(a_connection_lost_before_the_replicas_answer_is_maybe, begin, end)
{
    store_driver_wait_ready(here.d, true);
    here.hang_up = true;
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put"});
    outcome *again = store_driver_submit(here.d, &(driver_call){.function = "get", .repeatable = true});
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    here.hang_up = false;
    store_driver_wait(here.d, again);
    assert_outcome(again, LKS_OK, LKS_APPLIED_YES);
}

static void say(unsigned i)
{
    char text[128];

    snprintf(text, sizeof text, "*3\r\n$7\r\nmessage\r\n$12\r\n" CHANNEL "\r\n$1\r\n%u\r\n", i);
    fake_redis_say_to(here.fake, "SUBSCRIBE", text);
}

static bool has_messages(void *arg)
{
    return here.messages >= *(unsigned *)arg;
}

TEST_WITH(a_message_is_told_when_the_replicas_have_it, begin, end)
{
    unsigned wanted = 3;

    store_driver_wait_ready(here.d, true);
    unsigned waits = here.waits;
    for (unsigned i = 0; i < wanted; i++)
        say(i);
    store_driver_until(here.d, has_messages, &wanted);
    assert_true(here.waits > waits);
    assert_int_equal(here.listening, 1);
}

static bool listens_again(void *arg)
{
    return here.listening > *(unsigned *)arg;
}

TEST_WITH(a_message_that_is_not_sure_makes_who_waits_ask_anew, begin, end)
{
    store_driver_wait_ready(here.d, true);
    unsigned listening = here.listening;
    here.confirm = 0;
    say(0);
    store_driver_until(here.d, listens_again, &listening);
    assert_int_equal(here.messages, 0);
}

TEST_WITH(messages_that_were_not_asked_for_yet_are_missed_with_the_connection, begin, end)
{
    store_driver_wait_ready(here.d, true);
    unsigned listening = here.listening;
    here.hang_up = true;
    for (unsigned i = 0; i < 5; i++)
        say(i);
    store_driver_until(here.d, listens_again, &listening);
    assert_int_equal(here.messages, 0);
    here.hang_up = false;
    store_driver_wait_ready(here.d, true);
}

TEST_WITH(with_too_few_replicas_it_is_not_ready, begin, end)
{
    store_driver_wait_ready(here.d, true);
    here.replicas = 1;
    store_driver_wait_ready(here.d, false);
    assert_string_equal(store_driver_reason(here.d), "the store has 1 replicas, --wait-replicas asks for 2");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_TOO_FEW_REPLICAS);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "put"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    here.replicas = 2;
    store_driver_wait_ready(here.d, true);
}

TEST_MAIN()

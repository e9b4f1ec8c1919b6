/* Which Redis is the primary, by sentinels whose answers are scripted: the newest configuration counts, a primary that
 * was lost is asked for again before it is used, and one that is demoted is left at once. */
/* promise T19 */
#include "support/fake_redis.h"
#include "support/kept_stderr.h"
#include "support/store_driver.h"
#include "support/tempdir.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

enum { SEATS = 3, TEXT_BYTES = 1024 };

#define NAME "shop"
#define WITH_REPLICA "role:master\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\n"

/* A sentinel, or a primary. */
typedef struct seat {
    fake_redis *fake;
    unsigned port;
} seat;

typedef struct scene {
    store_driver *d;
    seat sentinels[SEATS], primaries[SEATS];
    const fake_redis *waited_for; /* for a condition, as the next: */
    const char *words;
    unsigned asked, connections;
} scene;

static scene s;

static void silence(bool silent)
{
    fake_redis_answer(s.sentinels[0].fake, "SENTINEL", silent ? fake_silent : NULL);
}

static void call_itself(size_t sentinel, size_t as)
{
    char id[16];

    snprintf(id, sizeof id, "$5\r\n%05u\r\n", s.sentinels[as].port);
    fake_redis_answer(s.sentinels[sentinel].fake, "SENTINEL MYID", id);
}

/* The sentinel names that primary, in a configuration of that epoch. */
static void switch_to(size_t sentinel, size_t primary, long epoch)
{
    fake_redis *fake = s.sentinels[sentinel].fake;
    char text[64];

    snprintf(text, sizeof text, "[config-epoch %ld]", epoch);
    fake_redis_answer(fake, "SENTINEL MASTER " NAME, text);
    snprintf(text, sizeof text, "[127.0.0.1 %u]", s.primaries[primary].port);
    fake_redis_answer(fake, "SENTINEL GET-MASTER-ADDR-BY-NAME " NAME, text);
}

/* The first sentinel names that one. */
static void name_other(size_t other)
{
    char text[64];

    snprintf(text, sizeof text, "[[ip 127.0.0.1 port %u]]", s.sentinels[other].port);
    fake_redis_answer(s.sentinels[0].fake, "SENTINEL SENTINELS " NAME, text);
}

static void set_role(size_t primary, const char *info)
{
    char text[128];

    snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(info), info);
    fake_redis_answer(s.primaries[primary].fake, "INFO", text);
}

static void start(seat *of)
{
    of->fake = fake_redis_start(store_driver_loop(s.d), NULL, NULL);
    of->port = fake_redis_listen_tcp(of->fake);
}

/* All sentinels name the first primary. */
static int begin(void **state)
{
    (void)state;
    s = (scene){.d = store_driver_new()};
    for (size_t i = 0; i < SEATS; i++) {
        start(&s.sentinels[i]);
        start(&s.primaries[i]);
        set_role(i, "role:master\r\n");
    }
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_answer(s.sentinels[i].fake, "HELLO", "[version 7.0.15 mode sentinel role sentinel]");
        fake_redis_answer(s.sentinels[i].fake, "SENTINEL SENTINELS", "[]");
        call_itself(i, i);
        switch_to(i, 0, 0);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_driver_close_store(s.d);
    kept_stderr_end();
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_stop(s.sentinels[i].fake);
        fake_redis_stop(s.primaries[i].fake);
    }
    store_driver_free(s.d);
    return 0;
}

static void open_store_with(size_t sentinels, store_options options)
{
    char url[TEXT_BYTES] = "redis+sentinel://";
    size_t used = strlen(url);

    for (size_t i = 0; i < sentinels; i++)
        used +=
            (size_t)snprintf(url + used, sizeof url - used, "%s127.0.0.1:%u", i > 0 ? "," : "", s.sentinels[i].port);
    snprintf(url + used, sizeof url - used, "/" NAME);
    options.url = url;
    options.role_check_ms = 1000;
    assert_int_equal(store_driver_open(s.d, &options, NULL), LKS_OK);
}

static void open_store(size_t sentinels)
{
    open_store_with(sentinels, (store_options){0});
}

/* With one sentinel, whose primary serves. */
static void open_ready(void)
{
    open_store(1);
    store_driver_wait_ready(s.d, true);
}

/* Whether calls reach this one. */
static bool serves(size_t primary)
{
    unsigned before = fake_redis_calls(s.primaries[primary].fake);
    const outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"});

    return o->code == LKS_OK && fake_redis_calls(s.primaries[primary].fake) == before + 1;
}

static bool is_at_second(void *arg)
{
    (void)arg;
    return serves(1);
}

static bool was_asked_often(void *arg)
{
    (void)arg;
    return fake_redis_seen(s.waited_for, s.words) >= s.asked;
}

/* Until it has answered this `more` times more. */
static void until_asked(const seat *of, const char *words, unsigned more)
{
    s.waited_for = of->fake;
    s.words = words;
    s.asked = fake_redis_seen(of->fake, words) + more;
    store_driver_until(s.d, was_asked_often, NULL);
}

static bool has_reason(void *arg)
{
    (void)arg;
    return strstr(store_driver_reason(s.d), s.words);
}

static void until_reason(const char *text)
{
    s.words = text;
    store_driver_until(s.d, has_reason, NULL);
}

static void tell_switch(const char *name, size_t from, size_t to)
{
    char text[128], message[256];

    snprintf(text, sizeof text, "%s 127.0.0.1 %u 127.0.0.1 %u", name, s.primaries[from].port, s.primaries[to].port);
    snprintf(message, sizeof message, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n", strlen(text),
             text);
    fake_redis_say_to(s.sentinels[0].fake, "SUBSCRIBE", message);
}

static bool is_not_ready(void *arg)
{
    (void)arg;
    return !store_ready(store_driver_store(s.d), NULL);
}

TEST_WITH(calls_go_where_a_sentinel_says, begin, end)
{
    open_ready();
    assert_true(serves(0));
    assert_int_equal(fake_redis_connections(s.primaries[1].fake), 0);
}

/* One of three is broken, or somebody else's: the password is not for whom it names, whatever the epoch. */
TEST_WITH(one_sentinel_of_three_cannot_ask_for_the_password, begin, end)
{
    char *dir = tempdir_make(), path[256];

    snprintf(path, sizeof path, "%s/password", dir);
    assert_true(tempdir_write(path, "secret\n"));
    switch_to(0, 2, 9);
    open_store_with(3, (store_options){.files = {.password = path}});
    store_driver_wait_ready(s.d, true);
    assert_true(serves(0));
    assert_int_equal(fake_redis_connections(s.primaries[2].fake), 0);
    set_role(0, "role:slave\r\n"); /* while in doubt, too */
    store_driver_wait_ready(s.d, false);
    until_asked(&s.sentinels[0], "SENTINEL MASTER", 3);
    assert_int_equal(fake_redis_connections(s.primaries[2].fake), 0);
    switch_to(1, 1, 3);
    switch_to(2, 1, 3);
    store_driver_until(s.d, is_at_second, NULL);
    assert_int_equal(fake_redis_connections(s.primaries[2].fake), 0);
    tempdir_remove(dir);
}

/* Those that sentinels name are not of the URL. */
TEST_WITH(sentinels_that_others_name_do_not_count_for_the_password, begin, end)
{
    char *dir = tempdir_make(), path[256];

    snprintf(path, sizeof path, "%s/password", dir);
    assert_true(tempdir_write(path, "secret\n"));
    name_other(2);
    switch_to(0, 2, 9);
    switch_to(2, 2, 9);
    open_store_with(2, (store_options){.files = {.password = path}});
    until_asked(&s.sentinels[0], "SENTINEL MASTER", 4);
    until_reason("too few sentinels");
    assert_int_equal(fake_redis_connections(s.primaries[2].fake), 0);
    switch_to(1, 2, 9);
    store_driver_wait_ready(s.d, true);
    assert_true(serves(2));
    tempdir_remove(dir);
}

/* promise T23 */
TEST_WITH(the_store_is_told_which_primary_it_is_first, begin, end)
{
    char expected[128];

    switch_to(0, 0, 7);
    open_store(1);
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"}); /* submitted before */
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    const char *first = strstr(fake_redis_log(s.primaries[0].fake), "FCALL ");
    snprintf(expected, sizeof expected, "FCALL id_generation_7e577e577e577e57 1 ls:{meta}: 1 127.0.0.1:%u/7\n",
             s.primaries[0].port);
    assert_ptr_equal(strstr(first, expected), first);
}

TEST_WITH(the_newest_configuration_counts, begin, end)
{
    switch_to(0, 0, 7);
    switch_to(1, 1, 8);
    switch_to(2, 0, 7);
    open_store(3);
    store_driver_until(s.d, is_at_second, NULL);
    assert_true(serves(1));
}

TEST_WITH(a_sentinel_that_another_names_is_asked_too, begin, end)
{
    name_other(1);
    open_ready();
    switch_to(1, 1, 8);
    store_driver_until(s.d, is_at_second, NULL);
    assert_true(serves(1));
}

/* It calls itself as before; what the URL says of it is no more. */
TEST_WITH(a_sentinel_that_has_moved_is_asked_where_it_is, begin, end)
{
    open_store(2);
    store_driver_wait_ready(s.d, true);
    fake_redis_stop(s.sentinels[1].fake);
    s.sentinels[1].fake = NULL;
    call_itself(2, 1);
    name_other(2);
    until_asked(&s.sentinels[2], "SENTINEL MASTER", 4);
    assert_int_equal(fake_redis_connections(s.sentinels[2].fake), 2);
}

/* The message ends the link at once, before any answer: the primary gets no call that came after it. */
TEST_WITH(a_primary_that_is_no_more_is_left_at_once, begin, end)
{
    open_ready();
    silence(true);
    tell_switch(NAME, 0, 1);
    store_driver_until(s.d, is_not_ready, NULL);
    assert_non_null(strstr(store_driver_reason(s.d), "no longer the primary"));
    unsigned before = fake_redis_calls(s.primaries[0].fake);
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_calls(s.primaries[0].fake), before);
}

TEST_WITH(a_switch_of_another_primary_is_nothing, begin, end)
{
    open_ready();
    tell_switch("toys", 0, 1);
    until_asked(&s.sentinels[0], "SENTINEL MASTER", 1);
    assert_true(serves(0));
    assert_int_equal(store_driver_ups(s.d), 1);
}

/* It may have been replaced meanwhile, and have come back as it was. */
TEST_WITH(a_primary_that_was_lost_is_asked_for_before_it_is_used_again, begin, end)
{
    open_ready();
    unsigned connections = fake_redis_connections(s.primaries[0].fake);
    fake_redis_hang_up(s.sentinels[0].fake);
    silence(true);
    fake_redis_hang_up(s.primaries[0].fake);
    until_asked(&s.sentinels[0], "SENTINEL MASTER", 1);
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"}); /* a second later */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(s.primaries[0].fake), connections);
    assert_string_equal(store_driver_reason(s.d), "the sentinels have not named a primary");
    assert_int_equal(store_driver_fault(s.d), LKS_REASON_STORE_FAILING_OVER);
    silence(false);
    switch_to(0, 1, 8);
    fake_redis_hang_up(s.sentinels[0].fake);
    store_driver_wait_ready(s.d, true);
    assert_true(serves(1));
    assert_int_equal(fake_redis_connections(s.primaries[0].fake), connections);
}

/* The newest configuration is that of a sentinel which answers no more; another one knows only of an older. */
TEST_WITH(an_answer_of_before_does_not_vouch_for_a_primary_that_was_lost, begin, end)
{
    switch_to(0, 1, 8);
    switch_to(1, 0, 7);
    open_store(2);
    store_driver_until(s.d, is_at_second, NULL);
    silence(true);
    fake_redis_hang_up(s.sentinels[0].fake);
    unsigned connections = fake_redis_connections(s.primaries[1].fake);
    fake_redis_hang_up(s.primaries[1].fake);
    store_driver_wait_ready(s.d, false);
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"}); /* a second later */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(s.primaries[1].fake), connections);
}

/* Found by a question each second, also when nobody writes. */
TEST_WITH(a_primary_that_became_a_replica_is_left, begin, end)
{
    open_ready();
    set_role(0, "role:slave\r\n");
    store_driver_wait_ready(s.d, false);
    switch_to(0, 1, 8);
    store_driver_until(s.d, is_at_second, NULL);
    assert_true(serves(1));
}

static bool none_answers(void *arg)
{
    store_view view;
    (void)arg;

    store_look(store_driver_store(s.d), &view);
    assert_int_equal(view.sentinels, SEATS);
    return view.sentinels_answering == 0;
}

TEST_WITH(all_sentinels_gone_leave_a_primary_that_serves_in_use, begin, end)
{
    open_store(3);
    store_driver_wait_ready(s.d, true);
    assert_false(none_answers(NULL));
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_stop(s.sentinels[i].fake);
        s.sentinels[i].fake = NULL;
    }
    assert_true(serves(0));
    store_driver_until(s.d, none_answers, NULL);
    fake_redis_hang_up(s.primaries[0].fake);
    store_driver_wait_ready(s.d, false);
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(store_driver_reason(s.d), "no sentinel answers");
}

TEST_WITH(a_name_that_no_sentinel_knows_is_told, begin, end)
{
    fake_redis_answer(s.sentinels[0].fake, "SENTINEL", "-ERR No such master with that name\r\n");
    open_store(1);
    until_reason("the sentinel knows no primary of that name");
    silence(false);
    store_driver_wait_ready(s.d, true);
}

static void may_not_ask(const char *question)
{
    fake_redis_answer(s.sentinels[0].fake, question, "-NOPERM User x has no permissions to run this command\r\n");
    open_store(1);
    until_reason("the sentinel denies its user a permission");
    switch_to(0, 0, 0);
    store_driver_wait_ready(s.d, true);
}

TEST_WITH(a_user_that_may_not_ask_for_the_configuration_is_told, begin, end)
{
    may_not_ask("SENTINEL MASTER " NAME);
}

TEST_WITH(a_user_that_may_not_ask_for_the_address_is_told, begin, end)
{
    may_not_ask("SENTINEL GET-MASTER-ADDR-BY-NAME " NAME);
}

static void ignore_wake(void *arg, const char *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
}

static void ignore_listening(void *arg)
{
    (void)arg;
}

/* As after a failover: until its replicas are back it is tried again, at growing pauses. */
TEST_WITH(a_primary_that_takes_no_write_is_not_stormed, begin, end)
{
    enum { ATTEMPTS_MAX = 10 };
    fake_redis_answer(s.primaries[0].fake, "FCALL", "-NOREPLICAS Not enough good replicas to write.\r\n");
    open_store(1);
    const outcome *o;
    unsigned seconds = 0;
    do {
        o = store_driver_call(s.d, &(driver_call){.function = "echo"}); /* takes a second */
        seconds++;
        assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    } while (fake_redis_connections(s.primaries[0].fake) < 2);
    assert_string_equal(o->message, "the store has too few replicas");
    assert_true(fake_redis_connections(s.primaries[0].fake) <= ATTEMPTS_MAX * seconds);
    fake_redis_answer(s.primaries[0].fake, "FCALL", NULL);
    store_driver_wait_ready(s.d, true);
    assert_true(serves(0));
}

/* The connection to the primary lives all the time. */
TEST_WITH(a_primary_in_doubt_serves_when_what_it_lacked_is_there, begin, end)
{
    open_store_with(1, (store_options){.wait_replicas = 1,
                                       .wake_channel = "ls:wake:test",
                                       .on_wake = ignore_wake,
                                       .on_listening = ignore_listening});
    until_reason("the store has 0 replicas");
    silence(true);
    fake_redis_say_to(s.primaries[0].fake, "SUBSCRIBE", ":1\r\n"); /* no message: that connection is given up */
    until_asked(&s.primaries[0], "INFO", 3);                       /* each second; nobody names a primary meanwhile */
    silence(false);
    fake_redis_hang_up(s.sentinels[0].fake);
    set_role(0, WITH_REPLICA);
    store_driver_wait_ready(s.d, true);
}

TEST_WITH(a_redis_that_is_no_sentinel_is_not_asked, begin, end)
{
    fake_redis_answer(s.sentinels[0].fake, "HELLO", NULL);
    open_store(1);
    until_reason("no sentinel answers");
    assert_int_equal(fake_redis_seen(s.sentinels[0].fake, "SENTINEL"), 0);
}

static void tell_again(uv_prepare_t *prepare)
{
    tell_switch(NAME, 0, 1);
}

/* The node is gone before the sentinels are. */
TEST_WITH(what_sentinels_tell_while_the_store_closes_is_nothing, begin, end)
{
    static uv_prepare_t each_turn;

    open_ready();
    uv_prepare_init(store_driver_loop(s.d), &each_turn);
    uv_prepare_start(&each_turn, tell_again);
    store_driver_close_store(s.d);
    uv_close((uv_handle_t *)&each_turn, NULL);
}

/* ---- what the log says ---------------------------------------------------------- */

static bool has_logged(void *arg)
{
    return strstr(kept_stderr(), arg);
}

static bool has_lost_four_times(void *arg)
{
    (void)arg;
    return kept_stderr_count("event=sentinel-lost") >= 4;
}

static void wait_logged(const char *text)
{
    store_driver_until(s.d, has_logged, (void *)(uintptr_t)text);
}

static bool was_connected_to_often(void *arg)
{
    (void)arg;
    return fake_redis_connections(s.sentinels[0].fake) >= s.connections;
}

/* Three more attempts of each of its two connections. */
static void let_it_try(void)
{
    s.connections = fake_redis_connections(s.sentinels[0].fake) + 6;
    store_driver_until(s.d, was_connected_to_often, NULL);
}

/* The password file is at `path`. */
static void open_with_password(const char *path)
{
    assert_true(tempdir_write(path, "old\n"));
    kept_stderr_begin();
    open_store_with(1, (store_options){.files = {.sentinel_password = path}});
}

static void hang_up_and_refuse(bool refuses)
{
    fake_redis_answer(s.sentinels[0].fake, "AUTH",
                      refuses ? "-WRONGPASS invalid username-password pair or user is disabled.\r\n" : NULL);
    fake_redis_hang_up(s.sentinels[0].fake);
}

/* As after a SIGHUP: the connection lives, the next one is refused. */
/* promise F8 */
TEST_WITH(each_reason_why_a_sentinel_is_lost_is_logged_once_and_that_it_is_back, begin, end)
{
    char *dir = tempdir_make(), path[128];

    snprintf(path, sizeof path, "%s/password", dir);
    open_with_password(path);
    store_driver_wait_ready(s.d, true);
    assert_int_equal(kept_stderr_count("sentinel-back"), 0);
    hang_up_and_refuse(true);
    wait_logged("reason=\"the sentinel refuses the credentials (--store-sentinel-password-file)\"");
    let_it_try();
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 2);
    assert_int_equal(kept_stderr_count("reason=\"the connection to the sentinel broke: "), 1);
    fake_redis_answer(s.sentinels[0].fake, "AUTH", NULL);
    wait_logged("event=sentinel-back");
    assert_int_equal(kept_stderr_count("level=info event=sentinel-back sentinel=127.0.0.1:"), 1);
    assert_int_equal(kept_stderr_count("wake-channel-lost"), 0);
    hang_up_and_refuse(true);
    store_driver_until(s.d, has_lost_four_times, NULL);
    let_it_try();
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 4);
    tempdir_remove(dir);
}

TEST_WITH(a_password_that_a_sentinel_does_not_want_is_told, begin, end)
{
    char *dir = tempdir_make(), path[128];

    snprintf(path, sizeof path, "%s/password", dir);
    fake_redis_answer(s.sentinels[0].fake, "AUTH",
                      "-ERR AUTH <password> called without any password configured for the default user.\r\n");
    open_with_password(path);
    wait_logged("reason=\"the sentinel has no password, and one was given (--store-sentinel-password-file)\"");
    tempdir_remove(dir);
}

/* Of the new primary less is not fewer: before it was another's. */
TEST_WITH(replicas_of_another_primary_are_not_compared, begin, end)
{
    char line[128];

    kept_stderr_begin();
    set_role(0, WITH_REPLICA);
    open_ready();
    wait_logged("event=store-replicas");
    switch_to(0, 1, 8);
    store_driver_until(s.d, is_at_second, NULL);
    set_role(1, WITH_REPLICA);
    snprintf(line, sizeof line, "event=store-replicas primary=127.0.0.1:%u connected=1", s.primaries[1].port);
    wait_logged(line);
    assert_int_equal(kept_stderr_count("store-replica-lost"), 0);
    set_role(1, "role:master\r\n");
    snprintf(line, sizeof line, "event=store-replica-lost primary=127.0.0.1:%u connected=0 before=1",
             s.primaries[1].port);
    wait_logged(line);
}

TEST_MAIN()

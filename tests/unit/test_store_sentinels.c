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

/* A sentinel, or a primary. */
typedef struct seat {
    fake_redis *fake;
    unsigned port;
    bool is_sentinel;
    unsigned asked;     /* of the primary */
    bool silent;        /* to all that sentinels are asked */
    bool refuses;       /* the password */
    bool welcomes;      /* and wants none */
    unsigned was;       /* the port at which it was before; 0: it did not move */
    bool foreign;       /* it does not know the name */
    const char *denied; /* this question its user may not ask; NULL: all */
    long epoch;
    unsigned primary, other; /* ports that it tells: of the primary, of another sentinel; 0 = none */
    bool demoted;            /* what ROLE says */
    bool has_replica;        /* the same */
    unsigned roles;          /* how often it was asked that */
    bool lacks_replicas;     /* it takes no write, by its own settings */
    char first[64];          /* function that was called, and its argument */
    char reply[TEXT_BYTES];
} seat;

typedef struct scene {
    store_driver *d;
    seat sentinels[SEATS], primaries[SEATS];
    unsigned asked, connections; /* for a condition */
} scene;

static const char *say(seat *s, const char *const *words, size_t n)
{
    size_t used = (size_t)snprintf(s->reply, sizeof s->reply, "*%zu\r\n", n);

    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(s->reply + used, sizeof s->reply - used, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    return s->reply;
}

static const char *tell(seat *s, const char *question)
{
    char epoch[24], port[16], other[16];

    if (strcmp(question, "MYID") == 0 && s->silent)
        return fake_silent;
    snprintf(epoch, sizeof epoch, "%ld", s->epoch);
    snprintf(port, sizeof port, "%u", s->primary);
    snprintf(other, sizeof other, "%u", s->other);
    if (strcmp(question, "MYID") == 0) {
        snprintf(s->reply, sizeof s->reply, "$5\r\n%05u\r\n", s->was ? s->was : s->port);
        return s->reply;
    }
    s->asked += strcmp(question, "MASTER") == 0;
    if (s->silent)
        return fake_silent;
    if (s->denied && strcmp(question, s->denied) == 0)
        return "-NOPERM User x has no permissions to run the 'sentinel' command\r\n";
    if (s->foreign)
        return "-ERR No such master with that name\r\n";
    if (strcmp(question, "MASTER") == 0)
        return say(s, (const char *const[]){"config-epoch", epoch}, 2);
    if (strcmp(question, "SENTINELS") == 0 && s->other == 0)
        return "*0\r\n";
    if (strcmp(question, "SENTINELS") == 0) {
        char one[TEXT_BYTES];
        snprintf(one, sizeof one, "*1\r\n%s", say(s, (const char *const[]){"ip", "127.0.0.1", "port", other}, 4));
        snprintf(s->reply, sizeof s->reply, "%s", one);
        return s->reply;
    }
    return say(s, (const char *const[]){"127.0.0.1", port}, 2);
}

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    seat *s = arg;

    if (strcmp(argv[0], "AUTH") == 0 && s->refuses)
        return "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    if (strcmp(argv[0], "AUTH") == 0 && s->welcomes)
        return "-ERR AUTH <password> called without any password configured for the default user. Are you sure?\r\n";
    if (s->is_sentinel && strcmp(argv[0], "HELLO") == 0)
        return say(s, (const char *const[]){"version", "7.0.15", "mode", "sentinel", "role", "sentinel"}, 6);
    if (s->is_sentinel && strcmp(argv[0], "SENTINEL") == 0)
        return tell(s, argv[1]);
    if (strcmp(argv[0], "SUBSCRIBE") == 0 && argc == 2) {
        snprintf(s->reply, sizeof s->reply, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(argv[1]), argv[1]);
        return s->reply;
    }
    if (strcmp(argv[0], "FCALL") == 0 && s->lacks_replicas)
        return "-NOREPLICAS Not enough good replicas to write.\r\n";
    if (strcmp(argv[0], "FCALL") == 0 && s->first[0] == '\0')
        snprintf(s->first, sizeof s->first, "%.13s %s", argv[1], argv[argc - 1]);
    s->roles += strcmp(argv[0], "INFO") == 0;
    if (strcmp(argv[0], "INFO") == 0 && s->has_replica)
        return "$69\r\nrole:master\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\n\r\n";
    if (strcmp(argv[0], "INFO") == 0)
        return s->demoted ? "$10\r\nrole:slave\r\n" : "$11\r\nrole:master\r\n";
    return fake_usual;
}

static void start(seat *s, store_driver *d, bool is_sentinel)
{
    s->is_sentinel = is_sentinel;
    s->fake = fake_redis_start(store_driver_loop(d), play, s);
    s->port = fake_redis_listen_tcp(s->fake);
}

/* All sentinels name the first primary. */
static int begin(void **state)
{
    static scene s;

    s = (scene){.d = store_driver_new()};
    for (size_t i = 0; i < SEATS; i++) {
        start(&s.sentinels[i], s.d, true);
        start(&s.primaries[i], s.d, false);
    }
    for (size_t i = 0; i < SEATS; i++)
        s.sentinels[i].primary = s.primaries[0].port;
    *state = &s;
    return 0;
}

static int end(void **state)
{
    scene *s = *state;

    store_driver_close_store(s->d);
    kept_stderr_end();
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_stop(s->sentinels[i].fake);
        fake_redis_stop(s->primaries[i].fake);
    }
    store_driver_free(s->d);
    return 0;
}

static void open_store_with(scene *s, size_t sentinels, store_options options)
{
    char url[TEXT_BYTES] = "redis+sentinel://";
    size_t used = strlen(url);

    for (size_t i = 0; i < sentinels; i++)
        used +=
            (size_t)snprintf(url + used, sizeof url - used, "%s127.0.0.1:%u", i > 0 ? "," : "", s->sentinels[i].port);
    snprintf(url + used, sizeof url - used, "/" NAME);
    options.url = url;
    options.role_check_ms = 1000;
    assert_int_equal(store_driver_open(s->d, &options, NULL), LKS_OK);
}

static void open_store(scene *s, size_t sentinels)
{
    open_store_with(s, sentinels, (store_options){0});
}

/* Whether calls reach this one. */
static bool serves(scene *s, size_t primary)
{
    unsigned before = fake_redis_calls(s->primaries[primary].fake);
    const outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"});

    return o->code == LKS_OK && fake_redis_calls(s->primaries[primary].fake) == before + 1;
}

static bool is_at_second(void *arg)
{
    return serves(arg, 1);
}

static bool was_asked_often(void *arg)
{
    scene *s = arg;

    return s->sentinels[0].asked >= s->asked;
}

static void switch_to(scene *s, size_t sentinel, size_t primary, long epoch)
{
    s->sentinels[sentinel].primary = s->primaries[primary].port;
    s->sentinels[sentinel].epoch = epoch;
}

static void tell_switch(scene *s, const char *name, size_t from, size_t to)
{
    char text[128], message[256];

    snprintf(text, sizeof text, "%s 127.0.0.1 %u 127.0.0.1 %u", name, s->primaries[from].port, s->primaries[to].port);
    snprintf(message, sizeof message, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n", strlen(text),
             text);
    fake_redis_say_to(s->sentinels[0].fake, "SUBSCRIBE", message);
}

static bool is_not_ready(void *arg)
{
    scene *s = arg;

    return !store_ready(store_driver_store(s->d), NULL);
}

static bool names_too_few(void *arg)
{
    const scene *s = arg;

    return strstr(store_driver_reason(s->d), "too few sentinels");
}

TEST_WITH(calls_go_where_a_sentinel_says, begin, end)
{
    scene *s = *state;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    assert_true(serves(s, 0));
    assert_int_equal(fake_redis_connections(s->primaries[1].fake), 0);
}

/* One of three is broken, or somebody else's: the password is not for whom it names, whatever the epoch. */
TEST_WITH(one_sentinel_of_three_cannot_ask_for_the_password, begin, end)
{
    scene *s = *state;
    char *dir = tempdir_make(), path[256];

    snprintf(path, sizeof path, "%s/password", dir);
    assert_true(tempdir_write(path, "secret\n"));
    switch_to(s, 0, 2, 9);
    open_store_with(s, 3, (store_options){.files = {.password = path}});
    store_driver_wait_ready(s->d, true);
    assert_true(serves(s, 0));
    assert_int_equal(fake_redis_connections(s->primaries[2].fake), 0);
    s->primaries[0].demoted = true; /* while in doubt, too */
    store_driver_wait_ready(s->d, false);
    s->asked = s->sentinels[0].asked + 3;
    store_driver_until(s->d, was_asked_often, s);
    assert_int_equal(fake_redis_connections(s->primaries[2].fake), 0);
    switch_to(s, 1, 1, 3);
    switch_to(s, 2, 1, 3);
    store_driver_until(s->d, is_at_second, s);
    assert_int_equal(fake_redis_connections(s->primaries[2].fake), 0);
    tempdir_remove(dir);
}

/* Those that sentinels name are not of the URL. */
TEST_WITH(sentinels_that_others_name_do_not_count_for_the_password, begin, end)
{
    scene *s = *state;
    char *dir = tempdir_make(), path[256];

    snprintf(path, sizeof path, "%s/password", dir);
    assert_true(tempdir_write(path, "secret\n"));
    s->sentinels[0].other = s->sentinels[2].port;
    switch_to(s, 0, 2, 9);
    switch_to(s, 2, 2, 9);
    open_store_with(s, 2, (store_options){.files = {.password = path}});
    s->asked = 4;
    store_driver_until(s->d, was_asked_often, s);
    store_driver_until(s->d, names_too_few, s);
    assert_int_equal(fake_redis_connections(s->primaries[2].fake), 0);
    switch_to(s, 1, 2, 9);
    store_driver_wait_ready(s->d, true);
    assert_true(serves(s, 2));
    tempdir_remove(dir);
}

/* promise T23 */
TEST_WITH(the_store_is_told_which_primary_it_is_first, begin, end)
{
    scene *s = *state;
    char expected[64];

    s->sentinels[0].epoch = 7;
    open_store(s, 1);
    outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"}); /* submitted before */
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
    snprintf(expected, sizeof expected, "id_generation 127.0.0.1:%u/7", s->primaries[0].port);
    assert_string_equal(s->primaries[0].first, expected);
}

TEST_WITH(the_newest_configuration_counts, begin, end)
{
    scene *s = *state;

    switch_to(s, 0, 0, 7);
    switch_to(s, 1, 1, 8);
    switch_to(s, 2, 0, 7);
    open_store(s, 3);
    store_driver_until(s->d, is_at_second, s);
    assert_true(serves(s, 1));
}

TEST_WITH(a_sentinel_that_another_names_is_asked_too, begin, end)
{
    scene *s = *state;

    s->sentinels[0].other = s->sentinels[1].port;
    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    switch_to(s, 1, 1, 8);
    store_driver_until(s->d, is_at_second, s);
    assert_true(serves(s, 1));
}

static bool was_third_asked_often(void *arg)
{
    scene *s = arg;

    return s->sentinels[2].asked >= 4;
}

/* It calls itself as before; what the URL says of it is no more. */
TEST_WITH(a_sentinel_that_has_moved_is_asked_where_it_is, begin, end)
{
    scene *s = *state;

    open_store(s, 2);
    store_driver_wait_ready(s->d, true);
    fake_redis_stop(s->sentinels[1].fake);
    s->sentinels[1].fake = NULL;
    s->sentinels[2].was = s->sentinels[1].port;
    s->sentinels[0].other = s->sentinels[2].port;
    store_driver_until(s->d, was_third_asked_often, s);
    assert_int_equal(fake_redis_connections(s->sentinels[2].fake), 2);
}

/* The message ends the link at once, before any answer: the primary gets no call that came after it. */
TEST_WITH(a_primary_that_is_no_more_is_left_at_once, begin, end)
{
    scene *s = *state;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    s->sentinels[0].silent = true;
    tell_switch(s, NAME, 0, 1);
    store_driver_until(s->d, is_not_ready, s);
    assert_non_null(strstr(store_driver_reason(s->d), "the primary no more"));
    unsigned before = fake_redis_calls(s->primaries[0].fake);
    outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_calls(s->primaries[0].fake), before);
}

TEST_WITH(a_switch_of_another_primary_is_nothing, begin, end)
{
    scene *s = *state;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    tell_switch(s, "toys", 0, 1);
    s->asked = s->sentinels[0].asked + 1;
    store_driver_until(s->d, was_asked_often, s);
    assert_true(serves(s, 0));
    assert_int_equal(store_driver_ups(s->d), 1);
}

/* It may have been replaced meanwhile, and have come back as it was. */
TEST_WITH(a_primary_that_was_lost_is_asked_for_before_it_is_used_again, begin, end)
{
    scene *s = *state;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    unsigned connections = fake_redis_connections(s->primaries[0].fake);
    fake_redis_hang_up(s->sentinels[0].fake);
    s->sentinels[0].silent = true;
    fake_redis_hang_up(s->primaries[0].fake);
    s->asked = s->sentinels[0].asked + 1;
    store_driver_until(s->d, was_asked_often, s);
    outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"}); /* a second later */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(s->primaries[0].fake), connections);
    assert_string_equal(store_driver_reason(s->d), "the sentinels have not told the primary");
    assert_int_equal(store_driver_fault(s->d), LKS_REASON_STORE_FAILING_OVER);
    s->sentinels[0].silent = false;
    switch_to(s, 0, 1, 8);
    fake_redis_hang_up(s->sentinels[0].fake);
    store_driver_wait_ready(s->d, true);
    assert_true(serves(s, 1));
    assert_int_equal(fake_redis_connections(s->primaries[0].fake), connections);
}

/* The newest configuration is that of a sentinel which answers no more; another one knows only of an older. */
TEST_WITH(an_answer_of_before_does_not_vouch_for_a_primary_that_was_lost, begin, end)
{
    scene *s = *state;

    switch_to(s, 0, 1, 8);
    switch_to(s, 1, 0, 7);
    open_store(s, 2);
    store_driver_until(s->d, is_at_second, s);
    s->sentinels[0].silent = true;
    fake_redis_hang_up(s->sentinels[0].fake);
    unsigned connections = fake_redis_connections(s->primaries[1].fake);
    fake_redis_hang_up(s->primaries[1].fake);
    store_driver_wait_ready(s->d, false);
    outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"}); /* a second later */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(fake_redis_connections(s->primaries[1].fake), connections);
}

/* Found by a question each second, also when nobody writes. */
TEST_WITH(a_primary_that_became_a_replica_is_left, begin, end)
{
    scene *s = *state;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    s->primaries[0].demoted = true;
    store_driver_wait_ready(s->d, false);
    switch_to(s, 0, 1, 8);
    store_driver_until(s->d, is_at_second, s);
    assert_true(serves(s, 1));
}

static bool none_answers(void *arg)
{
    scene *s = arg;
    store_view view;

    store_look(store_driver_store(s->d), &view);
    assert_int_equal(view.sentinels, SEATS);
    return view.sentinels_answering == 0;
}

TEST_WITH(all_sentinels_gone_leave_a_primary_that_serves_in_use, begin, end)
{
    scene *s = *state;

    open_store(s, 3);
    store_driver_wait_ready(s->d, true);
    assert_false(none_answers(s));
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_stop(s->sentinels[i].fake);
        s->sentinels[i].fake = NULL;
    }
    assert_true(serves(s, 0));
    store_driver_until(s->d, none_answers, s);
    fake_redis_hang_up(s->primaries[0].fake);
    store_driver_wait_ready(s->d, false);
    outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"});
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(store_driver_reason(s->d), "no sentinel answers");
}

static bool knows_no_primary(void *arg)
{
    scene *s = arg;

    return strstr(store_driver_reason(s->d), "the sentinel knows no primary of that name");
}

TEST_WITH(a_name_that_no_sentinel_knows_is_told, begin, end)
{
    scene *s = *state;

    s->sentinels[0].foreign = true;
    open_store(s, 1);
    store_driver_until(s->d, knows_no_primary, s);
    s->sentinels[0].foreign = false;
    store_driver_wait_ready(s->d, true);
}

static bool lacks_a_permission(void *arg)
{
    scene *s = arg;

    return strstr(store_driver_reason(s->d), "the sentinel denies its user a permission");
}

static void may_not_ask(scene *s, const char *question)
{
    s->sentinels[0].denied = question;
    open_store(s, 1);
    store_driver_until(s->d, lacks_a_permission, s);
    s->sentinels[0].denied = NULL;
    store_driver_wait_ready(s->d, true);
}

TEST_WITH(a_user_that_may_not_ask_for_the_configuration_is_told, begin, end)
{
    may_not_ask(*state, "MASTER");
}

TEST_WITH(a_user_that_may_not_ask_for_the_address_is_told, begin, end)
{
    may_not_ask(*state, "GET-MASTER-ADDR-BY-NAME");
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

static bool lacks_a_replica(void *arg)
{
    scene *s = arg;

    return strstr(store_driver_reason(s->d), "the store has 0 replicas");
}

static bool was_asked_its_role_often(void *arg)
{
    scene *s = arg;

    return s->primaries[0].roles >= s->asked;
}

/* As after a failover: until its replicas are back it is tried again, at growing pauses. */
TEST_WITH(a_primary_that_takes_no_write_is_not_stormed, begin, end)
{
    enum { ATTEMPTS_MAX = 10 };
    scene *s = *state;

    s->primaries[0].lacks_replicas = true;
    open_store(s, 1);
    const outcome *o = store_driver_call(s->d, &(driver_call){.function = "echo"}); /* a second later */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(o->message, "the store has too few replicas");
    assert_in_range(fake_redis_connections(s->primaries[0].fake), 2, ATTEMPTS_MAX);
    s->primaries[0].lacks_replicas = false;
    store_driver_wait_ready(s->d, true);
    assert_true(serves(s, 0));
}

/* The connection to the primary lives all the time. */
TEST_WITH(a_primary_in_doubt_serves_when_what_it_lacked_is_there, begin, end)
{
    scene *s = *state;

    open_store_with(s, 1,
                    (store_options){.wait_replicas = 1,
                                    .wake_channel = "ls:wake:test",
                                    .on_wake = ignore_wake,
                                    .on_listening = ignore_listening});
    store_driver_until(s->d, lacks_a_replica, s);
    s->sentinels[0].silent = true;
    fake_redis_say_to(s->primaries[0].fake, "SUBSCRIBE", ":1\r\n"); /* no message: that connection is given up */
    s->asked = s->primaries[0].roles + 3; /* which is each second; nobody names a primary meanwhile */
    store_driver_until(s->d, was_asked_its_role_often, s);
    s->sentinels[0].silent = false;
    fake_redis_hang_up(s->sentinels[0].fake);
    s->primaries[0].has_replica = true;
    store_driver_wait_ready(s->d, true);
}

static bool is_no_sentinel(void *arg)
{
    scene *s = arg;

    return strstr(store_driver_reason(s->d), "no sentinel answers");
}

TEST_WITH(a_redis_that_is_no_sentinel_is_not_asked, begin, end)
{
    scene *s = *state;

    s->sentinels[0].is_sentinel = false;
    open_store(s, 1);
    store_driver_until(s->d, is_no_sentinel, s);
    assert_int_equal(s->sentinels[0].asked, 0);
}

static void tell_again(uv_prepare_t *prepare)
{
    tell_switch(prepare->data, NAME, 0, 1);
}

/* The node is gone before the sentinels are. */
TEST_WITH(what_sentinels_tell_while_the_store_closes_is_nothing, begin, end)
{
    scene *s = *state;
    static uv_prepare_t each_turn;

    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    uv_prepare_init(store_driver_loop(s->d), &each_turn);
    each_turn.data = s;
    uv_prepare_start(&each_turn, tell_again);
    store_driver_close_store(s->d);
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

static void wait_logged(scene *s, const char *text)
{
    store_driver_until(s->d, has_logged, (void *)(uintptr_t)text);
}

static bool was_connected_to_often(void *arg)
{
    scene *s = arg;

    return fake_redis_connections(s->sentinels[0].fake) >= s->connections;
}

/* Three more attempts of each of its two connections. */
static void let_it_try(scene *s)
{
    s->connections = fake_redis_connections(s->sentinels[0].fake) + 6;
    store_driver_until(s->d, was_connected_to_often, s);
}

/* The password file is at `path`. */
static void open_with_password(scene *s, const char *path)
{
    assert_true(tempdir_write(path, "old\n"));
    kept_stderr_begin();
    open_store_with(s, 1, (store_options){.files = {.sentinel_password = path}});
}

static void hang_up_and_refuse(scene *s, bool refuses)
{
    s->sentinels[0].refuses = refuses;
    fake_redis_hang_up(s->sentinels[0].fake);
}

/* As after a SIGHUP: the connection lives, the next one is refused. */
/* promise F8 */
TEST_WITH(each_reason_why_a_sentinel_is_lost_is_logged_once_and_that_it_is_back, begin, end)
{
    scene *s = *state;
    char *dir = tempdir_make(), path[128];

    snprintf(path, sizeof path, "%s/password", dir);
    open_with_password(s, path);
    store_driver_wait_ready(s->d, true);
    assert_int_equal(kept_stderr_count("sentinel-back"), 0);
    hang_up_and_refuse(s, true);
    wait_logged(s, "reason=\"the sentinel refuses the credentials (--store-sentinel-password-file)\"");
    let_it_try(s);
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 2);
    assert_int_equal(kept_stderr_count("reason=\"the connection to the sentinel broke: "), 1);
    s->sentinels[0].refuses = false;
    wait_logged(s, "event=sentinel-back");
    assert_int_equal(kept_stderr_count("level=info event=sentinel-back sentinel=127.0.0.1:"), 1);
    assert_int_equal(kept_stderr_count("wake-channel-lost"), 0);
    hang_up_and_refuse(s, true);
    store_driver_until(s->d, has_lost_four_times, NULL);
    let_it_try(s);
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 4);
    tempdir_remove(dir);
}

TEST_WITH(a_password_that_a_sentinel_does_not_want_is_told, begin, end)
{
    scene *s = *state;
    char *dir = tempdir_make(), path[128];

    snprintf(path, sizeof path, "%s/password", dir);
    s->sentinels[0].welcomes = true;
    open_with_password(s, path);
    wait_logged(s, "reason=\"the sentinel has no password, and one was given (--store-sentinel-password-file)\"");
    tempdir_remove(dir);
}

/* Of the new primary less is not fewer: before it was another's. */
TEST_WITH(replicas_of_another_primary_are_not_compared, begin, end)
{
    scene *s = *state;
    char line[128];

    kept_stderr_begin();
    s->primaries[0].has_replica = true;
    open_store(s, 1);
    store_driver_wait_ready(s->d, true);
    wait_logged(s, "event=store-replicas");
    switch_to(s, 0, 1, 8);
    store_driver_until(s->d, is_at_second, s);
    s->primaries[1].has_replica = true;
    snprintf(line, sizeof line, "event=store-replicas primary=127.0.0.1:%u connected=1", s->primaries[1].port);
    wait_logged(s, line);
    assert_int_equal(kept_stderr_count("store-replica-lost"), 0);
    s->primaries[1].has_replica = false;
    snprintf(line, sizeof line, "event=store-replica-lost primary=127.0.0.1:%u connected=0 before=1",
             s->primaries[1].port);
    wait_logged(s, line);
}

TEST_MAIN()

/* Which Redis is the primary, by sentinels whose answers are scripted: the newest configuration counts, a primary that
 * was lost is asked for again before it is used, and one that is demoted is left at once. */
/* promise T19 */
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "store_scene.h"
#include "support/kept_stderr.h"
#include "support/tempdir.h"
#include "test.h"

enum { SEATS = 3, TEXT_BYTES = 1024 };

#define NAME "shop"
#define WITH_REPLICA "role:master\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\n"

/* A sentinel, or a primary. */
typedef struct seat {
    fake_redis *fake;
    unsigned port;
} seat;

static seat sentinels[SEATS], primaries[SEATS];
static char password[256]; /* a file */

static void silence(bool silent)
{
    scene_answer("SENTINEL", silent ? fake_silent : NULL);
}

static void call_itself(size_t sentinel, size_t as)
{
    char id[16];

    snprintf(id, sizeof id, "'%05u", sentinels[as].port);
    fake_redis_answer(sentinels[sentinel].fake, "SENTINEL MYID", id);
}

/* The sentinel names that primary, in a configuration of that epoch. */
static void switch_to(size_t sentinel, size_t primary, long epoch)
{
    fake_redis *fake = sentinels[sentinel].fake;
    char text[64];

    snprintf(text, sizeof text, "[config-epoch %ld]", epoch);
    fake_redis_answer(fake, "SENTINEL MASTER " NAME, text);
    snprintf(text, sizeof text, "[127.0.0.1 %u]", primaries[primary].port);
    fake_redis_answer(fake, "SENTINEL GET-MASTER-ADDR-BY-NAME " NAME, text);
}

/* The first sentinel names that one. */
static void name_other(size_t other)
{
    char text[64];

    snprintf(text, sizeof text, "[[ip 127.0.0.1 port %u]]", sentinels[other].port);
    scene_answer("SENTINEL SENTINELS " NAME, text);
}

static void set_role(size_t primary, const char *info)
{
    char text[128];

    snprintf(text, sizeof text, "'%s", info);
    fake_redis_answer(primaries[primary].fake, "INFO", text);
}

static void start(seat *of, fake_redis *fake)
{
    of->fake = fake;
    of->port = fake_redis_listen_tcp(fake);
}

/* All sentinels name the first primary. */
static int begin(void **state)
{
    scene_begin();
    for (size_t i = 0; i < SEATS; i++) {
        start(&sentinels[i], i > 0 ? scene_fake() : here.fake);
        start(&primaries[i], scene_fake());
        set_role(i, "role:master\r\n");
    }
    for (size_t i = 0; i < SEATS; i++) {
        fake_redis_answer(sentinels[i].fake, "HELLO", "[version 7.0.15 mode sentinel role sentinel]");
        fake_redis_answer(sentinels[i].fake, "SENTINEL SENTINELS", "[]");
        call_itself(i, i);
        switch_to(i, 0, 0);
    }
    return 0;
}

static int end(void **state)
{
    scene_end(state);
    kept_stderr_end();
    return 0;
}

static void write_password(void)
{
    snprintf(password, sizeof password, "%s.password", fake_redis_url(here.fake) + strlen("unix://"));
    assert_true(tempdir_write(password, "secret\n"));
}

static void open_store_with(size_t n, store_options options)
{
    char url[TEXT_BYTES] = "redis+sentinel://";
    size_t used = strlen(url);

    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(url + used, sizeof url - used, "%s127.0.0.1:%u", i > 0 ? "," : "", sentinels[i].port);
    snprintf(url + used, sizeof url - used, "/" NAME);
    options.url = url;
    options.role_check_ms = 1000;
    scene_open(&options);
}

static void open_store(size_t n)
{
    open_store_with(n, (store_options){0});
}

/* With one sentinel, whose primary serves. */
static void open_ready(void)
{
    open_store(1);
    store_driver_wait_ready(here.d, true);
}

static unsigned calls_of(size_t primary)
{
    return fake_redis_seen(primaries[primary].fake, "FCALL");
}

/* Whether calls reach this primary. */
static bool serves(size_t primary)
{
    unsigned before = calls_of(primary);

    return scene_echo()->code == LKS_OK && calls_of(primary) == before + 1;
}

static bool is_at_second(void *arg)
{
    return serves(1);
}

/* Until it has answered this `more` times more. */
static void until_asked(const seat *of, const char *words, unsigned more)
{
    scene_until_seen_at(of->fake, words, fake_redis_seen(of->fake, words) + more);
}

static void tell_switch(const char *name, size_t from, size_t to)
{
    char text[128];

    snprintf(text, sizeof text, "%s 127.0.0.1 %u 127.0.0.1 %u", name, primaries[from].port, primaries[to].port);
    fake_redis_publish(here.fake, "+switch-master", text);
}

/* One of three is broken, or somebody else's: the password is not for whom it names, whatever the epoch. */
TEST(one_sentinel_of_three_cannot_ask_for_the_password)
{
    write_password();
    switch_to(0, 2, 9);
    open_store_with(3, (store_options){.files = {.password = password}});
    store_driver_wait_ready(here.d, true);
    assert_true(serves(0));
    assert_int_equal(fake_redis_connections(primaries[2].fake), 0);
    set_role(0, "role:slave\r\n"); /* also while it is unconfirmed */
    store_driver_wait_ready(here.d, false);
    until_asked(&sentinels[0], "SENTINEL MASTER", 3);
    assert_int_equal(fake_redis_connections(primaries[2].fake), 0);
    switch_to(1, 1, 3);
    switch_to(2, 1, 3);
    store_driver_until(here.d, is_at_second, NULL);
    assert_int_equal(fake_redis_connections(primaries[2].fake), 0);
}

/* Those that sentinels name are not of the URL. */
TEST(sentinels_that_others_name_do_not_count_for_the_password)
{
    write_password();
    name_other(2);
    switch_to(0, 2, 9);
    switch_to(2, 2, 9);
    open_store_with(2, (store_options){.files = {.password = password}});
    until_asked(&sentinels[0], "SENTINEL MASTER", 4);
    scene_until_reason("too few sentinels");
    assert_int_equal(fake_redis_connections(primaries[2].fake), 0);
    switch_to(1, 2, 9);
    store_driver_wait_ready(here.d, true);
    assert_true(serves(2));
}

/* promise T23 */
TEST(first_call_names_the_primary_to_the_store)
{
    char expected[128];

    switch_to(0, 0, 7);
    open_store(1);
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES); /* submitted before */
    const char *first = strstr(fake_redis_log(primaries[0].fake), "FCALL ");
    snprintf(expected, sizeof expected, "FCALL id_generation_7e577e577e577e57 1 ls:{meta}: 1 127.0.0.1:%u/7\n",
             primaries[0].port);
    assert_ptr_equal(strstr(first, expected), first);
}

TEST(the_newest_configuration_counts)
{
    switch_to(0, 0, 7);
    switch_to(1, 1, 8);
    switch_to(2, 0, 7);
    open_store(3);
    store_driver_until(here.d, is_at_second, NULL);
}

TEST(a_sentinel_that_another_names_is_asked_too)
{
    name_other(1);
    open_ready();
    switch_to(1, 1, 8);
    store_driver_until(here.d, is_at_second, NULL);
}

/* It names itself as before; its address in the URL is no longer valid. */
TEST(a_sentinel_that_has_moved_is_asked_where_it_is)
{
    open_store(2);
    store_driver_wait_ready(here.d, true);
    scene_stop(sentinels[1].fake);
    call_itself(2, 1);
    name_other(2);
    until_asked(&sentinels[2], "SENTINEL MASTER", 4);
    assert_int_equal(fake_redis_connections(sentinels[2].fake), 2);
}

/* The message ends the link at once, before any answer: the primary gets no call that came after it. */
TEST(replaced_primary_is_disconnected_at_once)
{
    open_ready();
    silence(true);
    tell_switch(NAME, 0, 1);
    store_driver_wait_ready(here.d, false);
    assert_non_null(strstr(store_driver_reason(here.d), "no longer the primary"));
    unsigned before = calls_of(0);
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(calls_of(0), before);
}

TEST(switch_of_another_primary_is_ignored)
{
    open_ready();
    tell_switch("toys", 0, 1);
    until_asked(&sentinels[0], "SENTINEL MASTER", 1);
    assert_true(serves(0));
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* It may have been replaced meanwhile, and have come back as it was. */
TEST(lost_primary_is_confirmed_before_it_is_used_again)
{
    open_ready();
    unsigned connections = fake_redis_connections(primaries[0].fake);
    fake_redis_hang_up(here.fake);
    silence(true);
    fake_redis_hang_up(primaries[0].fake);
    until_asked(&sentinels[0], "SENTINEL MASTER", 1);
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO); /* a second later */
    assert_int_equal(fake_redis_connections(primaries[0].fake), connections);
    assert_string_equal(store_driver_reason(here.d), "the sentinels have not named a primary");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_FAILING_OVER);
    silence(false);
    switch_to(0, 1, 8);
    fake_redis_hang_up(here.fake);
    store_driver_wait_ready(here.d, true);
    assert_true(serves(1));
    assert_int_equal(fake_redis_connections(primaries[0].fake), connections);
}

/* The newest configuration is from a sentinel that does not answer any more; another one has only an older. */
TEST(earlier_answer_does_not_confirm_a_lost_primary)
{
    switch_to(0, 1, 8);
    switch_to(1, 0, 7);
    open_store(2);
    store_driver_until(here.d, is_at_second, NULL);
    silence(true);
    fake_redis_hang_up(here.fake);
    unsigned connections = fake_redis_connections(primaries[1].fake);
    fake_redis_hang_up(primaries[1].fake);
    store_driver_wait_ready(here.d, false);
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO); /* a second later */
    assert_int_equal(fake_redis_connections(primaries[1].fake), connections);
}

/* Found by a check each second, also without writes. */
TEST(primary_that_became_a_replica_is_disconnected)
{
    open_ready();
    set_role(0, "role:slave\r\n");
    store_driver_wait_ready(here.d, false);
    switch_to(0, 1, 8);
    store_driver_until(here.d, is_at_second, NULL);
}

static bool none_answers(void *arg)
{
    store_view view;

    store_describe(store_driver_store(here.d), &view);
    assert_int_equal(view.sentinels, SEATS);
    return view.sentinels_answering == 0;
}

TEST(all_sentinels_gone_leave_a_primary_that_serves_in_use)
{
    open_store(3);
    store_driver_wait_ready(here.d, true);
    assert_false(none_answers(NULL));
    for (size_t i = 0; i < SEATS; i++)
        scene_stop(sentinels[i].fake);
    assert_true(serves(0));
    store_driver_until(here.d, none_answers, NULL);
    fake_redis_hang_up(primaries[0].fake);
    store_driver_wait_ready(here.d, false);
    scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_string_equal(store_driver_reason(here.d), "no sentinel answers");
}

TEST(name_unknown_to_all_sentinels_is_reported)
{
    scene_answer("SENTINEL", "-ERR No such master with that name\r\n");
    open_store(1);
    scene_until_reason("the sentinel knows no primary of that name");
    silence(false);
    store_driver_wait_ready(here.d, true);
}

TEST(a_user_that_may_not_ask_is_reported)
{
    static const char *const questions[] = {"SENTINEL MASTER " NAME, "SENTINEL GET-MASTER-ADDR-BY-NAME " NAME};

    for (size_t i = 0; i < 2; i++) {
        begin(NULL);
        scene_answer(questions[i], "-NOPERM User x has no permissions to run this command\r\n");
        open_store(1);
        scene_until_reason("the sentinel denies its user a permission");
        switch_to(0, 0, 0);
        store_driver_wait_ready(here.d, true);
    }
}

/* As after a failover: until its replicas are back it is retried with growing pauses. */
TEST(primary_that_refuses_writes_is_retried_with_pauses)
{
    enum { ATTEMPTS_MAX = 10 };
    fake_redis_answer(primaries[0].fake, "FCALL", "-NOREPLICAS Not enough good replicas to write.\r\n");
    open_store(1);
    const outcome *o;
    unsigned seconds = 0;
    do {
        o = scene_echo(); /* takes a second */
        seconds++;
        assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    } while (fake_redis_connections(primaries[0].fake) < 2);
    assert_string_equal(o->message, "the store has too few replicas");
    assert_true(fake_redis_connections(primaries[0].fake) <= ATTEMPTS_MAX * seconds);
    fake_redis_answer(primaries[0].fake, "FCALL", NULL);
    store_driver_wait_ready(here.d, true);
    assert_true(serves(0));
}

/* The connection to the primary lives all the time. */
TEST(unconfirmed_primary_serves_when_its_replicas_are_back)
{
    open_store_with(1, scene_listens((store_options){.wait_replicas = 1}));
    scene_until_reason("the store has 0 replicas");
    silence(true);
    fake_redis_say_to(primaries[0].fake, "SUBSCRIBE", ":1\r\n"); /* no message: that connection is closed */
    until_asked(&primaries[0], "INFO", 3);                       /* each second; no primary is named meanwhile */
    silence(false);
    fake_redis_hang_up(here.fake);
    set_role(0, WITH_REPLICA);
    store_driver_wait_ready(here.d, true);
}

TEST(redis_that_is_not_a_sentinel_is_not_asked)
{
    scene_answer("HELLO", NULL);
    open_store(1);
    scene_until_reason("no sentinel answers");
    assert_int_equal(fake_redis_seen(here.fake, "SENTINEL"), 0);
}

static void tell_again(uv_prepare_t *prepare)
{
    tell_switch(NAME, 0, 1);
}

/* The node is gone before the sentinels are. */
TEST(sentinel_messages_during_close_are_ignored)
{
    static uv_prepare_t each_turn;

    open_ready();
    uv_prepare_init(store_driver_loop(here.d), &each_turn);
    uv_prepare_start(&each_turn, tell_again);
    store_driver_close_store(here.d);
    uv_close((uv_handle_t *)&each_turn, NULL);
}

/* ---- the log ---------------------------------------------------------- */

static bool has_logged(void *arg)
{
    return strstr(kept_stderr(), arg);
}

static bool has_lost_four_times(void *arg)
{
    return kept_stderr_count("event=sentinel-lost") >= 4;
}

static void wait_logged(const char *text)
{
    store_driver_until(here.d, has_logged, (void *)(uintptr_t)text);
}

/* Three more attempts of each of its two connections. */
static void let_it_try(void)
{
    scene_until_connections(fake_redis_connections(here.fake) + 6);
}

static void open_with_password(void)
{
    write_password();
    kept_stderr_begin();
    open_store_with(1, (store_options){.files = {.sentinel_password = password}});
}

static void hang_up_and_refuse(bool refuses)
{
    scene_answer("AUTH", refuses ? "-WRONGPASS invalid username-password pair or user is disabled.\r\n" : NULL);
    fake_redis_hang_up(here.fake);
}

/* As after a SIGHUP: the connection lives, the next one is refused. */
/* promise F8 */
TEST(each_reason_why_a_sentinel_is_lost_is_logged_once_and_that_it_is_back)
{
    open_with_password();
    store_driver_wait_ready(here.d, true);
    assert_int_equal(kept_stderr_count("sentinel-back"), 0);
    hang_up_and_refuse(true);
    wait_logged("reason=\"the sentinel refuses the credentials (--store-sentinel-password-file)\"");
    let_it_try();
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 2);
    assert_int_equal(kept_stderr_count("reason=\"the connection to the sentinel broke: "), 1);
    scene_answer("AUTH", NULL);
    wait_logged("event=sentinel-back");
    assert_int_equal(kept_stderr_count("level=info event=sentinel-back sentinel=127.0.0.1:"), 1);
    assert_int_equal(kept_stderr_count("wake-channel-lost"), 0);
    hang_up_and_refuse(true);
    store_driver_until(here.d, has_lost_four_times, NULL);
    let_it_try();
    assert_int_equal(kept_stderr_count("event=sentinel-lost"), 4);
}

TEST(password_for_a_sentinel_without_one_is_reported)
{
    scene_answer("AUTH", "-ERR AUTH <password> called without any password configured for the default user.\r\n");
    open_with_password();
    wait_logged("reason=\"the sentinel has no password, and one was given (--store-sentinel-password-file)\"");
}

/* Fewer replicas of the new primary are no loss: the earlier number was the old primary's. */
TEST(replicas_of_another_primary_are_not_compared)
{
    char line[128];

    kept_stderr_begin();
    set_role(0, WITH_REPLICA);
    open_ready();
    wait_logged("event=store-replicas");
    switch_to(0, 1, 8);
    store_driver_until(here.d, is_at_second, NULL);
    set_role(1, WITH_REPLICA);
    snprintf(line, sizeof line, "event=store-replicas primary=127.0.0.1:%u connected=1", primaries[1].port);
    wait_logged(line);
    assert_int_equal(kept_stderr_count("store-replica-lost"), 0);
    set_role(1, "role:master\r\n");
    snprintf(line, sizeof line, "event=store-replica-lost primary=127.0.0.1:%u connected=0 before=1",
             primaries[1].port);
    wait_logged(line);
}

TEST_MAIN(.setup = begin, .teardown = end)

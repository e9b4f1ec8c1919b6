/* The scenes about locks, on a Redis that naive locks and lockstockd share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "lock_scenes.h"
#include "naive_schedules.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"

static redis_fixture *redis;
static server_fixture *server;

static int start(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", NULL};

    (void)state;
    redis = redis_fixture_start(NULL);
    if (redis == NULL) {
        return -1;
    }
    server_fixture_options options = {.store = redis_fixture_url(redis), .args = args};
    server = server_fixture_start(&options);
    return server != NULL ? 0 : -1;
}

/* An orderly end belongs to the test: sanitizers report at exit. */
static int stop(void **state)
{
    (void)state;
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    redis_fixture_free(redis);
    return status;
}

static void run_scene(const char *name)
{
    const lock_setup setup = {.urls = server_fixture_url(server), .redis = redis_fixture_url(redis)};
    lock_claims claims = {.table = stdout, .good = true};
    lks_error error = {0};
    const lock_scene *scene = lock_scenes;

    while (strcmp(scene->name, name) != 0) {
        scene++;
    }
    if (scene->run(&setup, &claims, &error) != LKS_OK) {
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    }
    if (!claims.good) {
        fail_msg("%s", claims.why);
    }
}

static schedule_outcome play(const lock_way *naive, bool ours)
{
    schedule_outcome outcome = {0};
    const naive_schedule *schedule = naive_schedules;
    lks_channel *channel = NULL;
    lks_error error = {0};
    char run[17];

    while (schedule->naive != naive) {
        schedule++;
    }
    assert_int_equal(lock_run_id(run, &error), LKS_OK);
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, &error), LKS_OK);
    lks_code code = schedule_run(schedule, ours ? &lockstock_way : naive, channel, redis_fixture_socket(redis), run,
                                 &outcome, &error);
    lks_channel_close(channel);
    if (code != LKS_OK) {
        fail_msg("%s: %s", lks_code_name(code), error.message);
    }
    return outcome;
}

/* Two hold it and sell the one item twice; with lockstock only `rightful` does. */
static void assert_two_at_once(const lock_way *naive, const char *both, const char *rightful)
{
    schedule_outcome wrong = play(naive, false), right = play(naive, true);

    assert_string_equal(wrong.holders, both);
    assert_int_equal(wrong.sold, 2);
    assert_int_equal(wrong.oversold, 1);
    assert_true(wrong.granted);
    assert_string_equal(right.holders, rightful);
    assert_int_equal(right.sold, 1);
    assert_int_equal(right.oversold, 0);
    assert_false(right.granted);
}

static void test_setnx_then_expire_blocks_for_ever(void **state)
{
    (void)state;
    schedule_outcome wrong = play(&naive_setnx_expire, false), right = play(&naive_setnx_expire, true);

    assert_true(wrong.endless);
    assert_int_equal(wrong.tries, 20);
    assert_false(wrong.granted);
    assert_false(right.endless);
    assert_true(right.granted);
    assert_int_equal(right.sold, 1);
}

static void test_getset_shortens_a_lease_of_others(void **state)
{
    (void)state;
    assert_two_at_once(&naive_getset, "B, C", "B");
}

static void test_blind_del_frees_a_lock_of_others(void **state)
{
    (void)state;
    assert_two_at_once(&naive_blind_del, "B, C", "B");
}

static void test_refreshing_waiter_keeps_the_dead_alive(void **state)
{
    (void)state;
    schedule_outcome wrong = play(&naive_refreshing, false), right = play(&naive_refreshing, true);

    assert_int_equal(wrong.tries, 5);
    assert_int_equal(wrong.moved, 5);
    assert_false(wrong.granted);
    assert_int_equal(right.tries, 5);
    assert_int_equal(right.moved, 0);
}

static void test_count_of_a_thread_outlives_the_lease(void **state)
{
    (void)state;
    assert_two_at_once(&naive_by_thread, "A, B", "B");
}

/* What the table says is what the scene itself holds to be true. */
static void test_scene_of_naive_locks(void **state)
{
    (void)state;
    run_scene("g");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setnx_then_expire_blocks_for_ever),
        cmocka_unit_test(test_getset_shortens_a_lease_of_others),
        cmocka_unit_test(test_blind_del_frees_a_lock_of_others),
        cmocka_unit_test(test_refreshing_waiter_keeps_the_dead_alive),
        cmocka_unit_test(test_count_of_a_thread_outlives_the_lease),
        cmocka_unit_test(test_scene_of_naive_locks),
    };

    return cmocka_run_group_tests(tests, start, stop);
}

/* The scenes about locks, on a Redis that naive locks and lockstockd share. */

#include "e2e/scene_page.h"
#include "lock_scenes.h"
#include "naive_schedules.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"

enum { SERVERS = 2, LIMIT_MS = 120000 };

static redis_fixture *redis;
static server_fixture *servers[SERVERS];
static char both_urls[128];

static int start(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", NULL};

    redis = redis_fixture_start(NULL);
    if (!redis)
        return -1;
    const server_fixture_options options = {.store = redis_fixture_url(redis), .args = args};
    for (size_t i = 0; i < SERVERS; i++) {
        servers[i] = server_fixture_start(&options);
        if (!servers[i])
            return -1;
    }
    snprintf(both_urls, sizeof both_urls, "%s,%s", server_fixture_url(servers[0]), server_fixture_url(servers[1]));
    return 0;
}

/* An orderly end belongs to the test: sanitizers report at exit. */
static int stop(void **state)
{
    int status = 0;

    for (size_t i = 0; i < SERVERS; i++) {
        status |= server_fixture_stop(servers[i], LIMIT_MS) ? 0 : -1;
        server_fixture_free(servers[i]);
    }
    redis_fixture_free(redis);
    return status;
}

static const lock_scene *scene_named(const char *name)
{
    const lock_scene *scene = lock_scenes;

    while (strcmp(scene->name, name) != 0)
        scene++;
    return scene;
}

static lock_setup setup_at(const char *urls)
{
    return (lock_setup){
        .urls = urls, .redis = redis_fixture_url(redis), .program = SECKILL_PATH, .waiters = counts_of(100, 1000)};
}

/* Runs it, and shows what it printed; the caller frees that. */
static char *run_scene(const char *name, const char *urls)
{
    const lock_setup setup = setup_at(urls);
    char *table = NULL;
    size_t size = 0;
    lock_claims claims = {.table = open_memstream(&table, &size), .good = true};
    lks_error error = {0};

    assert_non_null(claims.table);
    lks_code code = scene_named(name)->run(&setup, &claims, &error);
    fclose(claims.table);
    printf("%s", table);
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    if (!claims.good)
        fail_msg("%s", claims.why);
    return table;
}

/* Its table has no times, and stands in the document as it is. */
static void run_documented(const char *name, const char *urls)
{
    char *table = run_scene(name, urls);

    assert_on_scene_page(table);
    free(table);
}

TEST(test_work_outlasts_the_lease)
{
    run_documented("d", server_fixture_url(servers[0]));
}

TEST(test_holder_killed_or_frozen)
{
    run_documented("e", server_fixture_url(servers[0]));
}

TEST(test_many_wait_at_two_servers)
{
    free(run_scene("f", both_urls));
}

/* A scene can fail: what it claims of several servers is not so of one. */
TEST(test_claims_are_looked_at)
{
    lock_setup setup = setup_at(server_fixture_url(servers[0]));
    lock_claims claims = {.table = stdout, .good = true};
    lks_error error = {0};

    setup.waiters = 3;
    assert_int_equal(scene_named("f")->run(&setup, &claims, &error), LKS_OK);
    assert_false(claims.good);
    assert_string_equal(claims.why, "one server is not several");
    lock_claim(&claims, false, "another");
    assert_string_equal(claims.why, "one server is not several");
}

static schedule_outcome play(const lock_way *naive, bool ours)
{
    schedule_outcome outcome = {0};
    const naive_schedule *schedule = naive_schedules;
    lks_channel *channel = NULL;
    lks_error error = {0};
    char run[17];

    while (schedule->naive != naive)
        schedule++;
    assert_int_equal(lock_run_id(run, &error), LKS_OK);
    assert_int_equal(lks_channel_open(server_fixture_url(servers[0]), NULL, &channel, &error), LKS_OK);
    lks_code code = schedule_run(schedule, ours ? &lockstock_way : naive, channel, redis_fixture_socket(redis), run,
                                 &outcome, &error);
    lks_channel_close(channel);
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(code), error.message);
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

TEST(test_setnx_then_expire_blocks_for_ever)
{
    schedule_outcome wrong = play(&naive_setnx_expire, false), right = play(&naive_setnx_expire, true);

    assert_true(wrong.endless);
    assert_int_equal(wrong.tries, 20);
    assert_false(wrong.granted);
    assert_false(right.endless);
    assert_true(right.granted);
    assert_int_equal(right.sold, 1);
}

TEST(test_getset_shortens_a_lease_of_others)
{
    assert_two_at_once(&naive_getset, "B, C", "B");
}

TEST(test_blind_del_frees_a_lock_of_others)
{
    assert_two_at_once(&naive_blind_del, "B, C", "B");
}

TEST(test_refreshing_waiter_keeps_the_dead_alive)
{
    schedule_outcome wrong = play(&naive_refreshing, false), right = play(&naive_refreshing, true);

    assert_int_equal(wrong.tries, 5);
    assert_int_equal(wrong.moved, 5);
    assert_false(wrong.granted);
    assert_int_equal(right.tries, 5);
    assert_int_equal(right.moved, 0);
}

TEST(test_count_of_a_thread_outlives_the_lease)
{
    assert_two_at_once(&naive_by_thread, "A, B", "B");
}

/* What the table says is what the scene itself holds to be true. */
TEST(test_scene_of_naive_locks)
{
    run_documented("g", server_fixture_url(servers[0]));
}

/* The second click of each order comes at the other server. */
TEST(test_double_clicks)
{
    run_documented("h", both_urls);
}

TEST(test_token_of_a_form)
{
    run_documented("i", both_urls);
}

TEST(test_penalty)
{
    run_documented("j", both_urls);
}

TEST(test_orders_settled_behind_the_sale)
{
    run_documented("k", both_urls);
}

/* Exit statuses are what scripts go by. */
TEST(test_command)
{
    const char *const good[] = {SECKILL_PATH, "--url",   server_fixture_url(servers[0]), "--scene",
                                "g",          "--redis", redis_fixture_url(redis),       NULL};
    const char *const no_redis[] = {SECKILL_PATH, "--url", server_fixture_url(servers[0]), "--scene", "g", NULL};
    const char *const not_so[] = {SECKILL_PATH, "--url", server_fixture_url(servers[0]), "--scene", "f", "--waiters",
                                  "2",          NULL};
    const char *const no_scene[] = {SECKILL_PATH, "--scene", "z", NULL};
    const struct {
        const char *const *argv;
        int status;
        const char *text;
    } rows[] = {
        {good, 0, "who comes is blocked"},
        {no_redis, 1, "--redis"},
        {not_so, 1, "NOT SO: one server is not several"},
        {no_scene, 2, "no scene \"z\""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        process *p = process_spawn(rows[i].argv, NULL);
        assert_non_null(p);
        assert_true(process_exited_with(p, rows[i].status, LIMIT_MS));
        if (!strstr(process_output(p), rows[i].text))
            fail_msg("no \"%s\" in:\n%s", rows[i].text, process_output(p));
        process_free(p);
    }
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)

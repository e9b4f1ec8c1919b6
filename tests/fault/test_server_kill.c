/* kill -9, again and again in the middle of a sale, of the embedded redis-server
 * and of lockstockd, while buyers send the same orders again: stock stays exact,
 * and what was sold once stays sold. */
/* promise T16 */

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sale.h"
#include "support/counts.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { PATIENCE_MS = 240000, STALL_MS = 240000 };

typedef enum victim { REDIS = 1, LOCKSTOCKD = 2, BOTH = REDIS | LOCKSTOCKD } victim;

typedef struct selling {
    flash_sale sale;
    lks_channel *channel;
    sale_result result;
    bool started;
} selling;

static void *sell(void *arg)
{
    selling *s = arg;

    s->started = sell_by_async(&s->sale, s->channel, &s->result);
    return NULL;
}

static void assert_code(lks_code code, const lks_error *error)
{
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(code), error->message);
}

/* Waits until so many orders have an answer. */
static void wait_answers(flash_sale *sale, size_t n)
{
    long long end = process_now_ms() + STALL_MS;

    while (atomic_load(&sale->answered) < n) {
        if (process_now_ms() > end)
            fail_msg("the sale stands still at %zu answers", atomic_load(&sale->answered));
        process_pause();
    }
}

/* Waits for the redis-server that a restart is about to bring. */
static pid_t wait_redis(server_fixture *server)
{
    long long end = process_now_ms() + STALL_MS;
    pid_t pid;

    while ((pid = server_fixture_redis_pid(server)) == 0) {
        if (process_now_ms() > end) {
            fail_msg("the embedded redis-server does not come back:\n%s",
                     process_output(server_fixture_process(server)));
        }
        process_pause();
    }
    return pid;
}

static void kill_once(server_fixture *server, victim what)
{
    if (what == REDIS) {
        kill(wait_redis(server), SIGKILL);
    } else {
        pid_t redis = server_fixture_redis_pid(server);
        server_fixture_kill(server);
        assert_true(redis == 0 || process_wait_gone(redis, STALL_MS)); /* nothing is left behind */
        assert_true(server_fixture_restart(server));
    }
}

static void check(flash_sale *sale, lks_channel *channel, size_t sold, size_t refused)
{
    sale_result result = {0};
    lks_error error = {0};

    assert_code(sale_check(sale, channel, &result, &error), &error);
    if (!result.exact)
        fail_msg("%s", result.why);
    assert_int_equal(result.unsettled, 0);
    assert_int_equal(result.sold, sold);
    assert_int_equal(result.refused, refused);
    print_message("    %zu sold, %zu refused, %zu told a second time\n", result.sold, result.refused, result.replayed);
}

/* Sells `stock` to `buyers`, with `kills` kills spread over the part of the sale in
 * which there is something to sell. */
static void run(const server_fixture_options *options, victim victims, size_t kills, size_t buyers, size_t stock)
{
    const sale_plan plan = {.n_goods = 1, .stock = (int64_t)stock, .n_buyers = buyers, .patience_ms = PATIENCE_MS};
    /* Few at a time: more commits, and a kill meets one more often. */
    const lks_channel_options few = {.in_flight_max = 64};
    server_fixture *server = server_fixture_start(options);
    lks_channel *direct = NULL;
    selling s = {0};
    lks_error error = {0};
    pthread_t thread;

    assert_non_null(server);
    assert_code(lks_channel_open(server_fixture_url(server), &few, &s.channel, &error), &error);
    assert_code(lks_channel_open(server_fixture_url(server), NULL, &direct, &error), &error);
    assert_code(sale_open(direct, &plan, &s.sale, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, sell, &s), 0);
    for (size_t i = 0; i < kills; i++) {
        wait_answers(&s.sale, (i + 1) * stock / (kills + 1));
        kill_once(server, victims != BOTH ? victims : i % 2 == 0 ? REDIS : LOCKSTOCKD);
    }
    pthread_join(thread, NULL);
    assert_true(s.started);
    check(&s.sale, direct, stock, buyers - stock);

    /* Once more from the disk alone. */
    kill_once(server, LOCKSTOCKD);
    check(&s.sale, direct, stock, buyers - stock);
    sale_close(&s.sale);
    lks_channel_close(direct);
    lks_channel_close(s.channel);
    assert_true(server_fixture_stop(server, STALL_MS));
    server_fixture_free(server);
}

TEST(test_redis_is_killed)
{
    run(NULL, REDIS, counts_of(5, 50), counts_of(2500, 12000), counts_of(2000, 10000));
}

TEST(test_lockstockd_is_killed)
{
    run(NULL, LOCKSTOCKD, counts_of(4, 50), counts_of(2500, 12000), counts_of(2000, 10000));
}

TEST(test_scene_b_with_both_killed)
{
    run(NULL, BOTH, counts_of(4, 40), counts_of(2000, 10000), 100);
}

/* A redis-server in front of the real one in PATH, for it alone is to be slow: a
 * sanitizer's runtime does not want to be preloaded over. */
static void write_slow_redis(const char *dir)
{
    char path[160], link[160]; /* LD_PRELOAD takes no path with a space in it */

    snprintf(path, sizeof path, "%s/redis-server", dir);
    snprintf(link, sizeof link, "%s/slow.so", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\nexport LD_PRELOAD='%s' SLOW_FDATASYNC_US=20000 SLOW_FDATASYNC_LOG='%s/calls'\n"
            "PATH=${PATH#*:}\nexec redis-server \"$@\"\n",
            link, dir);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(symlink(SLOW_FDATASYNC_PATH, link), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

TEST(test_both_killed_with_a_slow_disk)
{
    char *dir = tempdir_make(), calls[160], path[4096];
    assert_non_null(dir);
    write_slow_redis(dir);
    snprintf(path, sizeof path, "PATH=%s:%s", dir, getenv("PATH"));
    const char *const env[] = {path, NULL};
    run(&(server_fixture_options){.env = env}, BOTH, counts_of(4, 30), counts_of(1500, 5000), counts_of(1000, 4000));

    struct stat status;
    snprintf(calls, sizeof calls, "%s/calls", dir);
    assert_int_equal(stat(calls, &status), 0);
    assert_true(status.st_size > 0);
    print_message("    %lld slow fdatasyncs\n", (long long)status.st_size);
    tempdir_remove(dir);
}

TEST_MAIN()

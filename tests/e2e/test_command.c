/* lockstockd as a command: flags, addresses, signals, one server a directory. */
/* promise W15 */

#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstock/v1/stock.lks_client.h>
#include <lockstock/version.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { LIMIT_MS = 60000 };

/* `variable` of its environment: "NAME=value"; NULL: none. */
static process *spawn_in(const char *const flags[], const char *variable)
{
    const char *argv[16] = {server_fixture_program()};

    for (size_t i = 0; flags[i]; i++)
        argv[i + 1] = flags[i];
    process *p = process_spawn(argv, (const char *const[]){variable, NULL});
    assert_non_null(p);
    return p;
}

static process *spawn_with(const char *const flags[])
{
    return spawn_in(flags, NULL);
}

/* Runs to its end: exits with `code`, and its output contains each of `texts`. */
static void assert_ends_in(const char *const flags[], const char *variable, int code, const char *const texts[])
{
    process *p = spawn_in(flags, variable);

    assert_true(process_exited_with(p, code, LIMIT_MS));
    for (size_t i = 0; texts[i]; i++)
        if (!strstr(process_output(p), texts[i]))
            fail_msg("no \"%s\" in:\n%s", texts[i], process_output(p));
    process_free(p);
}

static void assert_ends(const char *const flags[], int code, const char *const texts[])
{
    assert_ends_in(flags, NULL, code, texts);
}

#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(test_help_and_version)
{
    assert_ends(FLAGS("--help"), 0,
                FLAGS("--listen", "--store", "--fsync", "--config", "--log-level", "--help", "--version"));
    assert_ends(FLAGS("-h"), 0, FLAGS("usage: lockstockd"));
    assert_ends(FLAGS("--version"), 0, FLAGS("lockstockd " LOCKSTOCK_VERSION));
}

TEST(test_bad_flags_are_named)
{
    assert_ends(FLAGS("--colour", "red"), 2, FLAGS("lockstockd: --colour: unknown flag; see --help"));
    assert_ends(FLAGS("--lsten", "red"), 2, FLAGS("unknown flag, did you mean --listen?"));
    assert_ends(FLAGS("--check-confg"), 2, FLAGS("unknown flag, did you mean --check-config?"));
    assert_ends_in(FLAGS("--listen", "tcp://127.0.0.1:0"), "LOCKSTOCK_STOER=redis", 2,
                   FLAGS("LOCKSTOCK_STOER: no such setting, did you mean LOCKSTOCK_STORE?"));
    assert_ends(FLAGS("--in-flight", "many"), 2, FLAGS("in-flight"));
    assert_ends(FLAGS("--in-flight", "0"), 2, FLAGS("in-flight"));
    assert_ends(FLAGS("--log-level", "loud"), 2, FLAGS("log-level"));
    assert_ends(FLAGS("--config", "/nonexistent/lockstock.ini"), 2, FLAGS("No such file"));
    assert_ends(FLAGS("--store"), 2, FLAGS("store"));
}

/* As every other setting: by the flag, the variable, or the line of the file. */
/* promise F4 */
TEST(test_a_store_that_is_wrong_is_named_by_where_it_stands)
{
    char *dir = tempdir_make(), file[128], at[192], taken[192], plain[160];

    assert_non_null(dir);
    snprintf(file, sizeof file, "%s/conf", dir);
    snprintf(at, sizeof at, "lockstockd: %s:2: store: must be ", file);
    snprintf(plain, sizeof plain, "%s/plain", dir);
    snprintf(taken, sizeof taken, "embedded:%s", plain);
    assert_true(tempdir_write(file, "in-flight = 7\nstore = mysql://here\n"));
    assert_true(tempdir_write(plain, ""));
    assert_ends(FLAGS("--store", "mysql://here"), 2, FLAGS("lockstockd: --store: must be "));
    assert_ends(FLAGS("--store=redis://u:secret@h:x"), 2, FLAGS("lockstockd: --store: the port must be"));
    assert_ends(FLAGS("--config", file), 2, FLAGS(at));
    assert_ends_in(FLAGS("--config", file), "LOCKSTOCK_STORE=mysql://here", 2,
                   FLAGS("lockstockd: LOCKSTOCK_STORE: must be "));
    assert_ends_in(FLAGS("--listen", "tcp://127.0.0.1:0"), "LOCKSTOCK_STORE=redis", 2,
                   FLAGS("lockstockd: LOCKSTOCK_STORE: has no scheme"));
    assert_ends(FLAGS("--listen", "tcp://127.0.0.1:0", "--store", taken), 2,
                FLAGS("lockstockd: --store: cannot use ", plain));
    tempdir_remove(dir);
}

TEST(test_settings_that_do_not_fit_the_store_are_refused)
{
    static const char why[] = "--wait-replicas needs a --store that has replicas, an embedded one has none";

    assert_ends(FLAGS("--check-config", "--wait-replicas", "1"), 2, FLAGS(why));
    assert_ends(FLAGS("--check-config", "--wait-replicas", "1", "--store", "embedded:/none"), 2, FLAGS(why));
    assert_ends(FLAGS("--wait-replicas", "1", "--store", "embedded:/none/none"), 2, FLAGS(why));
    assert_ends(FLAGS("--check-config", "--wait-replicas", "1", "--store", "redis://h"), 0, FLAGS("are good"));
}

/* promise F3: a setting that cannot be used, a key that stands twice in a file, a NUL in one, is told before a Redis
 * is started or its directory made, with file and line; what no further start mends has an exit code of its own */
TEST(test_settings_are_checked_and_printed_without_a_start)
{
    char *dir = tempdir_make(), store[256], made[256];

    assert_non_null(dir);
    snprintf(store, sizeof store, "embedded:%s/made", dir);
    snprintf(made, sizeof made, "%s/made", dir);
    assert_ends(FLAGS("--check-config", "--store", store), 0, FLAGS("the settings are good"));
    assert_ends(FLAGS("--check-config", "--store", store, "--listen", "tcp://0.0.0.0:1"), 78, FLAGS("only with TLS"));
    assert_ends(FLAGS("--check-config", "--store", "redis://u:a/b@h"), 2, FLAGS("written %2F"));
    assert_ends(FLAGS("--check-config", "--store", store, "--policy", "/none"), 2, FLAGS("/none"));
    assert_ends(FLAGS("--print-config", "--store", "redis://u:secret@h/1", "--in-flight=7"), 0,
                FLAGS("# flag\nstore = redis://u:***@h/1\n", "# flag\nin-flight = 7\n", "# default\nfsync = always\n"));
    /* An address that is wrong is found before the store is made. */
    assert_ends(FLAGS("--store", store, "--listen", "http://127.0.0.1:1"), 2, FLAGS("http://127.0.0.1:1"));
    assert_int_equal(access(made, F_OK), -1);
    tempdir_remove(dir);
}

static lks_code put(lks_channel *channel, const char *sku)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 20000};

    request.sku = sku;
    request.on_hand = 5;
    return lks_stock_put_item(channel, &request, &options, NULL, NULL);
}

static void assert_serves(const char *url)
{
    lks_channel *channel = NULL;

    assert_int_equal(lks_channel_open(url, NULL, &channel, NULL), LKS_OK);
    assert_int_equal(put(channel, "apple"), LKS_OK);
    lks_channel_close(channel);
}

/* Port 0 is any port, and each address is told. */
TEST(test_several_addresses_of_any_port)
{
    char *dir = tempdir_make(), store[160], line[256];
    snprintf(store, sizeof store, "embedded:%s/data", dir);
    process *p = spawn_with(FLAGS("--listen", "nng+tcp://127.0.0.1:0", "--listen", "nng+tcp://127.0.0.1:0", "--store",
                                  store, "--fsync", "everysec"));
    char urls[2][128];
    for (size_t i = 0; i < 2; i++) {
        assert_true(process_wait_line(p, "event=listening", line, sizeof line, LIMIT_MS));
        const char *url = strstr(line, "url=");
        assert_non_null(url);
        assert_int_equal(sscanf(url, "url=%127s", urls[i]), 1);
    }
    assert_string_not_equal(urls[0], urls[1]);
    assert_true(process_wait_line(p, "event=ready", NULL, 0, LIMIT_MS));
    assert_serves(urls[0]);
    assert_serves(urls[1]);
    process_signal(p, SIGINT);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);
    tempdir_remove(dir);
}

TEST(test_taken_address_is_told)
{
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    char store[160];
    snprintf(store, sizeof store, "embedded:%s/other", server_fixture_dir(server));
    assert_ends(FLAGS("--listen", server_fixture_url(server), "--store", store), 1, FLAGS(server_fixture_url(server)));
    assert_serves(server_fixture_url(server));
    server_fixture_free(server);
}

/* Nothing is made or started before the addresses are known to be good. */
/* promise F3 */
TEST(test_bad_addresses_come_first)
{
    char *dir = tempdir_make(), file[128], store[160], data[128], line[32] = "";
    char on_file[160];
    snprintf(file, sizeof file, "%s/precious", dir);
    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(store, sizeof store, "embedded:%s", data);
    snprintf(on_file, sizeof on_file, "unix://%s", file);
    FILE *precious = fopen(file, "w");
    assert_non_null(precious);
    fputs("precious", precious);
    fclose(precious);
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    const struct {
        const char *url, *named;
        int code;
    } cases[] = {
        {"127.0.0.1:0", "must begin with tcp://", 2},
        {"tpc://127.0.0.1:0", "must begin with tcp://", 2},
        {"tcp://127.0.0.1", "must be host:port", 2},
        {"nng+ws://127.0.0.1/path", "must be host:port", 2},
        {"unix://x", "absolute path", 2},
        {"tls://127.0.0.1:0", "needs --tls-certificate", 78},
        {"tcp://0.0.0.0:0", "beyond this machine", 78},
        {on_file, "no socket", 78},
        {server_fixture_url(server), "address already in use", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ends(FLAGS("--listen", "tcp://127.0.0.1:0", "--listen", cases[i].url, "--store", store), cases[i].code,
                    FLAGS(cases[i].named));
        assert_int_equal(access(data, F_OK), -1);
    }
    static const char *const twice[][2] = {{"tcp://127.0.0.1:7", "ws://127.0.0.1:7/path"},
                                           {"unix:///tmp/a", "unix:///tmp/a"}};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
        assert_ends(FLAGS("--check-config", "--listen", twice[i][0], "--listen", twice[i][1], "--store", store), 2,
                    FLAGS("another address's, too"));
    assert_ends(FLAGS("--check-config", "--listen", "tcp://127.0.0.1:0,ws://127.0.0.1:0", "--store", store), 0,
                FLAGS("are good"));
    /* Which is no fault of the settings: they are checked before a restart. */
    assert_ends(FLAGS("--check-config", "--listen", server_fixture_url(server), "--store", store), 0,
                FLAGS("are good"));
    precious = fopen(file, "r");
    assert_non_null(precious);
    assert_non_null(fgets(line, sizeof line, precious));
    fclose(precious);
    assert_string_equal(line, "precious");
    server_fixture_free(server);
    tempdir_remove(dir);
}

/* The soft limit of a process' descriptors, as the kernel tells it. */
static unsigned long descriptors_of(pid_t pid)
{
    char path[64], line[256];
    unsigned long soft = 0;

    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Max open files %lu", &soft) == 1)
            break;
    fclose(file);
    return soft;
}

/* lockstockd under `ulimit`, with an embedded store of its own in dir. */
static process *spawn_under(const char *ulimit, const char *connections, const char *dir)
{
    char command[160], store[160];
    snprintf(command, sizeof command, "%s; exec \"$@\"", ulimit);
    snprintf(store, sizeof store, "embedded:%s/data", dir);
    const char *argv[] = {"sh",
                          "-c",
                          command,
                          "sh",
                          server_fixture_program(),
                          "--listen",
                          "tcp://127.0.0.1:0",
                          "--store",
                          store,
                          "--connections",
                          connections,
                          NULL};
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    return p;
}

/* Where descriptors do not suffice that is told at start, and fewer connections are let in. */
/* promise F6: RLIMIT_NOFILE is raised at start; where it does not suffice that is told, and fewer connections are let
 * in */
TEST(test_descriptors_are_counted_at_start)
{
    char *dir = tempdir_make(), line[256];
    process *p = spawn_under("ulimit -Sn 200; ulimit -Hn 3000", "2900", dir);
    assert_true(process_wait_line(p, "event=ready", NULL, 0, LIMIT_MS));
    assert_int_equal(descriptors_of(process_pid(p)), 3000);
    assert_null(strstr(process_output(p), "few-descriptors"));
    process_signal(p, SIGTERM);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);

    p = spawn_under("ulimit -n 3000", "2901", dir);
    assert_true(process_wait_line(p, "event=few-descriptors", line, sizeof line, LIMIT_MS));
    assert_non_null(strstr(line, "limit=3000 wanted=2901 connections=2900"));
    assert_true(process_wait_line(p, "event=ready", NULL, 0, LIMIT_MS));
    process_signal(p, SIGTERM);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);

    p = spawn_under("ulimit -n 100", "1", dir);
    assert_true(process_exited_with(p, 78, LIMIT_MS));
    assert_non_null(strstr(process_output(p), "descriptors: this process may have 100"));
    process_free(p);
    tempdir_remove(dir);
}

TEST(test_second_server_on_one_directory_is_refused)
{
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    char store[192], dir[160];
    snprintf(dir, sizeof dir, "%s/data", server_fixture_dir(server));
    snprintf(store, sizeof store, "embedded:%s", dir);
    pid_t redis = server_fixture_redis_pid(server);
    assert_true(redis > 0);
    assert_ends(FLAGS("--listen", "nng+tcp://127.0.0.1:0", "--store", store), 1, FLAGS(dir, "another"));
    assert_int_equal(server_fixture_redis_pid(server), redis);
    assert_serves(server_fixture_url(server));

    /* And a third after the first ended is not. */
    assert_true(server_fixture_stop(server, LIMIT_MS));
    assert_true(process_wait_gone(redis, LIMIT_MS));
    assert_true(server_fixture_restart(server));
    assert_serves(server_fixture_url(server));
    server_fixture_free(server);
}

/* What no further start mends is not tried again by systemd; whether it is found at the first start or later. */
/* promise F3 */
TEST(test_a_store_that_is_broken_has_an_exit_code_of_its_own)
{
    char *dir = tempdir_make(), data[128], store[160], files[192], moved[160];

    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(store, sizeof store, "embedded:%s", data);
    snprintf(files, sizeof files, "%s/appendonlydir", data);
    snprintf(moved, sizeof moved, "%s/moved", dir);
    process *p = spawn_with(FLAGS("--listen", "tcp://127.0.0.1:0", "--store", store));
    assert_true(process_wait_line(p, "event=ready", NULL, 0, LIMIT_MS));
    assert_int_equal(rename(files, moved), 0);
    kill(process_find_child(process_pid(p), "redis-server"), SIGKILL);
    assert_true(process_exited_with(p, 78, LIMIT_MS));
    assert_non_null(strstr(process_output(p), "manifest is missing"));
    process_free(p);
    assert_ends(FLAGS("--listen", "tcp://127.0.0.1:0", "--store", store), 78, FLAGS("manifest is missing", data));
    assert_int_equal(rename(moved, files), 0);
    snprintf(files, sizeof files, "%s/appendonlydir/appendonly.aof.1.incr.aof", data);
    assert_true(tempdir_write(files, "*1\r\n$9999\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n"));
    assert_ends(FLAGS("--listen", "tcp://127.0.0.1:0", "--store", store), 78, FLAGS("is damaged at byte 0,", data));
    tempdir_remove(dir);
}

/* A file of 64 GiB, all of it a hole, which takes minutes to read before anything is served. */
static void make_long_file(const char *data)
{
    static const char manifest[] = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    static const char head[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$68719476736\r\n";
    char path[256];

    assert_int_equal(mkdir(data, 0700), 0);
    snprintf(path, sizeof path, "%s/appendonlydir", data);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/appendonlydir/appendonly.aof.manifest", data);
    assert_true(tempdir_write(path, manifest));
    snprintf(path, sizeof path, "%s/appendonlydir/appendonly.aof.1.incr.aof", data);
    assert_true(tempdir_write(path, head));
    assert_int_equal(truncate(path, 68719476736 + 4096), 0);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("\r\n", file);
    fclose(file);
}

/* promise T18: a socket that was removed is made again; its path may be long; a large file is mended beside the loop,
 * is told how far, and can be stopped, at the first start too */
TEST(test_a_start_that_takes_long_can_be_stopped)
{
    char *dir = tempdir_make(), store[160];

    snprintf(store, sizeof store, "%s/data", dir);
    make_long_file(store);
    snprintf(store, sizeof store, "embedded:%s/data", dir);
    process *p = spawn_with(FLAGS("--listen", "nng+tcp://127.0.0.1:0", "--store", store));
    assert_true(process_wait_line(p, "event=store-mending", NULL, 0, LIMIT_MS));
    process_signal(p, SIGTERM);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    assert_non_null(strstr(process_output(p), "event=stopped"));
    process_free(p);
    tempdir_remove(dir);
}

TEST(test_unix_store)
{
    redis_fixture *redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    server_fixture *server = server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis)});
    assert_non_null(server);
    assert_serves(server_fixture_url(server));
    assert_int_equal(server_fixture_redis_pid(server), 0);
    assert_true(server_fixture_stop(server, LIMIT_MS));
    assert_true(redis_fixture_pid(redis) > 0);
    server_fixture_free(server);
    redis_fixture_free(redis);
}

/* A store that forgets by design is refused, unless it is wanted. */
TEST(test_store_that_forgets_is_refused)
{
    static const char *const evicting[] = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL};
    const redis_fixture_options bad[] = {{.append_only = false}, {.append_only = true, .args = evicting}};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        redis_fixture *redis = redis_fixture_start(&bad[i]);
        assert_non_null(redis);
        assert_ends(FLAGS("--listen", "nng+tcp://127.0.0.1:0", "--store", redis_fixture_url(redis)), 1,
                    FLAGS("allow-unsafe-store"));
        static const char *const allowed[] = {"--allow-unsafe-store", NULL};
        server_fixture *server =
            server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = allowed});
        assert_non_null(server);
        assert_serves(server_fixture_url(server));
        server_fixture_free(server);
        redis_fixture_free(redis);
    }
}

TEST(test_settings_from_file_and_environment)
{
    char *dir = tempdir_make(), path[160];
    snprintf(path, sizeof path, "%s/lockstock.ini", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "listen = nng+tcp://127.0.0.1:0\nstore = embedded:%s/data\nfsync = everysec\n", dir);
    fclose(file);
    const char *const argv[] = {server_fixture_program(), "--config", path, NULL};
    const char *const env[] = {"LOCKSTOCK_LOG_LEVEL=debug", NULL};
    process *p = process_spawn(argv, env);
    assert_non_null(p);
    assert_true(process_wait_line(p, "event=ready", NULL, 0, LIMIT_MS));
    process_signal(p, SIGTERM);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);
    tempdir_remove(dir);
}

typedef struct tally {
    atomic_size_t done, ok, other;
} tally;

static void count(void *arg, lks_code code, const lks_put_item_response *response, const lks_error *error)
{
    tally *t = arg;

    (void)response;
    /* While it drains, a call is done or refused unharmed; never in between. */
    if (code == LKS_OK) {
        atomic_fetch_add(&t->ok, 1);
    } else if (code != LKS_UNAVAILABLE) {
        atomic_fetch_add(&t->other, 1);
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error->message);
    }
    atomic_fetch_add(&t->done, 1);
}

/* SIGTERM with calls under way: they are answered, the server exits with 0. */
TEST(test_sigterm_drains)
{
    enum { CALLS = 500 };
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    const lks_channel_options once = {.no_retry = true, .timeout_ms = 20000};
    lks_channel *channel = NULL;
    assert_int_equal(lks_channel_open(server_fixture_url(server), &once, &channel, NULL), LKS_OK);
    assert_int_equal(put(channel, "warm"), LKS_OK);
    tally calls = {0};
    for (size_t i = 0; i < CALLS; i++) {
        char sku[32];
        lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
        snprintf(sku, sizeof sku, "sku-%zu", i);
        request.sku = sku;
        assert_int_equal(lks_stock_put_item_start(channel, &request, NULL, count, &calls, NULL, NULL), LKS_OK);
    }
    while (atomic_load(&calls.done) == 0)
        process_pause();
    process_signal(server_fixture_process(server), SIGTERM);
    assert_true(process_exited_with(server_fixture_process(server), 0, LIMIT_MS));
    while (atomic_load(&calls.done) < CALLS)
        process_pause();
    assert_int_equal(atomic_load(&calls.other), 0);
    assert_true(atomic_load(&calls.ok) > 0);
    lks_channel_close(channel);

    /* What was told to be done is there. */
    assert_true(server_fixture_restart(server));
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, NULL), LKS_OK);
    size_t found = 0;
    for (size_t i = 0; i < CALLS; i++) {
        char sku[32];
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        snprintf(sku, sizeof sku, "sku-%zu", i);
        request.sku = sku;
        found += lks_stock_get_item(channel, &request, NULL, NULL, NULL) == LKS_OK;
    }
    assert_true(found >= atomic_load(&calls.ok));
    lks_channel_close(channel);
    server_fixture_free(server);
}

TEST_MAIN()

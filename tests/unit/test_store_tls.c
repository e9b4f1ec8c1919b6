/* rediss:// to a real Redis: who it must be, who we must be, and a password that changes while calls run. */
/* promise T21 */
#include <unistd.h>

#include "store_scene.h"
#include "support/certificates.h"
#include "support/ports.h"
#include "support/redis_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { PATH_BYTES = 160, BIG = 300 * 1024 };

static struct {
    char *dir;
    char ca[PATH_BYTES], other_ca[PATH_BYTES], certificate[PATH_BYTES], key[PATH_BYTES];
    char client[PATH_BYTES], client_key[PATH_BYTES], password[PATH_BYTES];
    char port[8], url[64];
    redis_fixture *redis;
} stage;

static void name_file(char *path, const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", stage.dir, name);
}

static int make_files(void **state)
{
    authority *ours = authority_new("ours"), *theirs = authority_new("theirs");

    stage.dir = tempdir_make();
    name_file(stage.ca, "ca.pem");
    name_file(stage.other_ca, "other.pem");
    name_file(stage.certificate, "server.pem");
    name_file(stage.key, "server.key");
    name_file(stage.client, "client.pem");
    name_file(stage.client_key, "client.key");
    name_file(stage.password, "password");
    authority_write(ours, stage.ca);
    authority_write(theirs, stage.other_ca);
    authority_sign(ours, &(certificate_wish){.dns = {{"localhost", 0}, {"redis.shop", 0}}}, stage.certificate,
                   stage.key);
    authority_sign(ours, &(certificate_wish){.common = {"lockstockd", 0}}, stage.client, stage.client_key);
    authority_free(ours);
    authority_free(theirs);
    return 0;
}

static int remove_files(void **state)
{
    tempdir_remove(stage.dir);
    return 0;
}

static void start(const char *ask_for_certificates)
{
    static const char *args[16];
    const char *const all[] = {"--tls-port",
                               stage.port,
                               "--tls-cert-file",
                               stage.certificate,
                               "--tls-key-file",
                               stage.key,
                               "--tls-ca-cert-file",
                               stage.ca,
                               "--tls-auth-clients",
                               ask_for_certificates,
                               "--bind",
                               "127.0.0.1",
                               NULL};
    uint16_t port;

    scene_begin();
    memcpy(args, all, sizeof all);
    do {
        close(ports_bind(&port));
        snprintf(stage.port, sizeof stage.port, "%u", port);
        stage.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true, .args = args});
    } while (!stage.redis); /* another one took the port */
    snprintf(stage.url, sizeof stage.url, "rediss://localhost:%s", stage.port);
}

static int start_alone(void **state)
{
    start("no");
    return 0;
}

static int stop(void **state)
{
    scene_end(state);
    redis_fixture_free(stage.redis);
    return 0;
}

static void open_store(const char *url, const store_files *files)
{
    scene_open(&(store_options){.url = url, .files = *files});
}

static void assert_not_let_in(const char *url, const store_files *files, const char *reason)
{
    open_store(url, files);
    scene_until_reason(reason);
    assert_int_equal(store_driver_ups(here.d), 0);
    store_driver_close_store(here.d);
}

static void ask_redis(const char *command)
{
    free(redis_fixture_command(stage.redis, command));
}

TEST_WITH(calls_go_over_tls_also_large_ones, start_alone, stop)
{
    static char big[BIG + 1];

    open_store(stage.url, &(store_files){.ca = stage.ca});
    store_driver_wait_ready(here.d, true);
    memset(big, 'x', BIG);
    outcome *all[20];
    for (size_t i = 0; i < 20; i++)
        all[i] = store_driver_submit(here.d, &(driver_call){.function = "echo", .args = {big}});
    for (size_t i = 0; i < 20; i++) {
        store_driver_wait(here.d, all[i]);
        assert_outcome(all[i], LKS_OK, LKS_APPLIED_YES);
        assert_string_equal(outcome_text(all[i], 1), big);
    }
}

TEST_WITH(a_store_must_be_the_one_that_is_meant, start_alone, stop)
{
    char url[64];

    assert_not_let_in(stage.url, &(store_files){.ca = stage.other_ca}, "self-signed certificate");
    assert_not_let_in(stage.url, &(store_files){.ca = stage.ca, .server_name = "redis.other"}, "mismatch");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%s", stage.port);
    assert_not_let_in(url, &(store_files){.ca = stage.ca}, "mismatch");
    open_store(url, &(store_files){.ca = stage.ca, .server_name = "redis.shop"});
    store_driver_wait_ready(here.d, true);
}

TEST_WITH(a_store_without_tls_is_not_spoken_to, start_alone, stop)
{
    char url[64];
    uint16_t plain;

    close(ports_bind(&plain));
    snprintf(url, sizeof url, "CONFIG SET port %u", plain);
    ask_redis(url);
    snprintf(url, sizeof url, "rediss://localhost:%u", plain);
    assert_not_let_in(url, &(store_files){.ca = stage.ca}, "does not answer in time");
}

static int start_asking(void **state)
{
    start("yes");
    return 0;
}

TEST_WITH(a_certificate_that_is_demanded_is_shown, start_asking, stop)
{
    assert_not_let_in(stage.url, &(store_files){.ca = stage.ca}, "ertificate");
    open_store(stage.url, &(store_files){.ca = stage.ca, .certificate = stage.client, .key = stage.client_key});
    store_driver_wait_ready(here.d, true);
}

static void write_password(const char *text)
{
    assert_true(tempdir_write(stage.password, text));
}

TEST_WITH(a_password_that_changes_counts_without_a_call_lost, start_alone, stop)
{
    lks_error error;
    outcome *calls[64];

    write_password("first\n");
    ask_redis("CONFIG SET requirepass first");
    open_store(stage.url, &(store_files){.ca = stage.ca, .password = stage.password});
    store_driver_wait_ready(here.d, true);
    write_password("second\n");
    for (size_t i = 0; i < 32; i++)
        calls[i] = store_driver_submit(here.d, &(driver_call){.function = "add", .args = {"1"}});
    /* From the socket, which has the new password from here on. */
    ask_redis("AUTH first\r\nCONFIG SET requirepass second");
    assert_int_equal(store_reload(store_driver_store(here.d), &error), LKS_OK);
    for (size_t i = 32; i < 64; i++)
        calls[i] = store_driver_submit(here.d, &(driver_call){.function = "add", .args = {"1"}});
    for (size_t i = 0; i < 64; i++) {
        store_driver_wait(here.d, calls[i]);
        assert_outcome(calls[i], LKS_OK, LKS_APPLIED_YES);
    }
    assert_int_equal(store_driver_ups(here.d), 1);
    ask_redis("AUTH second\r\nCLIENT KILL TYPE normal");
    store_driver_wait_ready(here.d, false);
    store_driver_wait_ready(here.d, true);
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "add", .args = {"1"}}), LKS_OK,
                   LKS_APPLIED_YES);
}

TEST_WITH(files_that_cannot_be_used_leave_all_as_it_was, start_alone, stop)
{
    lks_error error;

    write_password("any\n");
    open_store(stage.url, &(store_files){.ca = stage.ca});
    store_driver_wait_ready(here.d, true);
    assert_int_equal(store_reload(store_driver_store(here.d), &error), LKS_OK);
    char away[PATH_BYTES + 8];
    snprintf(away, sizeof away, "%s.away", stage.ca);
    assert_int_equal(rename(stage.ca, away), 0);
    assert_int_equal(store_reload(store_driver_store(here.d), &error), LKS_INVALID_ARGUMENT);
    assert_int_equal(rename(away, stage.ca), 0);
    assert_non_null(strstr(error.message, stage.ca));
    ask_redis("CLIENT KILL TYPE normal");
    store_driver_wait_ready(here.d, false);
    store_driver_wait_ready(here.d, true);
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
}

/* promise F8 */
TEST_WITH(settings_that_would_do_nothing_are_refused, start_alone, stop)
{
    char with_nul[PATH_BYTES];
    name_file(with_nul, "nul");
    const struct row {
        const char *url;
        store_files files;
        const char *named;
    } rows[] = {
        {"redis://db", {.ca = stage.ca}, "--store-ca"},
        {"redis://db", {.server_name = "db"}, "--store-server-name"},
        {"rediss://db", {.ca = stage.ca, .certificate = stage.client}, "need each other"},
        {"rediss://db", {.ca = "/nowhere/ca.pem"}, "--store-ca: /nowhere/ca.pem: No such file or directory"},
        {"rediss://db", {.ca = stage.key}, "--store-ca: /"},
        {"rediss://db", {.certificate = "/nowhere/c", .key = stage.client_key}, "--store-certificate: /nowhere/c: No"},
        {"rediss://db", {.certificate = stage.key, .key = stage.client_key}, "--store-certificate: /"},
        {"rediss://db", {.certificate = stage.client, .key = "/nowhere/k"}, "--store-key: /nowhere/k: No such file"},
        {"rediss://db", {.certificate = stage.client, .key = stage.key}, "--store-key: /"},
        {"redis://:secret@db", {.password = stage.password}, "--store-password-file"},
        {"redis://db", {.password = "/nowhere/password"}, "/nowhere/password"},
        {"redis://db", {.password = "/dev/null"}, "--store-password-file: /dev/null"},
        {"redis://db", {.password = with_nul}, "without a NUL"},
        {"redis://db", {.user = "u"}, "--store-user"},
        {"embedded:./x", {.password = stage.password}, "embedded"},
        {"redis://db", {.sentinel_password = stage.password}, "--store-sentinel-password-file"},
        {"redis+sentinel://db/shop", {.sentinel_user = "u"}, "--store-sentinel-user"},
    };

    FILE *file = fopen(with_nul, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("secret\0more\n", 1, 12, file), 12);
    fclose(file);
    write_password("secret\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_error error;
        print_message("%s\n", rows[i].named);
        assert_int_equal(
            store_driver_open(here.d, &(store_options){.url = rows[i].url, .files = rows[i].files}, &error),
            LKS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, rows[i].named));
        assert_null(strstr(error.message, "secret"));
    }
}

TEST_MAIN(.setup_all = make_files, .teardown_all = remove_files)

/* What lockstockd tells a service manager. The test is the manager: it has the socket. */
/* promise F7: a service manager is told by `$NOTIFY_SOCKET`, a path or an abstract name: ready when it serves, each
 * reload and why one failed, why it is not ready, its end, and that its loop runs; no child of it has the socket */
/* promise CL6 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "notify.h"
#include "support/certificates.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { LIMIT_MS = 60000, TEXT_BYTES = 2048 };

static struct {
    int fd;
    char *dir;
    char environment[128]; /* NOTIFY_SOCKET=... */
    char last[TEXT_BYTES]; /* what was heard last */
    bool ready_heard, reload_heard, beat_heard;
} manager;

/* `name` is a path, or with @ a name without a file. */
static void listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
    size_t len = strlen(name);

    memcpy(at.sun_path, name, len);
    if (*name == '@')
        at.sun_path[0] = '\0';
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(manager.fd >= 0);
    assert_int_equal(setsockopt(manager.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(bind(manager.fd, (struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*name != '@'))),
                     0);
    snprintf(manager.environment, sizeof manager.environment, "NOTIFY_SOCKET=%s", name);
}

static int start(void **state)
{
    char path[96];

    manager.dir = tempdir_make();
    assert_non_null(manager.dir);
    snprintf(path, sizeof path, "%s/notify", manager.dir);
    listen_at(path);
    manager.ready_heard = manager.reload_heard = manager.beat_heard = false;
    return 0;
}

static int stop(void **state)
{
    close(manager.fd);
    tempdir_remove(manager.dir);
    return 0;
}

static bool hear(int flags)
{
    ssize_t len = recv(manager.fd, manager.last, sizeof manager.last - 1, flags);

    if (len < 0)
        return false;
    manager.last[len] = '\0';
    manager.ready_heard = manager.ready_heard || strstr(manager.last, "READY=1\n");
    manager.reload_heard = manager.reload_heard || strstr(manager.last, "RELOADING=1\n");
    manager.beat_heard = manager.beat_heard || strcmp(manager.last, "WATCHDOG=1") == 0;
    return true;
}

/* Until a message contains `text`; false: none came in time. */
static bool hears(const char *text)
{
    while (hear(0))
        if (strstr(manager.last, text))
            return true;
    return false;
}

/* Until a message is `text`. */
static bool hears_all(const char *text)
{
    while (hears(text))
        if (strcmp(manager.last, text) == 0)
            return true;
    return false;
}

static server_fixture *start_server(const char *store, const char *const *args, const char *const *more_env)
{
    static const char *env[6];
    size_t n = 0;

    env[n++] = manager.environment;
    while (more_env && *more_env)
        env[n++] = *more_env++;
    env[n] = NULL;
    const server_fixture_options options = {.store = store, .args = args, .env = env};
    server_fixture *server = server_fixture_start(&options);
    assert_non_null(server);
    return server;
}

/* A redis-server that writes down its environment first: the real one overwrites it. */
static void make_witness(char *path_env, size_t size)
{
    char path[96];

    snprintf(path, sizeof path, "%s/redis-server", manager.dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nenv >%s/environment\nPATH=${PATH#*:} exec redis-server \"$@\"\n", manager.dir);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(path_env, size, "PATH=%s:%s", manager.dir, getenv("PATH"));
}

static void assert_witness_saw(const char *text, bool wanted)
{
    char path[96], all[65536];

    snprintf(path, sizeof path, "%s/environment", manager.dir);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t len = fread(all, 1, sizeof all - 1, file);
    all[len] = '\0';
    fclose(file);
    assert_int_equal(strstr(all, text) != NULL, wanted);
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

TEST(a_server_tells_its_life)
{
    char path[4096];
    const char *const env[] = {"WATCHDOG_USEC=60000000", "WATCHDOG_PID=0", path, NULL};

    make_witness(path, sizeof path);
    const char *const args[] = {"--drain-ms", "123456", NULL};
    server_fixture *server = start_server(NULL, args, env);
    uint64_t at = 0, before = now_us();

    assert_true(hears_all("STATUS=starting"));
    assert_false(manager.ready_heard);
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    assert_witness_saw("PATH=", true);
    assert_witness_saw("NOTIFY_SOCKET=", false);
    assert_witness_saw("WATCHDOG_USEC=", false);
    assert_witness_saw("WATCHDOG_PID=", false);
    process_signal(server_fixture_process(server), SIGHUP);
    assert_true(hears("RELOADING=1\n"));
    const char *time = strstr(manager.last, "\nMONOTONIC_USEC=");
    assert_non_null(time);
    assert_int_equal(sscanf(time, "\nMONOTONIC_USEC=%" SCNu64, &at), 1);
    assert_true(at >= before && at <= now_us());
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    assert_true(server_fixture_stop(server, LIMIT_MS));
    assert_true(hears("STOPPING=1\nEXTEND_TIMEOUT_USEC="));
    assert_true(strtoull(strstr(manager.last, "USEC=") + strlen("USEC="), NULL, 10) > 123456000);
    assert_non_null(strstr(manager.last, "\nSTATUS=draining"));
    server_fixture_free(server);
}

TEST(the_watchdog_is_fed_at_a_name_without_a_file)
{
    const char *const env[] = {"WATCHDOG_USEC=4000", NULL};
    char name[64];

    close(manager.fd);
    snprintf(name, sizeof name, "@lockstock-test-%d", (int)getpid());
    listen_at(name);
    server_fixture *server = start_server(NULL, NULL, env);
    assert_true(hears("READY=1\n"));
    assert_true(hears_all("WATCHDOG=1"));
    assert_true(hears_all("WATCHDOG=1"));
    process_signal(server_fixture_process(server), SIGTERM);
    while (!strstr(manager.last, "STOPPING=1\n"))
        assert_true(hear(0));
    assert_true(process_exited_with(server_fixture_process(server), 0, LIMIT_MS));
    server_fixture_free(server);
}

TEST(the_watchdog_of_another_process_is_not_fed)
{
    const char *const env[] = {"WATCHDOG_USEC=4000", "WATCHDOG_PID=1", NULL};
    server_fixture *server = start_server(NULL, NULL, env);

    assert_true(server_fixture_stop(server, LIMIT_MS));
    assert_true(hears("STOPPING=1\n"));
    assert_true(manager.ready_heard);
    assert_false(manager.beat_heard);
    server_fixture_free(server);
}

TEST(a_reload_that_fails_is_in_the_status_until_one_succeeds)
{
    char path[96];
    const char *const args[] = {"--policy", path, NULL};

    snprintf(path, sizeof path, "%s/policy", manager.dir);
    assert_true(tempdir_write(path, "[dashboard]\n* = READ\n"));
    server_fixture *server = start_server(NULL, args, NULL);
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    assert_true(tempdir_write(path, "nonsense\n"));
    process_signal(server_fixture_process(server), SIGHUP);
    assert_true(hears("READY=1\nSTATUS=ready; the last reload failed: "));
    assert_non_null(strstr(manager.last, path));
    assert_true(manager.reload_heard);
    assert_true(tempdir_write(path, "[dashboard]\n* = READ\n"));
    process_signal(server_fixture_process(server), SIGHUP);
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    assert_true(server_fixture_stop(server, LIMIT_MS));
    server_fixture_free(server);
}

/* promise F8: why the store, or a sentinel, is away is told in words, in the log and to the manager, once a reason; a
 * file that cannot be read, with the setting and the reason; a % that is no encoding, with what to write */
TEST(a_store_that_is_away_is_in_the_status)
{
    const redis_fixture_options keeps = {.append_only = true};
    redis_fixture *redis = redis_fixture_start(&keeps);
    assert_non_null(redis);
    server_fixture *server = start_server(redis_fixture_url(redis), NULL, NULL);

    assert_true(hears_all("READY=1\nSTATUS=ready"));
    redis_fixture_kill(redis);
    assert_true(hears("READY=1\nSTATUS=not ready: the connection to the store broke: "));
    assert_true(hears("READY=1\nSTATUS=not ready: the store cannot be reached: "));
    assert_true(redis_fixture_restart(redis));
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    /* The log has the same, in this order, and says when the store is back. */
    static const char *const lines[] = {"event=not-ready reason=\"the connection to the store broke: ",
                                        "event=not-ready reason=\"the store cannot be reached: ", "event=ready "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(process_wait_line(server_fixture_process(server), lines[i], NULL, 0, LIMIT_MS));
    assert_true(server_fixture_stop(server, LIMIT_MS));
    server_fixture_free(server);
    redis_fixture_free(redis);
}

enum { MONTHS_S = 60 * 86400 };

static struct {
    char certificate[96], key[96];
} tls;

/* In place of the one before. */
static void certify(long until_s)
{
    authority *a = authority_new("authority");
    const certificate_wish wish = {
        .common = {.text = "localhost"}, .valid_from_s = -MONTHS_S, .valid_until_s = until_s};

    snprintf(tls.certificate, sizeof tls.certificate, "%s/server.pem", manager.dir);
    snprintf(tls.key, sizeof tls.key, "%s/server.key", manager.dir);
    authority_sign(a, &wish, tls.certificate, tls.key);
    assert_int_equal(chmod(tls.key, 0600), 0);
    authority_free(a);
}

/* Serves TLS, and `other` besides, unless it is NULL. */
static process *start_with_tls(const char *store, const char *other)
{
    const char *const env[] = {manager.environment, NULL};
    const char *const argv[] = {server_fixture_program(),
                                "--listen",
                                "tls://127.0.0.1:0",
                                "--store",
                                store,
                                "--tls-certificate",
                                tls.certificate,
                                "--tls-key",
                                tls.key,
                                other ? "--listen" : NULL,
                                other,
                                NULL};
    process *server = process_spawn(argv, env);

    assert_non_null(server);
    return server;
}

static void end(process *server)
{
    process_signal(server, SIGTERM);
    assert_true(process_exited_with(server, 0, LIMIT_MS));
    process_free(server);
}

TEST(a_certificate_that_ends_is_told_in_time_and_one_that_has_ended_is_not_served)
{
    char store[128];

    snprintf(store, sizeof store, "embedded:%s/data", manager.dir);
    certify(13 * 86400L);
    process *server = start_with_tls(store, NULL);
    assert_true(hears("READY=1\nSTATUS=ready, but the certificate of --tls-certificate ends at "));
    certify(-1);
    process_signal(server, SIGHUP);
    assert_true(hears("STATUS=not ready: the certificate of --tls-certificate ended at "));
    certify(MONTHS_S);
    process_signal(server, SIGHUP);
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    static const char *const lines[] = {"event=ready ", "event=not-ready reason=\"the certificate of ",
                                        "event=certificate-good", "event=ready "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(process_wait_line(server, lines[i], NULL, 0, LIMIT_MS));
    assert_non_null(strstr(process_output(server), "event=certificate-ends "));
    end(server);
}

TEST(a_certificate_that_ends_while_it_is_served_is_noticed)
{
    char store[128];

    snprintf(store, sizeof store, "embedded:%s/data", manager.dir);
    certify(2);
    process *server = start_with_tls(store, NULL);
    assert_true(hears("STATUS=not ready: the certificate of --tls-certificate ended at "));
    end(server);
}

TEST(who_listens_without_tls_too_is_ready_with_a_certificate_that_has_ended)
{
    char store[128], other[128];

    snprintf(store, sizeof store, "embedded:%s/data", manager.dir);
    snprintf(other, sizeof other, "unix://%s/s", manager.dir);
    certify(-1);
    process *server = start_with_tls(store, other);
    assert_true(hears("READY=1\nSTATUS=ready, but the certificate of --tls-certificate ended at "));
    end(server);
}

TEST(who_never_was_ready_says_so_to_the_end)
{
    char store[128];
    const char *const env[] = {manager.environment, NULL};

    snprintf(store, sizeof store, "unix://%s/none", manager.dir);
    process *server = process_spawn(
        (const char *const[]){server_fixture_program(), "--listen", "tcp://127.0.0.1:0", "--store", store, NULL}, env);
    assert_non_null(server);
    assert_true(hears("STATUS=not ready: "));
    process_signal(server, SIGHUP);
    assert_true(process_wait_line(server, "event=reloaded", NULL, 0, LIMIT_MS));
    process_signal(server, SIGTERM);
    assert_true(process_exited_with(server, 0, LIMIT_MS));
    assert_true(hears("STATUS=draining"));
    assert_false(manager.ready_heard || manager.reload_heard);
    process_free(server);
}

TEST(why_a_server_cannot_start_is_in_the_status)
{
    char store[128], taken[96];
    const char *const env[] = {manager.environment, NULL};

    snprintf(store, sizeof store, "unix://%s/none", manager.dir);
    snprintf(taken, sizeof taken, "unix://%s/no/such/directory", manager.dir);
    process *server =
        process_spawn((const char *const[]){server_fixture_program(), "--listen", taken, "--store", store, NULL}, env);
    assert_non_null(server);
    assert_true(hears("\nSTATUS=stopped: --listen "));
    assert_ptr_equal(strstr(manager.last, "STOPPING=1\n"), manager.last);
    assert_non_null(strstr(manager.last, taken));
    assert_true(process_exited_with(server, 2, LIMIT_MS));
    process_free(server);
}

TEST(a_store_of_which_a_part_is_away_is_ready)
{
    uv_loop_t loop;

    setenv("NOTIFY_SOCKET", strchr(manager.environment, '=') + 1, 1);
    uv_loop_init(&loop);
    notify *n = notify_open(&loop);
    assert_non_null(n);
    notify_store(n, true, "two nodes\nare away");
    assert_true(hears_all("READY=1\nSTATUS=ready, but two nodes are away"));
    notify_store(n, true, NULL);
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    notify_close(n);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

TEST(a_manager_that_has_no_room_is_told_later)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", strchr(manager.environment, '=') + 1);
    while (sendto(fd, "noise", 5, MSG_DONTWAIT, (struct sockaddr *)&at, sizeof at) == 5)
        ;
    assert_int_equal(errno, EAGAIN);
    close(fd);
    server_fixture *server = start_server(NULL, NULL, NULL);
    assert_non_null(strstr(process_output(server_fixture_process(server)), "event=notify-failed"));
    assert_true(hears_all("READY=1\nSTATUS=ready"));
    assert_true(server_fixture_stop(server, LIMIT_MS));
    server_fixture_free(server);
}

TEST(a_manager_that_is_not_there_is_a_line_in_the_log)
{
    static const char *const wrong[] = {"NOTIFY_SOCKET=relative", "NOTIFY_SOCKET=/nonexistent/notify"};

    for (size_t i = 0; i < 2; i++) {
        snprintf(manager.environment, sizeof manager.environment, "%s", wrong[i]);
        server_fixture *server = start_server(NULL, NULL, NULL);
        assert_non_null(strstr(process_output(server_fixture_process(server)), "event=notify-failed"));
        assert_true(server_fixture_stop(server, LIMIT_MS));
        server_fixture_free(server);
    }
}

TEST_MAIN(.setup = start, .teardown = stop)

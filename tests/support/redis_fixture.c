/* The server is ready when PING is answered with PONG: then it listens and its
 * data is loaded. */
#include "support/redis_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/process.h"
#include "support/tempdir.h"

enum { READY_TIMEOUT_MS = 60000, ARGS_MAX = 64 };

struct redis_fixture {
    redis_fixture_options options;
    char *dir;
    char socket[128];
    char url[136];
    process *server; /* NULL while stopped */
};

char *redis_fixture_command(redis_fixture *fixture, const char *command)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10};
    char reply[65536];
    ssize_t n = -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return NULL;
    snprintf(address.sun_path, sizeof address.sun_path, "%.*s", (int)sizeof address.sun_path - 1, fixture->socket);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, command, strlen(command), MSG_NOSIGNAL) >= 0 && send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2)
        n = recv(fd, reply, sizeof reply - 1, 0);
    close(fd);
    if (n <= 0)
        return NULL;
    reply[n] = '\0';
    return strdup(reply);
}

static bool wait_ready(redis_fixture *fixture)
{
    long long end = process_now_ms() + READY_TIMEOUT_MS;

    while (process_now_ms() < end && !process_wait(fixture->server, 0, NULL)) {
        char *reply = redis_fixture_command(fixture, "PING");
        bool ready = reply && strncmp(reply, "+PONG", 5) == 0;
        free(reply);
        if (ready)
            return true;
        process_pause();
    }
    fprintf(stderr, "redis-server does not come up:\n%s\n", process_output(fixture->server));
    return false;
}

/* After a kill in the middle of a transaction redis-server 7.0 would keep its
 * half (docs/store.md); this is what the operator must do. */
static bool mend(const redis_fixture *fixture)
{
    char manifest[160];
    const char *const args[] = {"sh", "-c", "test ! -e \"$0\" || yes | redis-check-aof --fix \"$0\"", manifest, NULL};

    snprintf(manifest, sizeof manifest, "%s/appendonlydir/appendonly.aof.manifest", fixture->dir);
    process *p = process_spawn(args, NULL);
    bool mended = p && process_exited_with(p, 0, READY_TIMEOUT_MS);
    process_free(p);
    return mended;
}

bool redis_fixture_restart(redis_fixture *fixture)
{
    const char *args[ARGS_MAX] = {
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        fixture->socket,
        "--unixsocketperm",
        "700",
        "--dir",
        fixture->dir,
        "--save",
        "",
        "--appendonly",
        fixture->options.append_only ? "yes" : "no",
        "--appendfsync",
        fixture->options.fsync ? fixture->options.fsync : "always",
        "--daemonize",
        "no",
    };
    size_t n = 0;

    process_free(fixture->server);
    while (args[n])
        n++;
    for (size_t i = 0; fixture->options.args && fixture->options.args[i] && n < ARGS_MAX - 1; i++)
        args[n++] = fixture->options.args[i];
    fixture->server = NULL;
    unlink(fixture->socket);
    if (fixture->options.append_only && !mend(fixture))
        return false;
    fixture->server = process_spawn(args, fixture->options.env);
    return fixture->server && wait_ready(fixture);
}

redis_fixture *redis_fixture_start(const redis_fixture_options *options)
{
    redis_fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture)
        return NULL;
    if (options)
        fixture->options = *options;
    fixture->dir = tempdir_make();
    if (!fixture->dir) {
        perror("tempdir_make");
        goto failed;
    }
    snprintf(fixture->socket, sizeof fixture->socket, "%s/redis.sock", fixture->dir);
    snprintf(fixture->url, sizeof fixture->url, "unix://%s", fixture->socket);
    if (redis_fixture_restart(fixture))
        return fixture;
failed:
    redis_fixture_free(fixture);
    return NULL;
}

const char *redis_fixture_socket(const redis_fixture *fixture)
{
    return fixture->socket;
}

const char *redis_fixture_url(const redis_fixture *fixture)
{
    return fixture->url;
}

const char *redis_fixture_dir(const redis_fixture *fixture)
{
    return fixture->dir;
}

pid_t redis_fixture_pid(const redis_fixture *fixture)
{
    return fixture->server ? process_pid(fixture->server) : 0;
}

void redis_fixture_kill(redis_fixture *fixture)
{
    process_free(fixture->server);
    fixture->server = NULL;
}

bool redis_fixture_stop(redis_fixture *fixture)
{
    process_signal(fixture->server, SIGTERM);
    bool clean = process_exited_with(fixture->server, 0, READY_TIMEOUT_MS);
    redis_fixture_kill(fixture);
    return clean;
}

void redis_fixture_free(redis_fixture *fixture)
{
    if (fixture) {
        process_free(fixture->server);
        tempdir_remove(fixture->dir);
        free(fixture);
    }
}

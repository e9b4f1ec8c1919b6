/* The port is kept over restarts. */
#include "support/server_fixture.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/ports.h"
#include "support/tempdir.h"

enum { READY_TIMEOUT_MS = 60000, ARGS_MAX = 64, ENV_MAX = 16, LOCK_STORE_BYTES = 512 };

struct server_fixture {
    server_fixture_options options;
    char *dir;
    unsigned short port;
    int port_name; /* as long as this is open */
    char url[256];
    char trusted[256], certificate[256], key[256]; /* empty: none */
    char store[256];
    process *server; /* NULL while stopped */
};

const char *server_fixture_program(void)
{
    return LOCKSTOCKD_PATH;
}

unsigned short server_fixture_free_port(void)
{
    unsigned short port;

    ports_take(&port); /* permanently */
    return port;
}

/* Where the environment names an ensemble, its locks are there (tests/e2e/on_zookeeper.sh): servers that share a store
 * share a path. Empty: they are in the store. */
static void make_lock_store(const server_fixture *fixture, char url[LOCK_STORE_BYTES])
{
    const char *hosts = getenv("LOCKSTOCK_TEST_ENSEMBLE");

    url[0] = '\0';
    if (!hosts)
        return;
    size_t at = (size_t)snprintf(url, LOCK_STORE_BYTES, "zookeeper://%s/", hosts);
    for (const char *c = fixture->store; *c && at < LOCK_STORE_BYTES - 1; c++)
        url[at++] = isalnum((unsigned char)*c) ? *c : '-';
    url[at] = '\0';
}

bool server_fixture_restart(server_fixture *fixture)
{
    char lock_store[LOCK_STORE_BYTES];
    const char *program = fixture->options.program ? fixture->options.program : LOCKSTOCKD_PATH;
    const char *args[ARGS_MAX] = {program, "--listen", fixture->url, "--store", fixture->store};
    size_t n = 5;

    if (fixture->certificate[0] != '\0') {
        const char *const tls[] = {"--tls-certificate", fixture->certificate, "--tls-key", fixture->key};
        memcpy(args + n, tls, sizeof tls);
        n += sizeof tls / sizeof *tls;
    }
    make_lock_store(fixture, lock_store);
    if (lock_store[0] != '\0') {
        args[n++] = "--lock-store";
        args[n++] = lock_store;
    }
    const char *env[ENV_MAX] = {NULL};
    size_t n_env = 0;

    process_free(fixture->server);
    for (size_t i = 0; fixture->options.args && fixture->options.args[i] && n < ARGS_MAX - 1; i++)
        args[n++] = fixture->options.args[i];
    while (fixture->options.env && fixture->options.env[n_env] && n_env < ENV_MAX - 1) {
        env[n_env] = fixture->options.env[n_env];
        n_env++;
    }
    fixture->server = process_spawn(args, env);
    if (fixture->server && process_wait_line(fixture->server, "event=ready", NULL, 0, READY_TIMEOUT_MS))
        return true;
    if (fixture->server)
        fprintf(stderr, "lockstockd does not come up:\n%s\n", process_output(fixture->server));
    return false;
}

static void make_url(server_fixture *fixture)
{
    const char *scheme = fixture->options.scheme ? fixture->options.scheme : "tcp";

    if (strcmp(scheme, "unix") == 0) {
        snprintf(fixture->url, sizeof fixture->url, "unix://%s/server", fixture->dir);
    } else {
        snprintf(fixture->url, sizeof fixture->url, "%s://127.0.0.1:%u%s", scheme, fixture->port,
                 strstr(scheme, "ws") ? "/lockstock" : "");
    }
}

static void make_certificate(server_fixture *fixture)
{
    static const certificate_wish wish = {.common = {"localhost", 0}, .alternatives = "DNS:localhost,IP:127.0.0.1"};
    const char *scheme = fixture->options.scheme ? fixture->options.scheme : "tcp";

    if (strcmp(scheme, "tls") != 0 && strcmp(scheme, "grpcs") != 0 && strcmp(scheme, "wss") != 0)
        return;
    authority *signer = authority_new("tests");
    snprintf(fixture->trusted, sizeof fixture->trusted, "%s/ca.pem", fixture->dir);
    snprintf(fixture->certificate, sizeof fixture->certificate, "%s/server.pem", fixture->dir);
    snprintf(fixture->key, sizeof fixture->key, "%s/server.key", fixture->dir);
    authority_write(signer, fixture->trusted);
    authority_sign(signer, &wish, fixture->certificate, fixture->key);
    authority_free(signer);
}

server_fixture *server_fixture_start(const server_fixture_options *options)
{
    server_fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture)
        return NULL;
    fixture->port_name = -1;
    if (options)
        fixture->options = *options;
    fixture->dir = tempdir_make();
    if (!fixture->dir) {
        perror("tempdir_make");
        goto failed;
    }
    const char *other = getenv("LOCKSTOCK_TEST_STORE");
    if (other || fixture->options.store)
        snprintf(fixture->store, sizeof fixture->store, "%s", other ? other : fixture->options.store);
    else
        snprintf(fixture->store, sizeof fixture->store, "embedded:%s/data", fixture->dir);
    fixture->port_name = ports_take(&fixture->port);
    make_url(fixture);
    make_certificate(fixture);
    if (server_fixture_restart(fixture))
        return fixture;
failed:
    server_fixture_free(fixture);
    return NULL;
}

const char *server_fixture_url(const server_fixture *fixture)
{
    return fixture->url;
}

const char *server_fixture_certificate(const server_fixture *fixture)
{
    return fixture->trusted;
}

unsigned short server_fixture_port(const server_fixture *fixture)
{
    return fixture->port;
}

const char *server_fixture_dir(const server_fixture *fixture)
{
    return fixture->dir;
}

pid_t server_fixture_pid(const server_fixture *fixture)
{
    return fixture->server ? process_pid(fixture->server) : 0;
}

process *server_fixture_process(const server_fixture *fixture)
{
    return fixture->server;
}

pid_t server_fixture_redis_pid(const server_fixture *fixture)
{
    pid_t pid = server_fixture_pid(fixture);

    return pid > 0 ? process_find_child(pid, "redis-server") : 0;
}

void server_fixture_kill(server_fixture *fixture)
{
    process_free(fixture->server);
    fixture->server = NULL;
}

bool server_fixture_stop(server_fixture *fixture, int timeout_ms)
{
    process_signal(fixture->server, SIGTERM);
    bool clean = process_exited_with(fixture->server, 0, timeout_ms);
    server_fixture_kill(fixture);
    return clean;
}

void server_fixture_free(server_fixture *fixture)
{
    if (fixture) {
        pid_t redis = server_fixture_redis_pid(fixture);
        process_free(fixture->server);
        if (redis > 0)
            process_wait_gone(redis, READY_TIMEOUT_MS); /* it writes to the directory */
        if (fixture->port_name >= 0)
            close(fixture->port_name);
        tempdir_remove(fixture->dir);
        free(fixture);
    }
}

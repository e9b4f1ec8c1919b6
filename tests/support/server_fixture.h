/* A real lockstockd of a test's own on 127.0.0.1. Main thread only (see
 * process.h). Failures are printed on stderr. */
#ifndef LOCKSTOCK_TESTS_SERVER_FIXTURE_H
#define LOCKSTOCK_TESTS_SERVER_FIXTURE_H

#include <stdbool.h>
#include <sys/types.h>

#include "support/process.h"

typedef struct server_fixture server_fixture;

typedef struct server_fixture_options {
    const char *program;     /* lockstockd; NULL = the one of this build */
    const char *store;       /* --store; NULL = embedded, in the fixture's own directory. Where the environment has
                                LOCKSTOCK_TEST_STORE it is that one: tests/e2e/on_cluster.sh */
    const char *const *args; /* more arguments, NULL-terminated; must stay valid */
    const char *const *env;  /* "NAME=value", NULL-terminated; must stay valid */
    const char *scheme;      /* "tcp" (NULL), "unix", "tls", "grpc", "grpcs", "ws", "wss", "nng+tcp" or "nng+ws";
                                the path of WebSocket is /lockstock */
} server_fixture_options;

/* Starts it and waits until it says that it is ready. options may be NULL. NULL
 * on failure. The caller frees. */
server_fixture *server_fixture_start(const server_fixture_options *options);

/* "tcp://127.0.0.1:21345", "unix:///tmp/lks-AbCdEf/server", the same for its whole life. */
const char *server_fixture_url(const server_fixture *fixture);

/* With "tls", "grpcs" and "wss": the authority that signed its certificate, PEM, which is for localhost and 127.0.0.1. */
const char *server_fixture_certificate(const server_fixture *fixture);

unsigned short server_fixture_port(const server_fixture *fixture);

/* A directory of its own; the embedded store is in its "data". */
const char *server_fixture_dir(const server_fixture *fixture);

pid_t server_fixture_pid(const server_fixture *fixture);
process *server_fixture_process(const server_fixture *fixture);

/* Pid of the redis-server that it runs; 0 = none at the moment. */
pid_t server_fixture_redis_pid(const server_fixture *fixture);

/* kill -9; returns when it has ended. Its redis-server then ends too. */
void server_fixture_kill(server_fixture *fixture);

/* Starts it again on the same port and store after a kill or stop. */
bool server_fixture_restart(server_fixture *fixture);

/* SIGTERM; true when it ended with 0 within timeout_ms. Else its output is on
 * stderr. */
bool server_fixture_stop(server_fixture *fixture, int timeout_ms);

/* Kills it if it runs, removes the directory, frees. Takes NULL. */
void server_fixture_free(server_fixture *fixture);

/* A port of 127.0.0.1 on which nothing listens, below the range of ports for
 * outgoing connections. No other test takes it while this process
 * runs. */
unsigned short server_fixture_free_port(void);

/* Path of the lockstockd under test. */
const char *server_fixture_program(void);

#endif

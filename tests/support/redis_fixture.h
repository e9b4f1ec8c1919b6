/* A real redis-server of a test's own, on a unix socket in a temporary
 * directory, never on a TCP port. Main thread only (see process.h). Failures are
 * printed on stderr. */
#ifndef LOCKSTOCK_TESTS_REDIS_FIXTURE_H
#define LOCKSTOCK_TESTS_REDIS_FIXTURE_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct redis_fixture redis_fixture;

typedef struct redis_fixture_options {
    bool append_only;        /* keep data over kill and restart */
    const char *fsync;       /* "always" (NULL), "everysec" or "no" */
    const char *const *args; /* more arguments, NULL-terminated: {"--maxmemory", "2mb", NULL}; must stay valid */
    const char *const *env;  /* "NAME=value", NULL-terminated; must stay valid */
} redis_fixture_options;

/* Starts it and waits until it answers PING. options may be NULL (nothing is
 * kept over a restart). NULL on failure. The caller frees. */
redis_fixture *redis_fixture_start(const redis_fixture_options *options);

/* "/tmp/lks-AbCdEf/redis.sock", the same for its whole life. */
const char *redis_fixture_socket(const redis_fixture *fixture);

/* "unix:///tmp/lks-AbCdEf/redis.sock" */
const char *redis_fixture_url(const redis_fixture *fixture);

/* The directory; it holds the data, and may hold a test's own files. */
const char *redis_fixture_dir(const redis_fixture *fixture);

/* Its pid; 0 while it is stopped. */
pid_t redis_fixture_pid(const redis_fixture *fixture);

/* kill -9; returns when it is gone. */
void redis_fixture_kill(redis_fixture *fixture);

/* SIGTERM: an orderly end. False when it does not end with 0. */
bool redis_fixture_stop(redis_fixture *fixture);

/* Starts it again on the same directory and socket after a kill or stop, and
 * waits until it answers PING with its data loaded. */
bool redis_fixture_restart(redis_fixture *fixture);

/* Sends one command, words separated by spaces ("FUNCTION FLUSH"), and returns
 * the reply's raw bytes as text, to be freed; NULL when there is no answer.
 * Meant for small replies: reads once until the server pauses. */
char *redis_fixture_command(redis_fixture *fixture, const char *command);

/* Kills it, removes the directory, frees. Takes NULL. */
void redis_fixture_free(redis_fixture *fixture);

#endif

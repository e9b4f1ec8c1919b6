/* Where it is measured: a lockstockd and a Redis, of our own or others', and what CPU they use.
 * Main thread only. */
#ifndef LOCKSTOCK_BENCH_PLACE_H
#define LOCKSTOCK_BENCH_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <hiredis.h>

#include "options.h"

typedef struct place {
    char dir[64];                  /* of our own, removed at the end; empty: none */
    char url[512];                 /* of lockstockd */
    char grpc[64];                 /* address of the same server for gRPC; empty: unknown */
    char socket[256];              /* of Redis; empty: it is at host:port, or unknown */
    char host[256], port[8];       /* empty: by socket, or unknown */
    char user[128], password[128]; /* empty: none */
    unsigned db;
    pid_t server, redis;                 /* 0: not on this machine, or not known: no CPU is reported */
    pid_t started_server, started_redis; /* which of them are ours to end */
} place;

typedef struct cpu_times {
    double client, server, redis; /* seconds so far, of all threads; below 0: not known */
} cpu_times;

/* Starts what the options ask for and waits until the server is ready. False: the error is printed, and
 * nothing is left. fsync: "always", "everysec" or "none". */
bool place_open(const bench_options *options, const char *fsync, place *ret);

/* Ends what was started, removes the directory. */
void place_close(place *p);

/* A connection to the Redis of the place, which must be known; NULL: the error is printed. */
redisContext *place_connect(const place *p);

/* CPU of this process, of the server and of Redis. */
cpu_times place_cpu(const place *p);

/* Seconds of CPU that a process used, all its threads together; below 0: it cannot be known. */
double cpu_of(pid_t pid);

/* The path of a program beside this one. False: it is not there, and *path is its name, for PATH. */
bool place_find(const char *program, char path[PATH_MAX]);

/* Runs argv with standard output and error on `output` (-1: nowhere). The child ends with this process.
 * 0: it could not be started. */
pid_t place_spawn(const char *const argv[], int output);

#endif

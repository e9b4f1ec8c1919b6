/* The lockstockd and the Redis that are measured, and their CPU. They may have been started here. Main thread only. */
#ifndef LOCKSTOCK_BENCH_PLACE_H
#define LOCKSTOCK_BENCH_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <hiredis.h>

#include "options.h"
#include "store/url.h"

typedef struct place {
    char dir[64];                       /* temporary directory; empty: none */
    unsigned n_servers;                 /* several, of one store; 1 for those of --server */
    char url[OPTIONS_SERVERS_MAX][512]; /* of each */
    pid_t server[OPTIONS_SERVERS_MAX];  /* 0: not on this machine, or not known */
    int log[OPTIONS_SERVERS_MAX];       /* what each has printed; 0: not started here */
    char grpc[64];                      /* the first one's address for gRPC; empty: unknown */
    url store;                          /* the Redis: its socket, or one host; zeros: unknown */
    pid_t redis;                        /* 0: not on this machine, or not known */
    pid_t started_redis;                /* 0: not started here */
} place;

/* Seconds of all threads so far; below 0: not known. */
typedef struct cpu_times {
    double client; /* this process */
    double server; /* all servers together */
    double redis;
} cpu_times;

/* Starts what the options require and waits until the server is ready. fsync: "always", "everysec" or "none".
 * Returns false after printing an error; nothing is left then. */
bool place_open(const bench_options *options, const char *fsync, place *ret);

/* Ends the started programs and removes the directory. */
void place_close(place *p);

/* Connects to Redis, which must be known. Returns NULL after printing an error. */
redisContext *place_connect(const place *p);

/* Returns false after printing an error reply. */
bool redis_answered(const redisReply *reply);

/* The same, and frees the reply. */
bool redis_done(redisReply *reply);

/* Returns a number of INFO; below 0: it has none. name: with the sign before the number. */
int64_t redis_number(redisContext *redis, const char *section, const char *name);

/* Returns the bytes that Redis, which must be known, has allocated; below 0 after printing an error. */
int64_t place_redis_bytes(const place *p);

/* Returns the CPU used so far, or between two readings. */
cpu_times place_cpu(const place *p);
cpu_times place_cpu_since(cpu_times before, cpu_times now);
double cpu_since(double before, double now);

/* Returns the seconds of CPU of a process with all its threads; below 0 if not known. */
double cpu_of(pid_t pid);

/* Writes the path of a program beside this one. If there is none, writes its name, for PATH, and returns false. */
bool place_find(const char *program, char path[PATH_MAX]);

/* Starts argv with standard output and error on `output` (-1: /dev/null). The program ends with this process.
 * Returns 0 if it cannot be started. */
pid_t place_spawn(const char *const argv[], int output);

/* Ends a program (0: none) and waits. Returns false if one that does not catch SIGTERM had ended by itself. */
bool place_end(pid_t pid);

#endif

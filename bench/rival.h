/* Alternatives to lockstockd on the same Redis. Each runs the library function that lockstockd calls (FCALL), or a
 * minimal script with the same answer. */
#ifndef LOCKSTOCK_BENCH_RIVAL_H
#define LOCKSTOCK_BENCH_RIVAL_H

#include "command.h"
#include "scenario.h"

typedef enum rival_kind {
    RIVAL_THREADS,   /* in_flight threads, a synchronous hiredis connection each */
    RIVAL_PIPELINE,  /* one hiredis connection with in_flight commands at once; each reply starts another command */
    RIVAL_CHUNKS,    /* the same, but all are sent, then all replies are read: measures the CPU of Redis */
    RIVAL_BLPOP,     /* lock: SET NX, or BLPOP of a list to which the release pushes, then SET NX again */
    RIVAL_LIST,      /* lock: BLPOP of a list of one element, RPUSH; lost if a holder dies */
    RIVAL_POLLING,   /* lock: SET NX, or sleep 3 to 33 ms and try again */
    RIVAL_BENCHMARK, /* redis-benchmark -P <pipeline> with as many connections as make in_flight */
    RIVAL_GRPC,      /* an asynchronous gRPC C++ service that calls the function, with its client (peer.cc) */
    RIVAL_GRPC_OURS  /* not a rival: the same client calls lockstockd over gRPC */
} rival_kind;

/* The scenarios with which --compare measures a rival: those of the same work, or (ANY) all others. */
typedef enum rival_of { OF_DEDUCT = 1, OF_LOCK = 2, OF_HOT_LOCK = 4, OF_ANY = 8 } rival_of;

typedef struct rival {
    const char *name;
    unsigned of; /* a set of rival_of; 0: only the table */
    rival_kind kind;
    bool script;       /* use the minimal script, without ledger, limits, versions, queues and replays */
    bool locks;        /* Acquire and Release, in turns; else Deduct */
    unsigned subs;     /* sub-calls of one item in an FCALL; 0 means 1 */
    unsigned pipeline; /* for redis-benchmark */
} rival;

extern const rival rivals[];
extern const size_t n_rivals;
const rival *rival_find(const char *name);

/* Returns why a rival cannot run here, or NULL. */
const char *rival_missing(const rival *r, const place *p);

/* Prepares and runs a rival as the options say (external programs always for a time) and measures it. Returns false
 * after printing an error. */
bool rival_run(const rival *r, const bench_options *o, const world *w, measure *m);

/* ---- for its files --------------------------------------------------------------- */

/* The commands of a running rival. */
typedef struct work {
    const rival *rival;
    const bench_options *options;
    const world *world; /* the things that it uses, which must exist */
    char sha[2][48];    /* of the scripts */
    uint64_t slice;     /* times it was prepared, so that no token is used twice */
} work;

/* Loads the library or the scripts, and makes what they use. Returns false after printing an error. */
bool work_prepare(work *w, redisContext *redis);

/* Writes the n-th command, from 0, of a slot. */
void work_command(const work *w, unsigned slot, uint64_t n, command *ret);

/* Writes the command that redis-benchmark repeats, with __rand_int__ for the id. Deduct only. */
void work_repeated(const work *w, command *ret);

/* Returns the number of calls in a command. */
unsigned work_calls(const work *w);

/* Returns false after printing an error reply, or an answer that was not expected: then something else is measured. */
bool work_succeeded(const redisReply *reply);

/* Runs an external program for a time. */
bool outside_run(const work *w, measure *m);

#endif

/* What a user would have instead of lockstockd, on the same Redis. */
#ifndef LOCKSTOCK_BENCH_RIVAL_H
#define LOCKSTOCK_BENCH_RIVAL_H

#include <stdbool.h>

#include "work.h"

typedef enum rival_kind {
    RIVAL_THREADS,   /* in_flight threads, a synchronous hiredis connection each */
    RIVAL_PIPELINE,  /* one hiredis connection with in_flight commands under way: as replies come, as many more */
    RIVAL_CHUNKS,    /* the same, but all are sent, then all are read: for what a command costs Redis */
    RIVAL_BENCHMARK, /* redis-benchmark -P <pipeline> with as many connections as make in_flight */
    RIVAL_GRPC,      /* an asynchronous gRPC C++ service that calls the function, and its client (peer.cc) */
    RIVAL_GRPC_OURS, /* no rival: the same client calls lockstockd over gRPC */
    RIVAL_BLPOP,     /* a lock of threads: SET NX, else BLPOP of a list to which Release pushes, and again */
    RIVAL_LIST,      /* a lock of threads: BLPOP of a list of one element, RPUSH; lost for good when a holder dies */
    RIVAL_POLLING    /* a lock of threads: SET NX, else sleep 3 to 33 ms, and again */
} rival_kind;

/* Which scenarios --compare measures a rival with: those of the same work, or all that have none of their own. */
typedef enum rival_of { OF_TABLE, OF_DEDUCT, OF_LOCK, OF_HOT_LOCK, OF_ANY } rival_of;

typedef struct rival {
    const char *name;
    rival_of of, also_of;
    rival_kind kind;
    unsigned pipeline; /* of redis-benchmark */
    work work;
    unsigned in_flight;
} rival;

/* The only list of them: a row is copied, and gets a world and in_flight. */
extern const rival rivals[];
extern const size_t n_rivals;
const rival *rival_find(const char *name);

/* Prepares, then runs for a while, or so many calls (0: by time; programs of others always by time), and adds to *m.
 * False: printed to standard error. */
bool rival_run(rival *r, const place *p, double warm_up, double seconds, uint64_t calls, measure *m);

/* Why it cannot be run here; NULL: it can. */
const char *rival_missing(const rival *r, const place *p);

#endif

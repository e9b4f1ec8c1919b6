/* Alternatives to lockstockd on the same Redis. */
#ifndef LOCKSTOCK_BENCH_RIVAL_H
#define LOCKSTOCK_BENCH_RIVAL_H

#include <stdbool.h>

#include "work.h"

typedef enum rival_kind {
    RIVAL_THREADS,   /* in_flight threads, a synchronous hiredis connection each */
    RIVAL_PIPELINE,  /* one hiredis connection with in_flight commands at once; each reply starts another command */
    RIVAL_CHUNKS,    /* the same, but all are sent, then all replies are read: measures the CPU of Redis */
    RIVAL_BENCHMARK, /* redis-benchmark -P <pipeline> with as many connections as make in_flight */
    RIVAL_GRPC,      /* an asynchronous gRPC C++ service that calls the function, with its client (peer.cc) */
    RIVAL_GRPC_OURS, /* not a rival: the same client calls lockstockd over gRPC */
    RIVAL_BLPOP,     /* lock: SET NX, or BLPOP of a list to which the release pushes, then SET NX again */
    RIVAL_LIST,      /* lock: BLPOP of a list of one element, RPUSH; lost if a holder dies */
    RIVAL_POLLING    /* lock: SET NX, or sleep 3 to 33 ms and try again */
} rival_kind;

/* The scenarios with which --compare measures a rival: those of the same work, or all that have no rival. */
typedef enum rival_of { OF_TABLE, OF_DEDUCT, OF_LOCK, OF_HOT_LOCK, OF_ANY } rival_of;

typedef struct rival {
    const char *name;
    rival_of of, also_of;
    rival_kind kind;
    unsigned pipeline; /* for redis-benchmark */
    work work;
    unsigned in_flight;
} rival;

/* All rivals. Copy a row and set its world and in_flight. */
extern const rival rivals[];
extern const size_t n_rivals;
const rival *rival_find(const char *name);

#endif

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

typedef struct rival {
    rival_kind kind;
    work work;
    unsigned in_flight;
    unsigned pipeline; /* of redis-benchmark */
} rival;

/* Prepares, then runs for a while, or so many calls (0: by time; programs of others always by time), and adds to *m.
 * False: said on standard error. */
bool rival_run(rival *r, const place *p, double warm_up, double seconds, uint64_t calls, measure *m);

/* Why it cannot be run here; NULL: it can. */
const char *rival_missing(const rival *r, const place *p);

/* ---- one file a kind; run by rival_run --------------------------------------------- */

struct crew;

/* One thread of a rival. */
typedef struct hand {
    struct crew *crew;
    unsigned slot;
    redisContext *redis;
    measure measured;
    bool failed;
} hand;

/* Whether the next call may begin. */
bool hand_goes_on(hand *h);

/* A call ended that began then. */
void hand_record(hand *h, uint64_t began_ns);

const rival *hand_rival(const hand *h);

/* The hand has the one lock now. */
void hand_holds(hand *h);

bool rival_outside(const rival *r, const place *p, double warm_up, double seconds, measure *m);
void rival_blpop(hand *h);
void rival_list(hand *h);
/* One sign in the list, before any hand starts: hands leave at different moments, and none may take the last. */
bool rival_list_prepare(const rival *r, redisContext *redis);
void rival_polling(hand *h);

#endif

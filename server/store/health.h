/* The questions that a shard is asked while its connection lives: each second whether it answers and takes writes, what
 * time it is there, its role and its replicas; every 30 s its settings (safety.h). Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_HEALTH_H
#define LOCKSTOCK_SERVER_STORE_HEALTH_H

#include <stdbool.h>
#include <uv.h>

#include "net/close_barrier.h"
#include "store/connection.h"
#include "store/safety.h"
#include "store/types.h"

typedef enum health_verdict {
    HEALTH_UNKNOWN, /* an answer is missing */
    HEALTH_REPLICA, /* it is no primary: the connection is of no use */
    HEALTH_BAD,     /* calls must not use it now */
    HEALTH_REFUSES, /* it is good, but refuses every write */
    HEALTH_GOOD     /* the fault, if any: it refuses some writes */
} health_verdict;

/* What INFO or ROLE says of replication. */
typedef struct replication {
    bool known;        /* false: not told */
    bool primary;      /* else a replica */
    unsigned replicas; /* of a primary: connected ones */
    store_replica replica[STORE_REPLICAS_MAX];
} replication;

/* Embedded in a shard. */
typedef struct health {
    const store_options *store; /* from here to arg: set by the owner, whose they stay */
    const char *address;        /* for the log */
    const char *base;           /* of keys that the shard has */
    bool fails_over;            /* another Redis may take its place */
    void (*on_change)(void *arg);
    void *arg;

    connection *connection; /* from here on health.c's own; NULL: stopped */
    safety safety;          /* as of the last answer */
    bool asks_safety;
    replication replication; /* as of the last answer on this connection; and what it uses */
    store_use use;
    bool asks_role, knows_role;
    bool by_role;             /* INFO is not permitted */
    char lack[96];            /* of replicas, for people */
    unsigned logged_replicas; /* what the log said last: connected replicas, */
    bool logged_lag;          /* that one lags, */
    bool logged_may_lose;     /* and that a failover may lose answers */

    bool answered;                    /* the probe, on this connection; each of the following is of the last answer */
    bool silent;                      /* no reply of any kind came for too long */
    const struct errors_row *refusal; /* why Redis refuses writes; NULL: it takes them; static */
    int64_t round_trip_us;            /* 0: not known */
    int64_t clock_ms;                 /* its clock, milliseconds since 1970, ... */
    uint64_t clock_ns;                /* ... and CLOCK_MONOTONIC at that moment; clock_ms 0: not known */
    uint64_t asked_ns;
    bool asks_probe;
    unsigned looks;   /* since the last reply */
    uint64_t replies; /* of the connection, at the last look */
    unsigned ticks;
    uv_timer_t tick, safety_check;
} health;

/* Fills in what health.c owns. */
void health_init(health *health);

/* A connection that was greeted. `found` is what the greeting found. Asks everything else at once. */
void health_start(health *health, connection *connection, const safety *found);

/* The connection must not be used any more. */
void health_stop(health *health);

/* The shard has another address: its replicas are others. */
void health_moved(health *health);

/* What the answers say. *fault: why it is not good; valid until the next change. */
health_verdict health_check(const health *health, store_fault *fault);

/* Adds what is known to the view and to the primary. */
void health_look(const health *health, store_view *ret);
void health_look_primary(const health *health, store_primary *ret);

/* Stops, and closes its handles. */
void health_close(health *health, close_barrier *barrier);

#endif

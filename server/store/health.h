/* Questions to a shard while it is connected: every second whether it answers and takes writes, its clock, its role and
 * its replicas; every 30 s its settings (safety.h). Loop thread only. */
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
    HEALTH_REPLICA, /* not a primary: the connection cannot be used */
    HEALTH_BAD,     /* calls must not use it now */
    HEALTH_REFUSES, /* good, but it refuses every write */
    HEALTH_GOOD     /* with a fault: it refuses some writes */
} health_verdict;

/* Replication, as INFO or ROLE describes it. */
typedef struct replication {
    enum { ROLE_UNKNOWN, ROLE_PRIMARY, ROLE_REPLICA } role; /* UNKNOWN: no answer yet, or not understood */
    unsigned replicas;                                      /* connected replicas of a primary */
    store_replica replica[STORE_REPLICAS_MAX];
} replication;

/* UNANSWERED --an answer--> ANSWERS; each --no reply of any kind for too long--> SILENT --an answer--> ANSWERS;
 * each --health_stop--> UNANSWERED */
typedef enum health_probe { PROBE_UNANSWERED, PROBE_ANSWERS, PROBE_SILENT } health_probe;

/* Embedded in a shard. */
typedef struct health {
    const store_options *store; /* from here to arg: set and kept by the owner */
    const char *address;        /* for the log */
    const char *base;           /* base of keys that the shard has */
    bool fails_over;            /* another Redis may take its place */
    void (*on_change)(void *arg);
    void *arg;

    connection *connection; /* private to health.c from here on; NULL: stopped */
    safety safety;          /* as of the last answer */
    bool asks_safety;
    replication replication; /* as of the last answer on this connection, with `use` */
    store_use use;
    bool asks_role, knows_role;
    bool by_role;             /* INFO is not permitted */
    char lack[96];            /* lack of replicas, for people; "": none */
    unsigned logged_replicas; /* last logged: the number of connected replicas, */
    bool logged_lag;          /* whether one lags, */
    bool logged_may_lose;     /* and whether a failover may lose answers */

    health_probe probe;               /* on this connection; the next members are from its last answer */
    const struct errors_row *refusal; /* why Redis refuses writes; NULL: it accepts them; static */
    int64_t round_trip_us;            /* 0: not known */
    int64_t clock_ms;                 /* its clock, milliseconds since 1970; 0: not known */
    uint64_t clock_ns;                /* CLOCK_MONOTONIC at the moment of clock_ms */
    uint64_t asked_ns;
    bool asks_probe;
    unsigned looks;   /* since the last reply */
    uint64_t replies; /* number of replies on the connection at the last look */
    unsigned ticks;
    uv_timer_t tick, safety_check;
} health;

/* Initializes the members of health.c. */
void health_init(health *health);

/* Starts with a greeted connection. `found`: the settings that the greeting found. Asks everything else at once. */
void health_start(health *health, connection *connection, const safety *found);

/* Stops: the connection must not be used any more. */
void health_stop(health *health);

/* The shard has a new address, with other replicas. */
void health_moved(health *health);

/* Returns the verdict from the answers. *fault: why it is not good; valid until the next change. */
health_verdict health_check(const health *health, store_fault *fault);

/* Add the known state to the view and to the primary. */
void health_describe(const health *health, store_view *ret);
void health_describe_primary(const health *health, store_primary *ret);

/* Stops, and closes its handles. */
void health_close(health *health, close_barrier *barrier);

#endif

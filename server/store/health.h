/* The questions that a shard is asked while its connection lives: twice a second whether it answers and takes writes
 * (probe.h), each second for its role and its replicas (replication.h), every 30 s for its settings (safety.h). Loop
 * thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_HEALTH_H
#define LOCKSTOCK_SERVER_STORE_HEALTH_H

#include <stdbool.h>
#include <uv.h>

#include "store/connection.h"
#include "store/probe.h"
#include "store/replication.h"
#include "store/safety.h"
#include "store/store.h"

typedef enum health_verdict {
    HEALTH_UNKNOWN, /* an answer is missing */
    HEALTH_REPLICA, /* it is no primary: the connection is of no use */
    HEALTH_BAD,     /* calls must not use it now */
    HEALTH_REFUSES, /* it is good, but refuses every write */
    HEALTH_GOOD     /* the fault, if any: it refuses some writes */
} health_verdict;

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
    replication replication; /* as of the last answer on this connection */
    bool asks_role, knows_role;
    bool by_role;  /* INFO is not permitted */
    char lack[96]; /* of replicas, for people */
    replication_told told;
    bool may_lose; /* in the log */
    probe probe;
    unsigned ticks;
    uv_timer_t tick, safety_check;
} health;

enum { HEALTH_HANDLES = 2 };

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

/* Closes the HEALTH_HANDLES handles; `closed` runs for each, with handle->data `arg`. */
void health_close(health *health, uv_close_cb closed, void *arg);

#endif

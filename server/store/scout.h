/* Asks nodes of a Redis Cluster which shard has which slots, on a separate connection. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_SCOUT_H
#define LOCKSTOCK_SERVER_STORE_SCOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/greeting.h"
#include "store/slots.h"
#include "store/url.h"

struct close_barrier;

typedef struct scout scout;

typedef struct scout_options {
    struct uv_loop_s *loop;
    const url *url; /* its hosts; this and the next two must outlive the scout */
    const login *as;
    const struct secrets_tls *tls;
    uint32_t connect_timeout_ms;
    /* An answer; valid until it returns. */
    void (*on_map)(void *arg, const slots_map *map);
    /* The node is not in a cluster, or its version does not fit; on_lost follows. */
    void (*on_misfit)(void *arg, store_fault fault);
    /* The connection was lost, or could not be made. */
    void (*on_lost)(void *arg, store_fault fault);
    void *arg;
} scout_options;

/* Connects to the first host and asks it; reconnects until scout_close. Calls nothing back before it returns. */
scout *scout_open(const scout_options *options);

/* Asks the node again, unless an answer is due. With `elsewhere`, or without a connection, connects to another node
 * and asks that. */
void scout_look(scout *scout, bool elsewhere);

/* `within` counts it until it has closed. */
void scout_close(scout *scout, struct close_barrier *within);

#endif

/* The shards of a store, and the slots that each has. A single Redis, with or without Sentinel, is one shard that has
 * all slots; in Redis Cluster each primary is a shard. The addresses of the shards come from the URL, from sentinels
 * (sentinels.h), or from the nodes of the cluster (scout.h). Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_TOPOLOGY_H
#define LOCKSTOCK_SERVER_STORE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/secrets.h"
#include "store/types.h"
#include "store/url.h"

typedef struct topology topology;

/* Everything pointed to must outlive the topology. Callbacks run on the loop. */
typedef struct topology_options {
    const store_options *store; /* its on_wake and on_listening are called as store.h specifies */
    const url *url;
    const secrets *secrets;
    const char *socket, *socket_shown; /* of an embedded redis-server, and its name for people; NULL: use the URL */
    /* As in store_options. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    /* The data, design or version of a shard does not fit, and no call was served yet; on_ready(false) follows at
     * once. */
    void (*on_fatal)(void *arg, store_fault fault);
    /* A connection of a shard was lost or could not be made. */
    void (*on_lost)(void *arg);
    void *arg;
} topology_options;

/* Connects in the background, and follows slots and primaries until topology_close. Calls nothing back before it
 * returns. */
topology *topology_open(const topology_options *options);

/* Like those of store.h. */
void topology_submit(topology *topology, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);
bool topology_part_from(const topology *topology, uint32_t from, store_part *ret);
bool topology_describe_primary(const topology *topology, size_t i, store_primary *ret);

/* Like store_describe, without the members that only the store knows. Ready: at least one shard serves; then the
 * fault is that of another one, if any. */
void topology_describe(const topology *topology, store_view *ret);

/* Sets why the only shard cannot be reached; ignored while it is connected. */
void topology_explain(topology *topology, store_fault fault);

/* Calls shard_reauth for each shard. */
void topology_reauth(topology *topology);

/* Ends calls under way with UNAVAILABLE, after this has returned; `closed` runs on the loop, last. */
void topology_close(topology *topology, void (*closed)(void *arg), void *arg);

#endif

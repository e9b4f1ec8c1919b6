/* The shards of a store, and which of them has which slots. A single Redis, behind Sentinel or not, is one shard that
 * has all slots; of Redis Cluster each primary is a shard. Where the shards are is said by the URL, by sentinels
 * (sentinels.h), or by the nodes of the cluster (scout.h). Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_TOPOLOGY_H
#define LOCKSTOCK_SERVER_STORE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/secrets.h"
#include "store/types.h"
#include "store/url.h"

typedef struct topology topology;

/* What is pointed to outlives the topology. Callbacks run on the loop. */
typedef struct topology_options {
    const store_options *store; /* its on_wake and on_listening are called as store.h says */
    const url *url;
    const secrets *secrets;
    const char *socket, *socket_shown; /* of an embedded redis-server, and its name for people; NULL: as the URL says */
    /* As in store_options. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    /* The data, design or version of a shard does not fit, and no call was served yet; on_ready tells false right after
     * it. */
    void (*on_fatal)(void *arg, store_fault fault);
    /* A connection of a shard was lost or could not be made. */
    void (*on_lost)(void *arg);
    void *arg;
} topology_options;

/* Connects in the background, and follows slots and primaries until topology_close. Calls nothing back before it
 * returns. */
topology *topology_open(const topology_options *options);

/* As in store.h. Ready: at least one shard serves; then *reason says what is wrong with others, NULL = nothing. */
void topology_submit(topology *topology, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);
bool topology_part_from(const topology *topology, uint32_t from, store_part *ret);
bool topology_ready(const topology *topology, const char **reason);
bool topology_look_primary(const topology *topology, size_t i, store_primary *ret);

/* As store_look, but for what only the store knows. */
void topology_look(const topology *topology, store_view *ret);

/* Why the only shard cannot be reached, as the caller knows; ignored while it is connected. */
void topology_explain(topology *topology, store_fault fault);

/* As shard_reauth, of each shard. */
void topology_reauth(topology *topology);

/* Ends calls under way with UNAVAILABLE, not before it returns; `closed` runs on the loop, last. */
void topology_close(topology *topology, void (*closed)(void *arg), void *arg);

#endif

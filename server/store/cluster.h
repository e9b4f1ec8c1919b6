/* Redis Cluster: a node object a primary, each call to the one that serves its group's slot. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_CLUSTER_H
#define LOCKSTOCK_SERVER_STORE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/login.h"
#include "store/store.h"
#include "store/url.h"

typedef struct cluster cluster;

typedef struct cluster_options {
    const store_options
        *store;      /* outlives the cluster; its on_ready, on_wake and on_listening are called as there stands */
    const url *url;  /* the same; its hosts */
    const login *as; /* the same */
    const struct secrets_tls *tls;
    /* The data, design or version of a node does not fit, and no call was served yet; on_ready tells false right after
     * it. */
    void (*on_fatal)(void *arg, store_fault fault);
    void *arg;
} cluster_options;

/* Connects in the background, and follows slots and primaries until cluster_close. Calls nothing back before it
 * returns. */
cluster *cluster_open(const cluster_options *options);

/* As in store.h. Ready: at least one primary serves; then *reason tells what is wrong with others, NULL = nothing. */
void cluster_submit(cluster *cluster, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);
bool cluster_part_from(const cluster *cluster, uint32_t from, store_part *ret);
bool cluster_ready(const cluster *cluster, const char **reason);
void cluster_look(const cluster *cluster, store_view *ret);

/* As store_look_primary. */
bool cluster_look_primary(const cluster *cluster, size_t i, store_primary *ret);

/* As node_reauth, of each node. */
void cluster_reauth(cluster *cluster);

/* Ends calls under way with UNAVAILABLE, not before it returns; `closed` runs on the loop, last. */
void cluster_close(cluster *cluster, void (*closed)(void *arg), void *arg);

#endif

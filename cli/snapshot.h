/* What `watch` shows: servers, locks and items as they were at one moment. */
#ifndef LOCKSTOCK_CLI_SNAPSHOT_H
#define LOCKSTOCK_CLI_SNAPSHOT_H

#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "probe.h"

enum { SNAPSHOT_ROWS_MAX = 100, SNAPSHOT_SERVERS_MAX = 64 };

typedef struct snapshot_server {
    const char *url;
    lks_channel *channel; /* to it alone */
    probe server, store;
} snapshot_server;

typedef struct snapshot_lock {
    const char *group, *name;
    lks_lock_mode mode;
    int64_t holders, waiters, lease_ms;
} snapshot_lock;

typedef struct snapshot_item {
    const char *group, *sku;
    int64_t available, reserved, sold;
    lks_item_state state;
} snapshot_item;

typedef struct snapshot {
    const char *prefix;   /* of names and skus; "" = all */
    bool (*stops)(void);  /* asked between calls: true = the rest does not matter */
    lks_channel *channel; /* to all servers: the first that can be reached */
    snapshot_server servers[SNAPSHOT_SERVERS_MAX];
    size_t n_servers;

    /* As of the last look: those with the most waiters first; the first SNAPSHOT_ROWS_MAX that there are. */
    lks_rpc_arena *arena;
    snapshot_lock locks[SNAPSHOT_ROWS_MAX];
    size_t n_locks;
    snapshot_item items[SNAPSHOT_ROWS_MAX];
    size_t n_items;
    bool more_locks, more_items;
    int64_t at_ms;                      /* since 1970 */
    lks_error locks_error, items_error; /* code LKS_OK: they were told */
} snapshot;

/* Opens its channels. c stays the caller's. Any code but EXIT_DONE: said. snapshot_close in any case. */
exit_code snapshot_open(snapshot *s, const cli *c);
void snapshot_close(snapshot *s);

/* Looks at everything again. False: it was told to stop. */
bool snapshot_take(snapshot *s);

#endif

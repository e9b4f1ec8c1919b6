/* What `lockstock watch` shows: servers, locks and items at one time. */
#ifndef LOCKSTOCK_CLI_SNAPSHOT_H
#define LOCKSTOCK_CLI_SNAPSHOT_H

#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "probe.h"

enum { SNAPSHOT_ROWS_MAX = 100, SNAPSHOT_SERVERS_MAX = 64 };

typedef struct snapshot_server {
    const char *url;
    lks_channel *channel; /* to this server only */
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
    const char *prefix;   /* of names and skus; "": all */
    bool (*stops)(void);  /* checked between calls; true: skip the rest */
    lks_channel *channel; /* to the first server that can be reached */
    snapshot_server servers[SNAPSHOT_SERVERS_MAX];
    size_t n_servers;

    /* From the last snapshot_take: the first SNAPSHOT_ROWS_MAX locks and items; locks are sorted by waiters. */
    lks_rpc_arena *arena;
    snapshot_lock locks[SNAPSHOT_ROWS_MAX];
    size_t n_locks;
    snapshot_item items[SNAPSHOT_ROWS_MAX];
    size_t n_items;
    bool more_locks, more_items;
    int64_t at_ms;                      /* since 1970 */
    lks_error locks_error, items_error; /* code LKS_OK: the list was read */
} snapshot;

/* Opens the channels. Prints an error unless it returns EXIT_DONE. Call snapshot_close in any case. */
exit_code snapshot_open(snapshot *s, const cli *c);
void snapshot_close(snapshot *s);

/* Reads everything again. Returns false if `stops` returned true. */
bool snapshot_take(snapshot *s);

#endif

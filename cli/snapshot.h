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

typedef struct snapshot {
    const char *prefix;   /* of names and skus; "": all */
    lks_channel *channel; /* to the first server that can be reached */
    snapshot_server servers[SNAPSHOT_SERVERS_MAX];
    size_t n_servers;

    /* From the last snapshot_take: the first SNAPSHOT_ROWS_MAX locks, sorted by waiters, and items, by name. A list is
     * NULL if its error is not LKS_OK, or if screen_is_over. */
    lks_rpc_arena *arena;
    lks_list_response *locks;
    lks_list_items_response *items;
    bool more_locks, more_items;
    int64_t at_ms; /* since 1970 */
    lks_error locks_error, items_error;
} snapshot;

/* Opens the channels. Prints an error unless it returns EXIT_DONE. Call snapshot_close in any case. */
exit_code snapshot_open(snapshot *s, const cli *c);
void snapshot_close(snapshot *s);

/* Reads everything again. Returns false if screen_is_over, which it checks between calls: it skips the rest then. */
bool snapshot_take(snapshot *s);

#endif

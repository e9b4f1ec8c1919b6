/* MAKING --> REGISTERING --> LISTING --> READING_FLOOR --> WATCHING --> DONE
 *   each --new session, or after AGAIN_MS a permanent error--> MAKING
 *   each --connection lost--> the same step, when connected again */
#include "quorum/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "log.h"
#include "memory.h"
#include "quorum/paths.h"
#include "quorum/quorum_parts.h"

enum { PATH_BYTES = 128, MADE = SHARDS + 4, AGAIN_MS = 1000 };

typedef enum step { MAKING, REGISTERING, REPLACING, LISTING, READING_FLOOR, WATCHING, DONE } step;

typedef struct live_server {
    UT_hash_handle hh;
    char id[];
} live_server;

struct nodes {
    quorum *quorum;
    step step;
    bool is_pending, was_done;
    struct timer retry;
    char own[PATH_BYTES];
    live_server *servers; /* uthash */
    bool is_listed;       /* `servers` are the live servers: no known change is unread */
    int64_t floor_us;
    int32_t floor_version;
    int32_t forced_version;
};

static void run_step(nodes *n);

static void set_step(nodes *n, step to)
{
    n->step = to;
    n->was_done = n->was_done || to == DONE;
    if (to == DONE)
        quorum_set_state(n->quorum, QUORUM_READY, (store_fault){0});
    else
        run_step(n);
}

/* Reads again what may have changed. */
static void read_again(nodes *n)
{
    quorum_set_state(n->quorum, QUORUM_PREPARING, STORE_FAULT(STORE_LOADING, "lockstockd is preparing the lock store"));
    set_step(n, n->step > LISTING ? LISTING : n->step);
}

static void on_retry(struct timer *timer)
{
    nodes *n = container_of(timer, nodes, retry);

    if (n->quorum->state == QUORUM_PREPARING)
        run_step(n);
    else if (n->quorum->state == QUORUM_READY)
        read_again(n);
}

nodes *nodes_new(quorum *q)
{
    nodes *n = memory_alloc(sizeof *n);

    n->quorum = q;
    n->retry.due = on_retry;
    snprintf(n->own, sizeof n->own, NODES_SERVERS "/%s", q->options.server);
    return n;
}

static void forget_servers(nodes *n)
{
    live_server *s, *next;

    HASH_ITER(hh, n->servers, s, next)
    {
        HASH_DELETE(hh, n->servers, s);
        free(s);
    }
}

void nodes_free(nodes *n)
{
    forget_servers(n);
    free(n);
}

/* Starts all steps again after AGAIN_MS. */
static void fail(nodes *n, store_fault fault)
{
    n->step = MAKING;
    quorum_set_state(n->quorum, QUORUM_PREPARING, fault);
    loop_timers_set(&n->quorum->timers, &n->retry, clock_in_ms(AGAIN_MS));
}

static const store_fault removed =
    STORE_FAULT(STORE_MISFIT, "the path of the lock store, or a node that lockstockd made there, is gone");

/* Returns false if there is no answer to use: the step is tried again after AGAIN_MS, or with the next connection. */
static bool has_answer(nodes *n, zk_code code)
{
    n->is_pending = false;
    if (n->quorum->state == QUORUM_CLOSED)
        return false;
    if (quorum_refusal(code))
        fail(n, *quorum_refusal(code));
    else if (code == ZK_NOT_SENT || code == ZK_UNKNOWN)
        loop_timers_set(&n->quorum->timers, &n->retry, clock_in_ms(AGAIN_MS));
    else
        return true;
    return false;
}

/* The same for a node that must exist. */
static bool was_read(nodes *n, zk_code code)
{
    if (!has_answer(n, code))
        return false;
    if (code != ZK_OK)
        fail(n, removed);
    return code == ZK_OK;
}

/* ---- the steps ------------------------------------------------------------------------- */

static void on_created(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    nodes *n = arg;

    (void)failed;
    (void)versions;
    if (!has_answer(n, code))
        return;
    if (code == ZK_OK && n->was_done)
        log_error("lock-store-lost-data", "%s",
                  "reason=\"the path of the lock store was removed: all locks are gone\"");
    set_step(n, REGISTERING); /* also if another server has created them */
}

static void create_nodes(nodes *n)
{
    static const char *const names[] = {NODES_GROUPS, NODES_SERVERS, NODES_FLOOR, NODES_FORCED};
    zk_op ops[MADE];
    char shards[SHARDS][SHARD_PATH_BYTES];

    for (size_t i = 0; i < MADE - SHARDS; i++)
        ops[i] = (zk_op){.kind = ZK_CREATE, .path = names[i], .data = lks_rpc_slice_of("0")};
    for (unsigned i = 0; i < SHARDS; i++) {
        paths_of_shard(i, shards[i]);
        ops[MADE - SHARDS + i] = (zk_op){.kind = ZK_CREATE, .path = shards[i], .data = lks_rpc_slice_of("")};
    }
    zk_multi(n->quorum->zookeeper, ops, MADE, on_created, n);
}

static void on_registered(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    nodes *n = arg;

    (void)failed;
    (void)versions;
    if (!has_answer(n, code))
        return;
    if (code == ZK_NO_NODE && n->step == REGISTERING)
        fail(n, removed);
    else
        set_step(n, code == ZK_OK ? LISTING : n->step == REGISTERING ? REPLACING : REGISTERING);
}

/* The node of this server's previous session may still exist. REPLACING deletes it first. */
static void register_server(nodes *n)
{
    const zk_op ops[] = {{.kind = ZK_DELETE, .path = n->own, .version = -1},
                         {.kind = ZK_CREATE_EPHEMERAL, .path = n->own, .data = lks_rpc_slice_of("")}};
    const size_t first = n->step == REPLACING ? 0 : 1;

    zk_multi(n->quorum->zookeeper, ops + first, 2 - first, on_registered, n);
}

static void take_servers(nodes *n, const char *const *names, size_t count)
{
    forget_servers(n);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(names[i]);
        live_server *s = memory_alloc(sizeof *s + len + 1);
        memcpy(s->id, names[i], len);
        HASH_ADD_KEYPTR(hh, n->servers, s->id, len, s);
    }
}

static void on_listed(void *arg, zk_code code, const char *const *names, size_t count)
{
    nodes *n = arg;

    if (!was_read(n, code))
        return;
    take_servers(n, names, count);
    n->is_listed = true;
    if (n->step == LISTING)
        set_step(n, READING_FLOOR);
    else
        quorum_run_later(n->quorum);
}

static void on_floor(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    nodes *n = arg;
    char text[32];

    if (!was_read(n, code))
        return;
    snprintf(text, sizeof text, "%.*s", (int)len, data);
    n->floor_us = strtoll(text, NULL, 10);
    n->floor_version = version;
    if (n->step == READING_FLOOR)
        set_step(n, WATCHING);
}

static void on_forced(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    nodes *n = arg;
    const quorum_options *options = &n->quorum->options;
    char text[512];

    if (!was_read(n, code) || version == n->forced_version)
        return;
    const bool several = version > n->forced_version + 1;
    n->forced_version = version;
    if (several) {
        options->on_listening(options->arg);
        return;
    }
    const int text_len = snprintf(text, sizeof text, "W ls:{%.*s/forced}:forced", (int)len, data);
    options->on_wake(options->arg, text, (size_t)text_len);
}

static void on_forced_watched(void *arg, zk_code code, int32_t version)
{
    nodes *n = arg;

    if (!was_read(n, code))
        return;
    if (n->step == WATCHING) {
        n->forced_version = version;
        set_step(n, DONE);
    } else {
        zk_get(n->quorum->zookeeper, NODES_FORCED, on_forced, n);
    }
}

static void run_step(nodes *n)
{
    zookeeper *z = n->quorum->zookeeper;

    if (n->is_pending || n->step == DONE)
        return;
    n->is_pending = true;
    switch (n->step) {
    case MAKING:
        create_nodes(n);
        break;
    case REGISTERING:
    case REPLACING:
        register_server(n);
        break;
    case LISTING:
        zk_children(z, NODES_SERVERS, true, on_listed, n);
        break;
    case READING_FLOOR:
        zk_get(z, NODES_FLOOR, on_floor, n);
        break;
    default:
        zk_watch(z, NODES_FORCED, on_forced_watched, n);
    }
}

void nodes_session(nodes *n)
{
    n->step = MAKING;
}

void nodes_connected(nodes *n)
{
    heap_clear(&n->quorum->timers.heap, &n->retry);
    read_again(n);
}

/* ---- when DONE ------------------------------------------------------------------------- */

bool nodes_watch_fired(nodes *n, const char *path)
{
    if (strcmp(path, NODES_SERVERS) == 0) {
        n->is_listed = false;
        zk_children(n->quorum->zookeeper, NODES_SERVERS, true, on_listed, n);
        return true;
    }
    if (strcmp(path, NODES_FORCED) == 0) {
        zk_watch(n->quorum->zookeeper, NODES_FORCED, on_forced_watched, n);
        return true;
    }
    return false;
}

bool nodes_server_is_alive(const nodes *n, lks_rpc_slice server)
{
    live_server *s;

    HASH_FIND(hh, n->servers, server.data, server.len, s);
    return s != NULL;
}

bool nodes_are_listed(const nodes *n)
{
    return n->is_listed;
}

bool nodes_sweeps(const nodes *n)
{
    const char *own = n->quorum->options.server;

    for (const live_server *s = n->servers; s; s = s->hh.next)
        if (strcmp(s->id, own) < 0)
            return false;
    return n->step == DONE && nodes_server_is_alive(n, lks_rpc_slice_of(own));
}

int64_t nodes_floor_us(const nodes *n)
{
    return n->floor_us;
}

int32_t nodes_floor_version(const nodes *n)
{
    return n->floor_version;
}

void nodes_read_floor(nodes *n)
{
    zk_sync_get(n->quorum->zookeeper, NODES_FLOOR, on_floor, n);
}

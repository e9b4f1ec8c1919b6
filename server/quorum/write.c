/* Groups that are written in one turn of the loop share a request, which the ensemble applies as a whole or not at all.
 * When one of them has changed meanwhile, it is read again, and the others are sent again. */
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "quorum/nodes.h"
#include "quorum/quorum_parts.h"

enum {
    GROUPS_MAX = 64,
    OPS_OF_GROUP = 3,
    BYTES_MAX = 256 * 1024, /* then no group more: the last one may have 700 KB, and ZooKeeper takes 1 MiB */
    WRITES_MAX = 8          /* under way */
};

typedef struct group_write {
    quorum *quorum;
    size_t n_groups, n_ops, bytes;
    group *groups[GROUPS_MAX];
    size_t last_op[GROUPS_MAX]; /* of each group */
    zk_op ops[GROUPS_MAX * OPS_OF_GROUP];
} group_write;

static void add_op(group_write *w, zk_op op)
{
    w->ops[w->n_ops++] = op;
}

/* The namespace of "ls:{namespace/group}:". */
static lks_rpc_slice namespace_of(const group *g)
{
    const char *ns = g->base + sizeof "ls:{" - 1;

    return (lks_rpc_slice){ns, strcspn(ns, "/}")};
}

static void add_ops(group_write *w, const group *g)
{
    const nodes *n = g->quorum->nodes;

    if (g->data.data && g->version >= 0) {
        add_op(w, (zk_op){.kind = ZK_SET, .path = g->path, .data = g->data, .version = g->version});
    } else if (g->data.data) {
        add_op(w, (zk_op){.kind = ZK_CHECK, .path = NODES_FLOOR, .version = nodes_floor_version(n)});
        add_op(w, (zk_op){.kind = ZK_CREATE, .path = g->path, .data = g->data});
    } else if (g->version >= 0) {
        add_op(w, (zk_op){.kind = ZK_CHECK, .path = g->path, .version = g->version});
    } else { /* there is no check that a node is missing */
        add_op(w, (zk_op){.kind = ZK_CREATE, .path = g->path, .data = {.data = ""}});
        add_op(w, (zk_op){.kind = ZK_DELETE, .path = g->path, .version = -1});
    }
    if (g->forces)
        add_op(w, (zk_op){.kind = ZK_SET, .path = NODES_FORCED, .data = namespace_of(g), .version = -1});
}

static const store_fault refused =
    STORE_FAULT(STORE_MISFIT, "the lock store refuses the write: the ensemble is read-only, or the path has a quota");
static const store_fault denied = STORE_FAULT(STORE_PERMISSION_DENIED, "the lock store denies access to its nodes");

/* The write of one group failed for itself. */
static void fail_group(group *g, zk_code code, bool floor_changed)
{
    if (code == ZK_NO_AUTH || code == ZK_REFUSED) {
        group_refuse(g, code == ZK_NO_AUTH ? denied : refused);
        return;
    }
    if (floor_changed)
        nodes_read_floor(g->quorum->nodes);
    group_not_written(g, false);
}

static size_t first_op(const group_write *w, size_t i)
{
    return i == 0 ? 0 : w->last_op[i - 1] + 1;
}

static bool is_of_one_group(zk_code code)
{
    return code == ZK_BAD_VERSION || code == ZK_NODE_EXISTS || code == ZK_NO_NODE || code == ZK_NO_AUTH ||
           code == ZK_REFUSED;
}

static void on_written(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    group_write *w = arg;
    quorum *q = w->quorum;

    q->n_writes--;
    if (code != ZK_OK)
        write_flush(q); /* there is room then for all of these again */
    for (size_t i = 0; i < w->n_groups; i++) {
        group *g = w->groups[i];
        const size_t at = w->last_op[i] - (g->forces ? 1 : 0);
        if (code == ZK_OK)
            group_written(g, g->version >= 0 ? versions[at] : 0);
        else if (!is_of_one_group(code))
            group_not_written(g, code == ZK_UNKNOWN);
        else if (failed >= first_op(w, i) && failed <= w->last_op[i])
            fail_group(g, code, code == ZK_BAD_VERSION && w->ops[failed].path != g->path);
        else
            write_add(g);
        g->asked--;
    }
    free(w);
    write_flush(q);
}

void write_flush(quorum *q)
{
    group_write *w = q->filling;

    if (!w || q->n_writes >= WRITES_MAX)
        return;
    q->filling = NULL;
    q->n_writes++;
    for (size_t i = 0; i < w->n_groups; i++) {
        add_ops(w, w->groups[i]);
        w->last_op[i] = w->n_ops - 1;
    }
    zk_multi(q->zookeeper, w->ops, w->n_ops, on_written, w);
}

void write_add(group *g)
{
    quorum *q = g->quorum;
    group_write *w = q->filling;

    if (!w) {
        w = q->filling = memory_alloc(sizeof *w);
        w->quorum = q;
    }
    g->asked++;
    w->groups[w->n_groups++] = g;
    w->bytes += g->data.len;
}

bool write_has_room(const quorum *q)
{
    const group_write *w = q->filling;

    return !w || (w->n_groups < GROUPS_MAX && w->bytes < BYTES_MAX);
}

void write_drop(quorum *q)
{
    free(q->filling);
    q->filling = NULL;
}

/* The groups written in one turn of the loop share a request, which the ensemble applies as a whole or not at all. If
 * one of the groups has changed, it is read again, and the others are sent again.
 *
 * Invariant: a group is replaced only if its node is the one that was read. The version alone does not show this: a
 * node that was deleted and created again begins with version 0. So the request first checks that the floor, which is
 * raised with each deletion, is the same as when the groups were read. */
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "quorum/nodes.h"
#include "quorum/paths.h"
#include "quorum/quorum_parts.h"

enum {
    GROUPS_MAX = 64,
    OPS_OF_GROUP = 3,
    OPS_BEFORE = 1,         /* the check of the floor */
    BYTES_MAX = 256 * 1024, /* at this size no group is added: the last may have 700 KB, and ZooKeeper takes 1 MiB */
    WRITES_MAX = 8          /* pending at once */
};

typedef struct group_write {
    quorum *quorum;
    size_t n_groups, n_ops, bytes;
    group *groups[GROUPS_MAX];
    size_t last_op[GROUPS_MAX]; /* of each group */
    zk_op ops[OPS_BEFORE + GROUPS_MAX * OPS_OF_GROUP];
} group_write;

static void add_op(group_write *w, zk_op op)
{
    w->ops[w->n_ops++] = op;
}

static void add_ops(group_write *w, const group *g)
{
    if (g->data.data && g->version >= 0) {
        add_op(w, (zk_op){.kind = ZK_SET, .path = g->path, .data = g->data, .version = g->version});
    } else if (g->data.data) {
        add_op(w, (zk_op){.kind = ZK_CREATE, .path = g->path, .data = g->data});
    } else if (g->version >= 0) {
        add_op(w, (zk_op){.kind = ZK_CHECK, .path = g->path, .version = g->version});
    } else { /* ZooKeeper has no check that a node is missing */
        add_op(w, (zk_op){.kind = ZK_CREATE, .path = g->path, .data = {.data = ""}});
        add_op(w, (zk_op){.kind = ZK_DELETE, .path = g->path, .version = -1});
    }
    if (g->removes_holders)
        add_op(w, (zk_op){.kind = ZK_SET, .path = NODES_FORCED, .data = paths_namespace(group_base(g)), .version = -1});
}

/* Another server has changed the group. */
static void on_conflict(group *g)
{
    g->quorum->counts.conflicts++;
    group_not_written(g, false);
}

/* The ops of this group failed. */
static void fail_group(group *g, zk_code code)
{
    if (quorum_refusal(code))
        group_refuse(g, *quorum_refusal(code));
    else
        on_conflict(g);
}

/* Whether the failed op is one of group i. If the whole request was refused, the first group counts as at fault. */
static bool is_at_fault(const group_write *w, size_t i, size_t failed)
{
    return failed <= w->last_op[i] && (i == 0 || failed > w->last_op[i - 1]);
}

static bool is_of_one_group(zk_code code)
{
    return code == ZK_BAD_VERSION || code == ZK_NODE_EXISTS || code == ZK_NO_NODE || quorum_refusal(code);
}

/* Whether groups were deleted since the oldest of these was read. */
static bool is_floor_raised(zk_code code, size_t failed)
{
    return failed < OPS_BEFORE && (code == ZK_BAD_VERSION || code == ZK_NO_NODE);
}

static void on_written(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    group_write *w = arg;
    quorum *q = w->quorum;

    const bool floor_raised = is_floor_raised(code, failed);

    q->n_writes--;
    q->counts.unknown += code == ZK_UNKNOWN ? w->n_groups : 0;
    if (code != ZK_OK)
        write_flush(q); /* makes room for all of these groups */
    if (floor_raised)
        nodes_read_floor(q->nodes);
    for (size_t i = 0; i < w->n_groups; i++) {
        group *g = w->groups[i];
        const size_t at = w->last_op[i] - (g->removes_holders ? 1 : 0);
        if (code == ZK_OK)
            group_written(g, g->version >= 0 ? versions[at] : 0);
        else if (floor_raised)
            on_conflict(g);
        else if (!is_of_one_group(code))
            group_not_written(g, code == ZK_UNKNOWN);
        else if (is_at_fault(w, i, failed))
            fail_group(g, code);
        else
            write_add(g);
        g->refs--;
    }
    free(w);
    write_flush(q);
    quorum_run_later(q);
}

static int32_t oldest_floor(const group_write *w)
{
    int32_t oldest = w->groups[0]->floor_version;

    for (size_t i = 1; i < w->n_groups; i++)
        oldest = w->groups[i]->floor_version < oldest ? w->groups[i]->floor_version : oldest;
    return oldest;
}

void write_flush(quorum *q)
{
    group_write *w = q->filling;

    if (!w || q->n_writes >= WRITES_MAX)
        return;
    q->filling = NULL;
    q->n_writes++;
    add_op(w, (zk_op){.kind = ZK_CHECK, .path = NODES_FLOOR, .version = oldest_floor(w)});
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
    g->refs++;
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

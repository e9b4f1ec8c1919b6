/* No server advances the stored time of an unused group. So the sweep remembers which state of a group it saw, when,
 * and how long after that its last key expires. When that time has passed by this server's CLOCK_MONOTONIC and the
 * group still has that state, the sweep deletes it, and raises the floor above its fences in the same request. The
 * version and the group's time identify a state: a group that was deleted and created again has a later time.
 *
 * After each raise of the floor all servers read their groups again (write.c), so the sweep deletes many groups in one
 * request. */
#include "quorum/sweep_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "log.h"
#include "memory.h"
#include "quorum/dead_waiters.h"
#include "quorum/nodes.h"
#include "quorum/paths.h"
#include "quorum/shards.h"

enum { FLOOR_MARGIN_US = 1000000, DELETE_AT_ONCE = 1024 };

typedef struct sighting {
    UT_hash_handle hh; /* by `path` */
    int32_t version;
    int64_t time_us;
    uint64_t seen_ns;
    int64_t ends_in_us; /* how long after seen_ns the last key expires; -1: one of the keys never does */
    bool is_seen;       /* in this walk */
    bool is_quiet;      /* unchanged since the previous walk */
    char path[];
} sighting;

struct group_sweep {
    shards walk;
    bool is_walking;
    sighting *sightings; /* uthash */
    struct timer timer;
    zk_op ops[DELETE_AT_ONCE + 1]; /* the deletions; their paths belong to sightings */
    size_t n_ops;
    int64_t above_us;      /* above the fences of all deleted groups, and not below the floor */
    int32_t floor_version; /* before the walk, or after its last request: a node created again since is not deleted */
    char floor[32];        /* the new floor */
    size_t n_deleted;
};

static int64_t last_end(const stored_group *s)
{
    int64_t last_us = s->time_us;

    for (size_t i = 0; i < keys_count(s->keys); i++) {
        const keys_entry *key = keys_at(s->keys, i);
        if (key->end_us == 0)
            return -1;
        last_us = key->end_us > last_us ? key->end_us : last_us;
    }
    return last_us;
}

static sighting *note_sighting(group_sweep *s, const char *path, const stored_group *found, int32_t version)
{
    const size_t len = strlen(path);
    const int64_t last_us = last_end(found);
    sighting *seen;

    HASH_FIND(hh, s->sightings, path, len, seen);
    if (!seen) {
        seen = memory_alloc(sizeof *seen + len + 1);
        memcpy(seen->path, path, len);
        seen->version = -1;
        HASH_ADD_KEYPTR(hh, s->sightings, seen->path, len, seen);
    }
    seen->is_quiet = seen->version == version && seen->time_us == found->time_us;
    if (!seen->is_quiet) {
        seen->version = version;
        seen->time_us = found->time_us;
        seen->seen_ns = clock_now_ns();
        seen->ends_in_us = last_us < 0 ? -1 : last_us - found->time_us;
    }
    seen->is_seen = true;
    return seen;
}

static bool has_ended(const sighting *seen)
{
    return seen->ends_in_us >= 0 && group_clock_passed(seen->seen_ns, clock_now_ns()) > seen->ends_in_us;
}

static void drop_sightings(group_sweep *s, bool all)
{
    sighting *seen, *next;

    HASH_ITER(hh, s->sightings, seen, next)
    {
        if (all || !seen->is_seen) {
            HASH_DELETE(hh, s->sightings, seen);
            free(seen);
        } else {
            seen->is_seen = false;
        }
    }
}

static void end_walk(group_sweep *s, bool complete)
{
    s->is_walking = false;
    shards_clear(&s->walk);
    if (complete)
        drop_sightings(s, false);
    if (s->n_deleted > 0)
        log_info("lock-groups-forgotten", "groups=%zu", s->n_deleted);
}

static void on_deleted(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    group_sweep *s = arg;
    (void)failed;

    if (code == ZK_OK) {
        s->n_deleted += s->n_ops;
        s->floor_version = versions[s->n_ops];
    }
    s->n_ops = 0;
    if (s->walk.quorum->state != QUORUM_CLOSED)
        nodes_read_floor(s->walk.quorum->nodes);
    if (s->walk.shard == SHARDS) /* it was the last request */
        end_walk(s, true);
    else
        shards_next(&s->walk);
}

/* If one of the groups has changed, all of them stay until the next walk. */
static void delete_groups(group_sweep *s)
{
    snprintf(s->floor, sizeof s->floor, "%" PRId64, s->above_us);
    s->ops[s->n_ops] =
        (zk_op){.kind = ZK_SET, .path = NODES_FLOOR, .data = lks_rpc_slice_of(s->floor), .version = s->floor_version};
    zk_multi(s->walk.quorum->zookeeper, s->ops, s->n_ops + 1, on_deleted, s);
}

static void add_deletion(group_sweep *s, const sighting *seen)
{
    const int64_t above_us = seen->time_us + seen->ends_in_us + FLOOR_MARGIN_US;

    if (above_us > s->above_us)
        s->above_us = above_us;
    s->ops[s->n_ops++] = (zk_op){.kind = ZK_DELETE, .path = seen->path, .version = seen->version};
}

static void on_group(void *arg, const char *path, const stored_group *found, int32_t version)
{
    group_sweep *s = arg;
    const sighting *seen = found ? note_sighting(s, path, found, version) : NULL;

    if (seen && has_ended(seen))
        add_deletion(s, seen);
    else if (seen && seen->is_quiet)
        dead_waiters_skip(s->walk.quorum, found);
    if (s->n_ops == DELETE_AT_ONCE)
        delete_groups(s);
    else
        shards_next(&s->walk);
}

static void on_end(void *arg, bool complete)
{
    group_sweep *s = arg;

    if (complete && s->n_ops > 0)
        delete_groups(s);
    else
        end_walk(s, complete);
}

void group_sweep_begin(group_sweep *s)
{
    quorum *q = s->walk.quorum;

    if (s->is_walking || q->state != QUORUM_READY || !nodes_sweeps(q->nodes))
        return;
    s->walk = (shards){.quorum = q, .prefix = "", .group = on_group, .end = on_end, .arg = s};
    s->is_walking = true;
    s->n_ops = 0;
    s->n_deleted = 0;
    s->floor_version = nodes_floor_version(q->nodes);
    s->above_us = nodes_floor_us(q->nodes);
    shards_next(&s->walk);
}

static void begin_later(group_sweep *s)
{
    quorum *q = s->walk.quorum;

    loop_timers_set(&q->timers, &s->timer, clock_in_ms(q->options.sweep_ms));
}

static void on_due(struct timer *timer)
{
    group_sweep *s = container_of(timer, group_sweep, timer);

    group_sweep_begin(s);
    begin_later(s);
}

group_sweep *group_sweep_new(quorum *q)
{
    group_sweep *s = memory_alloc(sizeof *s);

    s->walk.quorum = q;
    s->timer.due = on_due;
    begin_later(s);
    return s;
}

void group_sweep_free(group_sweep *s)
{
    drop_sightings(s, true);
    free(s);
}

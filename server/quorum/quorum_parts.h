/* Shared by the files of the lock store: quorum.c opens, closes and takes calls, group.c has the groups, write.c their
 * writes, nodes.c the other nodes. */
#ifndef LOCKSTOCK_SERVER_QUORUM_QUORUM_PARTS_H
#define LOCKSTOCK_SERVER_QUORUM_QUORUM_PARTS_H

#include <sys/queue.h>
#include <uv.h>

#include "hashed.h"
#include "net/close_barrier.h"
#include "net/loop_timers.h"
#include "machine/functions.h"
#include "quorum/group_clock.h"
#include "quorum/quorum.h"
#include "quorum/stored.h"
#include "ensemble/zookeeper.h"
#include "store/errors.h"

/* DOWN --connected, with a session--> PREPARING --nodes are created and read--> READY; each --connection lost--> DOWN;
 * each --quorum_close--> CLOSED. Only quorum_set_state() changes it. */
typedef enum quorum_state { QUORUM_DOWN, QUORUM_PREPARING, QUORUM_READY, QUORUM_CLOSED } quorum_state;

/* STALE --read--> READING --> KNOWN --calls--> WRITING --written--> KNOWN
 *   ^                |          |                 |
 *   +----------------+----------+-----------------+   lost, another server wrote, or the outcome is not known */
typedef enum group_state { GROUP_STALE, GROUP_READING, GROUP_KNOWN, GROUP_WRITING } group_state;

/* The last write of a group by this server.
 *
 * SETTLED --not applied--> FAILED; SETTLED --it may have been applied--> IN_DOUBT; each --the group is read--> SETTLED */
typedef enum last_write { WRITE_SETTLED, WRITE_FAILED, WRITE_IN_DOUBT } last_write;

typedef struct pending {
    TAILQ_ENTRY(pending) in_list;
    struct group *group;
    const store_call *call;
    store_done *done; /* NULL: it ended at its deadline, while its write was pending */
    void *arg;
    struct timer timer;
    uint64_t deadline_ns;
    bool in_doubt; /* a write with the effect of this call may have been applied */
    const store_value *reply;
} pending;

typedef TAILQ_HEAD(pending_list, pending) pending_list;

typedef struct group {
    UT_hash_handle hh;         /* by `base` */
    UT_hash_handle hh_by_path; /* by `path` */
    TAILQ_ENTRY(group) in_todo, in_cache;
    struct quorum *quorum;
    bool is_queued;
    group_state state;
    stored_group known; /* KNOWN: as of `version`; WRITING: as it is being written */
    group_clock clock;
    int32_t version;       /* of the node; -1: there is none */
    int64_t version_us;    /* the time stored by the write of this version */
    int32_t floor_version; /* of NODES_FLOOR before the node was read: while it stays, the node was not created again */
    pending_list waiting, running;
    lks_rpc_arena *arena;             /* has the data to write, replies, and `own` */
    lks_rpc_slice data;               /* to write; data.data NULL: no change, only the version is checked */
    TAILQ_HEAD(, stored_message) own; /* messages for this server, delivered after the write */
    int64_t dropped_us;               /* the group's time when records of spent tokens were last dropped; 0: never */
    bool removes_holders;             /* the write removes holders by force */
    uint64_t write;                   /* the number of the last write by this server */
    last_write last_write;            /* not SETTLED: sync before the next read */
    uint64_t heard;   /* messages up to this one were delivered; UINT64_MAX: the group was not read yet */
    unsigned refs;    /* requests and running callbacks that refer to it: it must not be freed */
    bool has_waiters; /* this server parks calls for it, so it must notice writes of other servers */
    bool watches;     /* a watch reports those writes */
    char *path;
    size_t base_len;
    char base[];
} group;

typedef TAILQ_HEAD(group_list, group) group_list;

struct quorum {
    quorum_options options;
    quorum_state state;
    kept_fault fault;
    zookeeper *zookeeper;
    functions *functions;
    group *groups, *by_path; /* uthash */
    group_list todo, cache;
    size_t n_pending;
    struct group_write *filling; /* groups to write with the next request; NULL: none */
    size_t n_writes;             /* pending requests */
    struct loop_timers timers;
    uv_idle_t turn;
    quorum_view counts; /* only written, conflicts and unknown */
    struct nodes *nodes;
    struct group_sweep *sweep;
    close_barrier barrier;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* quorum.c */
const store_fault *quorum_refusal(zk_code code); /* NULL: the ensemble has not refused anything */
void quorum_set_state(quorum *q, quorum_state to, store_fault fault);
void quorum_end(pending *p, const store_result *result);
void quorum_drop(pending *p); /* frees it without an answer */
void quorum_fail(pending *p, lks_code code, store_fault fault);
void quorum_queue_group(group *g);
void quorum_run_later(quorum *q); /* runs the groups in `todo` in the next turn of the loop */

/* group.c */
group *group_find(quorum *q, lks_rpc_slice base);
group *group_of_path(const quorum *q, const char *path); /* NULL: not in the cache */
void group_step(group *g);
lks_rpc_slice group_base(const group *g);
void group_written(group *g, int32_t version);
void group_not_written(group *g, bool in_doubt);
void group_refuse(group *g, store_fault fault);
void group_watch_fired(quorum *q, const char *path);
void group_lost_watches(quorum *q);
void group_end_calls_at(quorum *q, uint64_t at_ns); /* unless READY again; or at an earlier deadline */
void group_end_all_calls(quorum *q);
void group_free_all(quorum *q);

/* write.c */
void write_add(group *g);
bool write_has_room(const quorum *q);
void write_flush(quorum *q);
void write_drop(quorum *q);

#endif

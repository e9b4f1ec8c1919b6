/* The lock store: LockService's state in a ZooKeeper ensemble, which answers after a majority has written. Loop thread
 * only.
 *
 * All keys of a group are one node. A call runs the function library (functions.h) over a copy of them and replaces the
 * node if no other server has; so a group's calls are as atomic as in Redis. docs/quorum.md has the design. */
#ifndef LOCKSTOCK_SERVER_QUORUM_H
#define LOCKSTOCK_SERVER_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "store/types.h"

struct uv_loop_s;

typedef struct quorum quorum;

typedef struct quorum_options {
    struct uv_loop_s *loop;
    const char *url;          /* zookeeper://[user:password@]host:port,host:port/path */
    const char *url_from;     /* the setting that errors name */
    char *const *namespaces;  /* the namespaces whose locks are here; the caller keeps them */
    size_t n_namespaces;      /* 0: all */
    const char *server;       /* this server's id */
    const char *library_text; /* as in store_options */
    size_t library_len;
    const char *library_digest;
    uint64_t sweep_ms; /* how often to look for groups without keys */
    /* As in store_options. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    void (*on_wake)(void *arg, const char *data, size_t len);
    void (*on_listening)(void *arg);
    void *arg;
} quorum_options;

/* Checks a URL and namespaces. LKS_INVALID_ARGUMENT names `from`, or the setting of the namespaces. */
lks_code quorum_check(const char *url, const char *from, char *const *namespaces, size_t n, lks_error *error);

/* Connects in the background and reconnects. LKS_INVALID_ARGUMENT: the URL. */
lks_code quorum_open(const quorum_options *options, quorum **ret, lks_error *error);

/* Whether a call concerns locks, or is an Enter of locks alone (of_locks.c). */
bool quorum_is_of_locks(const store_call *call);

/* Returns it as a store that takes these calls in its namespaces. */
store_other quorum_as_store(quorum *q);

/* Returns by how much leases of the namespace are longer here than their holders know (group_clock.h); 0: its locks are
 * elsewhere. The first argument is a quorum. */
uint32_t quorum_slack_ms(void *lock_store, lks_rpc_slice ns);

/* Submits a call as store_submit does. */
void quorum_submit(quorum *q, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* Whether calls are served now. The argument is a quorum. */
bool quorum_is_ready(const void *lock_store);

typedef struct quorum_view {
    bool ready;
    uint64_t ensemble;                    /* zk_root_id */
    uint64_t written, conflicts, unknown; /* writes of a group; those with conflicts are repeated */
} quorum_view;

void quorum_look(const quorum *q, quorum_view *ret);

/* Ends calls under way with UNAVAILABLE; `closed` runs on the loop after it was freed. */
void quorum_close(quorum *q, void (*closed)(void *arg), void *arg);

#endif

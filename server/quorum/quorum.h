/* The lock store: the state of LockService in a ZooKeeper ensemble, which answers when a majority has written. Loop
 * thread only.
 *
 * All keys of a group are one node. A call runs the function library (functions.h) over a copy of the keys, and
 * replaces the node if no other server has replaced it. So the calls of a group are as atomic as in Redis.
 * docs/quorum.md describes the design. */
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
    const char *url_from;     /* the setting, for error messages */
    char *const *namespaces;  /* whose locks are in the lock store; owned by the caller */
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

/* Checks a URL and namespaces. The error of LKS_INVALID_ARGUMENT names `from`, or the setting of the namespaces. */
lks_code quorum_check(const char *url, const char *from, char *const *namespaces, size_t n, lks_error *error);

/* Connects in the background, and tries again until it is connected. LKS_INVALID_ARGUMENT: the URL is malformed. */
lks_code quorum_open(const quorum_options *options, quorum **ret, lks_error *error);

/* Whether a call is about locks, or about an entry that has only locks (of_locks.c). */
bool quorum_is_of_locks(const store_call *call);

/* The interface for store_options: the lock store runs these calls in its namespaces. */
store_other quorum_as_store(quorum *q);

/* How much longer leases of the namespace are here than their holders know (group_clock.h); 0: its locks are elsewhere.
 * The first argument is a quorum. */
uint32_t quorum_slack_ms(void *lock_store, lks_rpc_slice ns);

/* Like store_submit. lock_store: a quorum. */
void quorum_submit(void *lock_store, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* Whether the lock store can run calls now. lock_store: a quorum. */
bool quorum_is_ready(const void *lock_store);

typedef struct quorum_view {
    bool ready;
    uint64_t ensemble;                    /* zk_root_id */
    uint64_t written, conflicts, unknown; /* writes of a group; after a conflict the group is written again */
} quorum_view;

void quorum_look(const quorum *q, quorum_view *ret);

/* Ends pending calls with UNAVAILABLE. `closed` runs on the loop after the object was freed. */
void quorum_close(quorum *q, void (*closed)(void *arg), void *arg);

#endif

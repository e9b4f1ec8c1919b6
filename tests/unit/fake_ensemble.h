/* An ensemble in memory, in place of server/ensemble: its clients, the objects of ensemble/zookeeper.h, share one table of
 * nodes. A request waits until the test answers it, so a test says what happens in which order. Main thread only.
 *
 *     fake_up(z, true);                 a session begins, and the client is told that it is ready
 *     fake_next(z)                      "get ns%2Fg": the oldest request of the client
 *     fake_answer(z);                   applies it and answers
 *     fake_lose(z, true);               applies it, and the answer is lost
 *
 * A multi is "check /floor 0, set ns%2Fg 3": kind, path and version of each op. Paths are without "/groups/<shard>/". */
#ifndef LOCKSTOCK_TESTS_FAKE_ENSEMBLE_H
#define LOCKSTOCK_TESTS_FAKE_ENSEMBLE_H

#include <uv.h>

#include "ensemble/zookeeper.h"

typedef struct fake_node {
    const char *path, *data;
    size_t len;
    int32_t version;
    const zookeeper *owner; /* of an ephemeral node */
} fake_node;

/* No nodes but the root. */
void fake_begin(void);
void fake_end(void);

/* The client that zk_open gave last. */
zookeeper *fake_last(void);

/* Without a new session the ephemeral nodes and watches stay. */
void fake_up(zookeeper *z, bool new_session);
/* Requests that wait are the test's to end; those made from now on end with ZK_NOT_SENT. */
void fake_down(zookeeper *z, const char *reason);

/* How many requests wait. */
size_t fake_waiting(const zookeeper *z);
/* "": none waits. Valid until the next call. */
const char *fake_next(const zookeeper *z);
/* The data of an op of the oldest request, a multi. */
lks_rpc_slice fake_data(const zookeeper *z, size_t op);

void fake_answer(zookeeper *z);
/* Not applied; `failed` is the op at fault. */
void fake_fail(zookeeper *z, zk_code code, size_t failed);
void fake_lose(zookeeper *z, bool applied);

/* NULL: none. Valid until the next write. */
const fake_node *fake_find(const char *path);
/* Makes or replaces a node, like an unknown client. */
void fake_write(const char *path, lks_rpc_slice data);

#endif

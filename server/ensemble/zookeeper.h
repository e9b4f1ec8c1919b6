/* A client of a ZooKeeper ensemble on a libuv loop. Loop thread only.
 *
 * It keeps one session, and starts a new one when that has expired. The functions begin with zk_, because the C library
 * of ZooKeeper exports zookeeper_close and other names with that prefix.
 *
 * Watches fire once. They belong to the session: when it survives a lost connection, the library sets them again, and
 * those whose node has changed meanwhile fire at once. It sets them in one packet, so the paths of all watches together
 * must stay below 1 MiB. The event `session` means that all watches are gone. */
#ifndef LOCKSTOCK_SERVER_ENSEMBLE_ZOOKEEPER_H
#define LOCKSTOCK_SERVER_ENSEMBLE_ZOOKEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

struct uv_loop_s;

typedef struct zookeeper zookeeper;

enum {
    ZK_PORT = 2181,
    ZK_SESSION_TIMEOUT_MS = 6000,
    /* A longer request is refused here, because a server drops the connection for a request over 1 MiB
     * (jute.maxbuffer). */
    ZK_REQUEST_BYTES_MAX = 1000000,
};

typedef enum zk_code {
    ZK_OK,
    ZK_NO_NODE,
    ZK_NODE_EXISTS,
    ZK_BAD_VERSION,
    ZK_NOT_EMPTY,
    ZK_NO_AUTH,
    ZK_REFUSED,  /* by the ensemble or here, not applied: a bad path, too long, over quota, a child of an ephemeral
                 * node */
    ZK_NOT_SENT, /* certainly not applied */
    ZK_UNKNOWN   /* the connection or the session was lost after sending: it may have been applied */
} zk_code;

typedef enum zk_change { ZK_CREATED, ZK_DELETED, ZK_CHANGED, ZK_CHILDREN } zk_change;

/* Callbacks run on the loop, never inside a function of this file, and may call functions of this file. */
typedef struct zk_events {
    /* From now on requests are sent (ready), or end with ZK_NOT_SENT. Runs at each change, also of the reason.
     * `reason`: why not, in words; NULL when ready; valid until it returns. */
    void (*state)(void *arg, bool ready, const char *reason);
    /* A session began, possibly the first one; requests are already sent. Ephemeral nodes and watches of the last one
     * are gone. Runs before `state`. May be NULL. */
    void (*session)(void *arg);
    /* A watch fired. `path` is valid until it returns. May be NULL. */
    void (*watch)(void *arg, const char *path, zk_change change);
    void *arg;
} zk_events;

typedef struct zk_options {
    struct uv_loop_s *loop;
    const char *hosts;           /* "h1:2181,h2,[::1]:2181"; without a port: ZK_PORT. Copied */
    const char *root;            /* "/lockstock": every path is below it; "/" or NULL: none. Copied */
    const char *credentials;     /* "user:password" of the scheme digest; NULL: none. Copied */
    uint32_t session_timeout_ms; /* 0: ZK_SESSION_TIMEOUT_MS; the ensemble limits it */
    bool create_root;            /* create missing parts of the root */
    zk_events events;
} zk_options;

/* Only checks hosts, root and credentials, as zk_open does. */
lks_code zk_check(const zk_options *options, lks_error *error);

/* Connects until zk_close. With credentials, only their user may use the nodes that it creates; without, everyone may.
 * LKS_INVALID_ARGUMENT: the hosts, the root or the credentials are malformed. The members are tried in random order, so
 * that clients spread over them; after two thirds of the session timeout it gives up a member that does not answer. */
lks_code zk_open(const zk_options *options, zookeeper **ret, lks_error *error);

/* Whether requests are sent. */
bool zk_is_ready(const zookeeper *zookeeper);

/* Returns when the root was created, which identifies the root and the ensemble; 0: not read yet. */
uint64_t zk_root_id(const zookeeper *zookeeper);

/* Ends the session and frees the object. Does not block. Pending requests end with ZK_UNKNOWN, then `closed` runs, on
 * the loop; no other event follows. A session whose connection is down is not ended but expires: its ephemeral nodes
 * exist until then. Allowed inside an event. */
void zk_close(zookeeper *zookeeper, void (*closed)(void *arg), void *arg);

/* ---- requests ---------------------------------------------------------------------
 *
 * Each ends once, with its callback on the loop, never inside the function. They take effect in the order in which they
 * were made. Paths begin with "/" and are below the root; paths and data are copied. The arguments of a callback are
 * valid until it returns. Reading requests end with the same codes; ZK_UNKNOWN then only means that the answer was
 * lost. Unless ready, and after zk_close, they end with ZK_NOT_SENT. */

/* `version` is the node's. data, len, version: only with ZK_OK. */
typedef void zk_got(void *arg, zk_code code, const char *data, size_t len, int32_t version);
/* `version` only with ZK_OK. */
typedef void zk_found(void *arg, zk_code code, int32_t version);
/* Names without their parent's path, in any order. */
typedef void zk_listed(void *arg, zk_code code, const char *const *names, size_t n);
/* `failed` is the first failed op, otherwise 0. `versions` has one number for each op, only with ZK_OK: the node's new
 * version for a SET, 0 for a created node, -1 for the others. */
typedef void zk_applied(void *arg, zk_code code, size_t failed, const int32_t *versions);

/* Reads the data of a node from the connected member, which may be behind. */
void zk_get(zookeeper *zookeeper, const char *path, zk_got *done, void *arg);

/* The same after the member has caught up with the leader (sync). A deposed leader that does not know it yet may answer
 * without changes that its successor has applied. Where that matters, use a zk_multi with a CHECK: the ensemble votes
 * on it. */
void zk_sync_get(zookeeper *zookeeper, const char *path, zk_got *done, void *arg);

/* Checks whether a node exists. watch: events.watch runs once when it is created, deleted or its data changes. Set for
 * ZK_OK and ZK_NO_NODE. */
void zk_exists(zookeeper *zookeeper, const char *path, bool watch, zk_found *done, void *arg);

/* Lists the children of a node. watch: events.watch runs once when a child is created or deleted, or the node is
 * deleted. Set for ZK_OK. */
void zk_children(zookeeper *zookeeper, const char *path, bool watch, zk_listed *done, void *arg);

typedef enum zk_kind { ZK_CREATE, ZK_CREATE_EPHEMERAL, ZK_SET, ZK_DELETE, ZK_CHECK } zk_kind;

typedef struct zk_op {
    zk_kind kind;
    const char *path;
    lks_rpc_slice data; /* of CREATE, CREATE_EPHEMERAL, SET */
    int32_t version;    /* of SET, DELETE, CHECK: the node must have this version; -1: any */
} zk_op;

/* Applies all ops in order, or none. n = 0 is refused. CHECKs alone are allowed. */
void zk_multi(zookeeper *zookeeper, const zk_op *ops, size_t n, zk_applied *done, void *arg);

#endif

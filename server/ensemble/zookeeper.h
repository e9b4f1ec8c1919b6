/* A client of a ZooKeeper ensemble on a libuv loop. Loop thread only.
 *
 * It keeps one session; when that expires, it opens a new one. The functions begin with zk_, because the C library of
 * ZooKeeper exports names like zookeeper_close.
 *
 * A watch fires once. Watches belong to the session. If the session survives a lost connection, the library sets them
 * again, and a watch fires at once if its node has changed in between. The library sets them in one packet, so the
 * paths of all watches together must stay below 1 MiB. When the event `session` runs, all watches are gone. */
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
    ZK_SESSION_TIMEOUT_MS = 6000,
    /* The client refuses longer requests, because a server drops the connection for more than 1 MiB
     * (jute.maxbuffer). */
    ZK_REQUEST_BYTES_MAX = 1000000,
};

typedef enum zk_code {
    ZK_OK,
    ZK_NO_NODE,
    ZK_NODE_EXISTS,
    ZK_BAD_VERSION,
    ZK_NO_AUTH,
    ZK_REFUSED,  /* not applied: a bad path, too long, over quota, a node with children, ... */
    ZK_NOT_SENT, /* not applied */
    ZK_UNKNOWN   /* the connection or the session was lost after it was sent: it may have been applied */
} zk_code;

/* All run on the loop, never inside a function of this file. All may call functions of this file. */
typedef struct zk_events {
    /* Runs at each change. reason: NULL: requests are sent from now on; else why they end with ZK_NOT_SENT, as a text
     * that is valid until the event returns. */
    void (*state)(void *arg, const char *reason);
    /* A session began, also the first one; requests can be sent already. Ephemeral nodes and watches of the previous
     * session are gone. Runs before `state`. */
    void (*session)(void *arg);
    /* A watch fired. `path` is valid until the event returns. */
    void (*watch)(void *arg, const char *path);
    void *arg;
} zk_events;

typedef struct zk_options {
    struct uv_loop_s *loop;
    const char *hosts;           /* "h1:2181,h2,[::1]:2181"; without a port: 2181. Copied */
    const char *root;            /* "/lockstock": every path is below it; created if it is missing. Copied */
    const char *credentials;     /* "user:password" of the scheme digest; NULL: none. Copied */
    uint32_t session_timeout_ms; /* 0: ZK_SESSION_TIMEOUT_MS; the ensemble also has limits */
    zk_events events;
} zk_options;

/* LKS_INVALID_ARGUMENT: the hosts, the root or the credentials are malformed. */
lks_code zk_check(const zk_options *options, lks_error *error);

/* Starts to connect, and tries until zk_close. The options have passed zk_check. With credentials, only their user may
 * use the nodes that the client creates; without, everyone may. The members are tried in random order, so that clients
 * spread over them. If a member does not answer for two thirds of the session timeout, the next one is tried. */
zookeeper *zk_open(const zk_options *options);

/* Whether requests are sent. */
bool zk_is_ready(const zookeeper *zookeeper);

/* An id made from the creation of the root node. Other roots, and roots of other ensembles, have other ids. 0: not read
 * yet. */
uint64_t zk_root_id(const zookeeper *zookeeper);

/* Ends the session and frees the object. Does not block. Pending requests end with ZK_UNKNOWN, then `closed` runs, on
 * the loop; no other event follows. If the connection is down, the session cannot be ended but expires: its ephemeral
 * nodes stay until then. May be called inside an event. */
void zk_close(zookeeper *zookeeper, void (*closed)(void *arg), void *arg);

/* ---- requests ---------------------------------------------------------------------
 *
 * Each request ends once, with its callback on the loop, never inside the function. Requests take effect in the order
 * in which they were made. Paths begin with "/" and are below the root; paths and data are copied. The arguments of a
 * callback are valid until it returns. Reads end with the same codes; for them ZK_UNKNOWN only means that the answer
 * was lost. If the client is not ready, and after zk_close, requests end with ZK_NOT_SENT. */

/* version: of the node. data, len and version are set only with ZK_OK. */
typedef void zk_got(void *arg, zk_code code, const char *data, size_t len, int32_t version);
/* version is set only with ZK_OK. */
typedef void zk_found(void *arg, zk_code code, int32_t version);
/* names: of the children, without the path of the parent, in no order. */
typedef void zk_listed(void *arg, zk_code code, const char *const *names, size_t n);
/* failed: the index of the first op at fault, 0 if there is none. versions: only with ZK_OK, one number for each op:
 * the new version of the node for a SET, 0 for the others. */
typedef void zk_applied(void *arg, zk_code code, size_t failed, const int32_t *versions);

/* Reads a node from the connected member, whose data may be old. */
void zk_get(zookeeper *zookeeper, const char *path, zk_got *done, void *arg);

/* The same, after the member has caught up with the leader (sync). A leader that was just deposed and does not know it
 * yet may answer without the changes of its successor. Where that matters, use zk_multi with a CHECK: the ensemble
 * votes on it. */
void zk_sync_get(zookeeper *zookeeper, const char *path, zk_got *done, void *arg);

/* Reads whether a node exists, and sets a watch if the request ends with ZK_OK or ZK_NO_NODE: events.watch runs once,
 * when the node is created or deleted or its data changes. */
void zk_watch(zookeeper *zookeeper, const char *path, zk_found *done, void *arg);

/* Lists the children of a node. watch: events.watch runs once, when a child is created or deleted or the node is
 * deleted. The watch is set if the request ends with ZK_OK. */
void zk_children(zookeeper *zookeeper, const char *path, bool watch, zk_listed *done, void *arg);

typedef enum zk_kind { ZK_CREATE, ZK_CREATE_EPHEMERAL, ZK_SET, ZK_DELETE, ZK_CHECK } zk_kind;

typedef struct zk_op {
    zk_kind kind;
    const char *path;
    lks_rpc_slice data; /* for CREATE, CREATE_EPHEMERAL, SET */
    int32_t version;    /* for SET, DELETE, CHECK: the version that the node must have; -1: any */
} zk_op;

/* Applies all ops, in order, or none. n = 0 is refused. All of them may be CHECKs. */
void zk_multi(zookeeper *zookeeper, const zk_op *ops, size_t n, zk_applied *done, void *arg);

#endif

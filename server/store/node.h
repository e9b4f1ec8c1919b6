/* One primary: the connection to it, what it must pass before calls use it (greeting, library, safety), its
 * pipeline, and a second connection that hears a channel. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_NODE_H
#define LOCKSTOCK_SERVER_STORE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/login.h"
#include "store/pipeline.h"
#include "store/store.h"

typedef struct node node;

/* Callbacks run on the loop. None may close the node inside it but through node_close, whose end comes later. */
typedef struct node_options {
    const store_options
        *store; /* loop, library, times, limits; outlives the node; what it says of url and callbacks is not used */
    const login *as; /* stays the caller's, as this does: */
    const struct secrets_tls *tls;
    uint32_t db;
    const char *path;       /* of a socket, copied; NULL: host and port */
    const char *path_shown; /* how people are told of it, copied; NULL: as it is */
    const char *host;       /* copied; NULL: none yet, until node_move */
    uint16_t port;
    bool waits_to_be_told; /* after a loss it connects only once node_move has told where, or that it is there still */
    /* Which primary it is now, where another Redis may have its address or its place; NULL: it stays the same one.
     * Told to the store before any call goes out. Valid until the next change. */
    const char *(*generation)(void *arg);
    const char *wake_channel; /* it must outlive the node; NULL = none */
    const char *id;           /* which node of a cluster it must be; outlives it; NULL: any */
    /* Of a node of a cluster, as in pipeline_options; else NULL. */
    pipeline *(*route)(void *arg, uint16_t slot);
    bool (*on_moved)(void *arg, const char *text, size_t len);
    /* Told on each change, and when the fault for not being ready is another one. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    /* The node's data, design or version does not fit, for good; on_ready tells false right after it. */
    void (*on_fatal)(void *arg, store_fault fault);
    /* One of its two connections was lost or could not be made; NULL = nobody asks. */
    void (*on_lost)(void *arg);
    void (*on_wake)(void *arg, const char *data, size_t len); /* these two as in store_options */
    void (*on_listening)(void *arg);
    void *arg;
} node_options;

/* Connects in the background and keeps connecting, until node_close. Calls nothing back before it returns. */
node *node_open(const node_options *options);

/* From now on the node is at this address, both its connections; what was sent to the one before ends as when
 * a connection is lost. When it is there already, that is confirmed. `fault` is told while it is not ready. */
void node_move(node *node, const char *host, uint16_t port, store_fault fault);

/* Whether that is its address. */
bool node_is_at(const node *node, const char *host, uint16_t port);

/* Shows the credentials, which have changed, on a connection that lives; later ones show them at first. */
void node_reauth(node *node);

/* Gives the connection up, for `fault`; it is made again. */
void node_drop(node *node, store_fault fault);

/* The base under which the node keeps what is about itself: "ls:{meta}:" unless it is told. */
void node_base(node *node, const char *base);

/* Its calls. */
pipeline *node_pipeline(node *node);

/* As store_submit. */
void node_submit(node *node, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* Whether calls go out. *reason, if not NULL: why not; valid until the next change. */
bool node_ready(const node *node, const char **reason);

/* What is known of it, but for ret->embedded. */
void node_look(const node *node, store_view *ret);

/* As store_look_primary. */
void node_look_primary(const node *node, store_primary *ret);

/* Why it is not ready, as the caller knows; ignored while its connection has been greeted: then it knows better. */
void node_refuse(node *node, store_fault fault);

/* Ends calls under way with UNAVAILABLE, not before it returns; `closed` runs on the loop, last. */
void node_close(node *node, void (*closed)(void *arg), void *arg);

#endif

/* Answers that wait until enough replicas have the data that they came from. */
#ifndef LOCKSTOCK_SERVER_STORE_CONFIRM_H
#define LOCKSTOCK_SERVER_STORE_CONFIRM_H

#include "store/connection.h"
#include "store/pending.h"

/* The calls of one loop turn, which one WAIT confirms. */
typedef struct confirm {
    struct pipeline *pipeline;
    lks_rpc_arena *arena; /* of their results */
    pending_list calls;
} confirm;

confirm *confirm_new(struct pipeline *pipeline);
void confirm_free(confirm *confirm);

/* Keeps a copy of the call's result with it (pending.held). */
void confirm_hold(confirm *confirm, pending *call, const store_result *result);

/* Asks Redis whether `replicas` replicas have, within `wait_ms`, all writes before this question. base: of keys that the node
 * of Redis Cluster has; NULL: it is no such node. on_reply passes its reply to confirm_enough. */
void confirm_ask(connection *link, unsigned replicas, uint32_t wait_ms, const char *base, connection_reply *on_reply,
                 void *arg);

bool confirm_enough(const struct redisReply *reply, unsigned replicas);

#endif

/* Answers that wait until enough replicas have what they were answered from. */
#ifndef LOCKSTOCK_SERVER_STORE_CONFIRM_H
#define LOCKSTOCK_SERVER_STORE_CONFIRM_H

#include "store/connection.h"
#include "store/pending.h"

/* The calls of one turn, all of which one WAIT confirms. */
typedef struct confirm {
    struct pipeline *pipeline;
    lks_rpc_arena *arena; /* their results */
    pending_list calls;
} confirm;

confirm *confirm_new(struct pipeline *pipeline);
void confirm_free(confirm *confirm);

/* Keeps a copy of the call's result with it (pending.held). */
void confirm_hold(confirm *confirm, pending *call, const store_result *result);

/* Sends the question over the connection, behind what was appended: whether `replicas` have all that was done before it, within `wait_ms`.
 * base: of keys that the node of Redis Cluster has to which it leads; NULL: it is none. on_reply is for confirm_enough. */
void confirm_ask(connection *link, unsigned replicas, uint32_t wait_ms, const char *base, connection_reply *on_reply,
                 void *arg);

/* Whether that is what the reply says. */
bool confirm_enough(const struct redisReply *reply, unsigned replicas);

#endif

/* Answers and wake messages that wait until enough replicas have the data that they depend on: a message may contain an
 * answer. */
#ifndef LOCKSTOCK_SERVER_STORE_CONFIRM_H
#define LOCKSTOCK_SERVER_STORE_CONFIRM_H

#include <sys/queue.h>

#include "store/batch.h"

typedef struct message {
    STAILQ_ENTRY(message) next;
    size_t len;
    char data[];
} message;

/* In order of arrival; each is to be freed with free(). */
typedef STAILQ_HEAD(message_list, message) message_list;

/* Adds a copy. */
void message_add(message_list *list, const char *data, size_t len);

/* The calls of one loop turn, or messages, that one WAIT confirms. */
typedef struct confirm {
    struct pipeline *pipeline;
    lks_rpc_arena *arena; /* has the calls' results */
    pending_list calls;
    message_list messages;
} confirm;

confirm *confirm_new(struct pipeline *pipeline);
void confirm_free(confirm *confirm);

/* Keeps a copy of the call's result with it (pending.held). */
void confirm_hold(confirm *confirm, pending *call, const store_result *result);

/* Asks Redis whether `replicas` replicas get, within `wait_ms`, all writes before this command. base: the base of keys
 * on this node of Redis Cluster; NULL: no cluster. on_reply passes its reply to confirm_enough. */
void confirm_ask(connection *link, unsigned replicas, uint32_t wait_ms, const char *base, connection_reply *on_reply,
                 void *arg);

bool confirm_enough(const struct redisReply *reply, unsigned replicas);

#endif

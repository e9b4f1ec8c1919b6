/* What a Redis says of its part in replication. */
#ifndef LOCKSTOCK_SERVER_STORE_REPLICATION_H
#define LOCKSTOCK_SERVER_STORE_REPLICATION_H

#include "store/store.h"

struct redisReply;

typedef struct replication {
    bool known;        /* false: not told */
    bool primary;      /* else a replica */
    unsigned replicas; /* of a primary: connected ones */
    store_replica replica[STORE_REPLICAS_MAX];
} replication;

/* The question, REPLICATION_WORDS words or fewer; gives how many. INFO says since when a replica is silent, ROLE does
 * not, but is permitted to more users. */
enum { REPLICATION_WORDS = 2 };
size_t replication_words(bool by_role, const char **words);

/* What the reply to either says; not known: it was refused. */
void replication_read(const struct redisReply *reply, replication *ret);

/* What was logged last of this primary; begins with 0. */
typedef struct replication_told {
    unsigned replicas;
    bool lags;
} replication_told;

/* Logs what has changed with the primary at `address`: how many replicas are connected, and whether one lags, so that a
 * failover to it would lose much and who waits for it waits in vain. */
void replication_log(const replication *now, replication_told *told, const char *address);

#endif

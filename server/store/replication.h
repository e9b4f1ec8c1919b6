/* What a Redis says of its part in replication. */
#ifndef LOCKSTOCK_SERVER_STORE_REPLICATION_H
#define LOCKSTOCK_SERVER_STORE_REPLICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;

typedef struct replication {
    bool known;         /* false: ROLE is not permitted */
    bool primary;       /* else a replica */
    unsigned replicas;  /* of a primary: connected ones */
    uint64_t lag_bytes; /* what the one that is furthest behind has not confirmed */
} replication;

/* The question, REPLICATION_WORDS words; gives how many. */
enum { REPLICATION_WORDS = 1 };
size_t replication_words(const char **words);

/* What the reply says. */
replication replication_of(const struct redisReply *reply);

#endif

/* Walks over all groups of the ensemble, one after the other, in the order of their shards and digests. */
#ifndef LOCKSTOCK_SERVER_QUORUM_SHARDS_H
#define LOCKSTOCK_SERVER_QUORUM_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "quorum/quorum_parts.h"

enum { SHARD_DIGEST_CHARS = 12 };

typedef struct shard_name {
    char digest[SHARD_DIGEST_CHARS + 1]; /* of the name, hex */
    char *name;                          /* "<namespace>%2F<group>" */
} shard_name;

/* Embedded in what walks; from `quorum` to `arg` set by it, the rest zero. Every callback may end the walk by not going
 * on, and by shards_clear. */
typedef struct shards {
    quorum *quorum;
    const char *prefix; /* of names; "" for all */
    /* A group as it is stored; NULL: it is gone, or is foreign data. Then shards_next. */
    void (*group)(void *arg, const char *path, const stored_group *s, int32_t version);
    void (*end)(void *arg, bool complete); /* false: not everything can be read now */
    void *arg;

    unsigned shard;
    shard_name *names; /* of the shard, by digest */
    size_t n, at;
    char after[SHARD_DIGEST_CHARS + 1]; /* names of the first shard up to this digest are skipped, ... */
    bool including;                     /* ... but for this one itself */
} shards;

/* Goes on with the next group, or tells the end. */
void shards_next(shards *s);

/* The digest of the last group that was given. */
const char *shards_digest(const shards *s);

/* Frees what the walk has. No request may be under way. */
void shards_clear(shards *s);

#endif

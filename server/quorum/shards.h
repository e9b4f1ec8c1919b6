/* Walks over all groups of the ensemble, one after another, in the order of their shards and digests. */
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

/* A member of the walking object, which sets `quorum` to `arg`; the others are zero. Every callback may end the walk by
 * not calling shards_next, and with shards_clear. */
typedef struct shards {
    quorum *quorum;
    const char *prefix; /* of names; "" for all */
    /* A stored group; NULL: it is gone, or foreign data. Then call shards_next. */
    void (*group)(void *arg, const char *path, const stored_group *s, int32_t version);
    void (*end)(void *arg, bool complete); /* false: some groups cannot be read now */
    void *arg;

    unsigned shard;
    shard_name *names; /* of the shard, by digest */
    size_t n, at;
    char after[SHARD_DIGEST_CHARS + 1]; /* names of the first shard up to this digest are skipped */
    bool including;                     /* this digest itself is not skipped */
} shards;

/* Continues with the next group, or calls `end`. */
void shards_next(shards *s);

/* Returns the digest of the last group. */
const char *shards_digest(const shards *s);

/* Frees the memory of the walk. No request may be under way. */
void shards_clear(shards *s);

#endif

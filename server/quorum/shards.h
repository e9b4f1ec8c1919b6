/* Walks over all groups of the ensemble, in the order of shards and digests. */
#ifndef LOCKSTOCK_SERVER_QUORUM_SHARDS_H
#define LOCKSTOCK_SERVER_QUORUM_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "quorum/quorum_parts.h"

enum { SHARD_DIGEST_CHARS = 12 };

typedef struct shard_name {
    char digest[SHARD_DIGEST_CHARS + 1]; /* the digest of the name, hex */
    char *name;                          /* "<namespace>%2F<group>" */
} shard_name;

/* Embedded in the object that walks. That object sets the fields from `quorum` to `arg`, and the other ones to zero or
 * to where the walk begins. Each callback may end the walk: it calls shards_clear and not shards_next. */
typedef struct shards {
    quorum *quorum;
    const char *prefix; /* walk over names with this prefix; "": all */
    /* The next group as it is stored; NULL: it was deleted, or is foreign data. Call shards_next afterwards. */
    void (*group)(void *arg, const char *path, const stored_group *s, int32_t version);
    void (*end)(void *arg, bool complete); /* complete false: a read failed */
    void *arg;

    unsigned shard;
    shard_name *names; /* of the shard, sorted by digest */
    size_t n, at;
    char after[SHARD_DIGEST_CHARS + 1]; /* skip names of the first shard up to this digest */
    bool including;                     /* do not skip this digest itself */
} shards;

/* Continues with the next group, or calls `end`. */
void shards_next(shards *s);

/* The digest of the last group passed to `group`. */
const char *shards_digest(const shards *s);

/* Frees the memory of the walk. No request may be pending. */
void shards_clear(shards *s);

#endif

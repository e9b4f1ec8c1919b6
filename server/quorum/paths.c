#include "quorum/paths.h"

#include <stdio.h>
#include <string.h>

#include "digest.h"
#include "memory.h"

/* Returns the part "namespace/group" of a base. */
static lks_rpc_slice inner_of(lks_rpc_slice base)
{
    static const size_t before = sizeof "ls:{" - 1, after = sizeof "}:" - 1;

    return (lks_rpc_slice){base.data + before, base.len - before - after};
}

lks_rpc_slice paths_namespace(lks_rpc_slice base)
{
    const lks_rpc_slice inner = inner_of(base);

    return (lks_rpc_slice){inner.data, (size_t)((const char *)memchr(inner.data, '/', inner.len) - inner.data)};
}

void paths_of_shard(unsigned shard, char path[SHARD_PATH_BYTES])
{
    snprintf(path, SHARD_PATH_BYTES, NODES_GROUPS "/%02x", shard % SHARDS);
}

char *paths_of_group(lks_rpc_slice base)
{
    const lks_rpc_slice inner = inner_of(base), ns = paths_namespace(base);
    const size_t room = SHARD_PATH_BYTES + sizeof "/%2F" + inner.len;
    char *path = memory_alloc(room), shard[SHARD_PATH_BYTES];
    unsigned char digest[DIGEST_BYTES];

    digest_of(inner.data, inner.len, digest);
    paths_of_shard(digest[0], shard);
    snprintf(path, room, "%s/%.*s%%2F%.*s", shard, (int)ns.len, ns.data, (int)(inner.len - ns.len) - 1,
             ns.data + ns.len + 1);
    return path;
}

/* The nodes of the ensemble, below the path of --lock-store:
 *
 *   /groups/<00..ff>/<namespace>%2F<group>   a group; the shard is the first byte of a digest of "<namespace>/<group>"
 *   /servers/<id>    ephemeral: the live servers
 *   /floor           a number above every fence of the deleted groups, microseconds since 1970; its version changes
 *                    with each deletion of groups
 *   /forced          the namespace of the last ForceRelease
 *
 * The first server creates all of them in one request, except the nodes of servers and groups. */
#ifndef LOCKSTOCK_SERVER_QUORUM_PATHS_H
#define LOCKSTOCK_SERVER_QUORUM_PATHS_H

#include <lockstock/rpc/arena.h>

#define NODES_GROUPS "/groups"
#define NODES_SERVERS "/servers"
#define NODES_FLOOR "/floor"
#define NODES_FORCED "/forced"

enum { SHARDS = 256, SHARD_PATH_BYTES = sizeof NODES_GROUPS "/00" };

void paths_of_shard(unsigned shard, char path[SHARD_PATH_BYTES]);

/* The path of the group with this base, "ls:{namespace/group}:". The caller frees it. */
char *paths_of_group(lks_rpc_slice base);

/* The namespace, a slice of that base. */
lks_rpc_slice paths_namespace(lks_rpc_slice base);

#endif

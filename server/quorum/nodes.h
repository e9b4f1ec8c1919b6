/* The nodes beside those of groups:
 *
 *   /groups/<00..ff>/...   the groups (group.c)
 *   /servers/<id>          ephemeral: the servers that live
 *   /floor                 above every fence of groups that were forgotten, microseconds since 1970; its version
 *                          changes whenever groups are forgotten
 *   /forced                the namespace of the last ForceRelease
 *
 * All but those of servers and groups are made at once by the first server. */
#ifndef LOCKSTOCK_SERVER_QUORUM_NODES_H
#define LOCKSTOCK_SERVER_QUORUM_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

#define NODES_GROUPS "/groups"
#define NODES_SERVERS "/servers"
#define NODES_FLOOR "/floor"
#define NODES_FORCED "/forced"

struct quorum;

typedef struct nodes nodes;

nodes *nodes_new(struct quorum *q);
void nodes_free(nodes *n);

/* A new session began: makes and reads the nodes again. */
void nodes_session(nodes *n);

/* Connected, with the session of before or a new one: reads what may have changed, and then the quorum is READY. */
void nodes_connected(nodes *n);

/* A watch fired. False: not one of these nodes. */
bool nodes_watch_fired(nodes *n, const char *path);

/* Whether a server lives, as far as this one knows. */
bool nodes_server_is_alive(const nodes *n, lks_rpc_slice server);

/* Whether this server is the one that looks for groups to be forgotten: the first of those that live. */
bool nodes_sweeps(const nodes *n);

int64_t nodes_floor_us(const nodes *n);
int32_t nodes_floor_version(const nodes *n);

/* Another server has raised the floor: reads it again. */
void nodes_read_floor(nodes *n);

#endif

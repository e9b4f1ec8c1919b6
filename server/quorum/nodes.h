/* The nodes other than groups (paths.h): makes them, and keeps their contents. */
#ifndef LOCKSTOCK_SERVER_QUORUM_NODES_H
#define LOCKSTOCK_SERVER_QUORUM_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

struct quorum;

typedef struct nodes nodes;

nodes *nodes_new(struct quorum *q);
void nodes_free(nodes *n);

/* A new session began: makes and reads the nodes again. */
void nodes_session(nodes *n);

/* Connected, with the previous session or a new one: reads the nodes that may have changed; then the quorum is
 * READY. */
void nodes_connected(nodes *n);

/* A watch fired. Returns false if it is not for one of these nodes. */
bool nodes_watch_fired(nodes *n, const char *path);

/* Whether a server is alive, as far as this one knows. */
bool nodes_server_is_alive(const nodes *n, lks_rpc_slice server);

/* Returns false while a change of the servers is known but not read yet. The ensemble notifies a server of such a
 * change before it returns any data that the other server has written; so calls that wait until this is true know every
 * server that parks waiters. */
bool nodes_are_listed(const nodes *n);

/* Whether this server is the one that looks for groups to delete: the first of the live servers. */
bool nodes_sweeps(const nodes *n);

int64_t nodes_floor_us(const nodes *n);
int32_t nodes_floor_version(const nodes *n);

/* Another server has raised the floor: reads it again. */
void nodes_read_floor(nodes *n);

#endif

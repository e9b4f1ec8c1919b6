/* Creates the nodes other than those of groups (paths.h), and keeps what it has read from them. */
#ifndef LOCKSTOCK_SERVER_QUORUM_NODES_H
#define LOCKSTOCK_SERVER_QUORUM_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

struct quorum;

typedef struct nodes nodes;

nodes *nodes_new(struct quorum *q);
void nodes_free(nodes *n);

/* A new session began: creates and reads the nodes again. */
void nodes_session(nodes *n);

/* The client is connected, with the previous session or a new one: reads what may have changed, then sets the quorum
 * READY. */
void nodes_connected(nodes *n);

/* A watch fired. Returns false if the path is not one of these nodes. */
bool nodes_watch_fired(nodes *n, const char *path);

/* Whether a server is alive, as far as this one knows. */
bool nodes_server_is_alive(const nodes *n, lks_rpc_slice server);

/* False while this server knows that the list of servers has changed, and has not read it yet. The ensemble reports a
 * new server before it returns anything that the new server has written. So calls that wait until this is true know
 * every server that parks waiters. */
bool nodes_are_listed(const nodes *n);

/* Whether this server is the one that looks for groups to delete: the first of the live servers. */
bool nodes_sweeps(const nodes *n);

int64_t nodes_floor_us(const nodes *n);
int32_t nodes_floor_version(const nodes *n);

/* Reads the floor again. Call it when the floor was raised. */
void nodes_read_floor(nodes *n);

#endif

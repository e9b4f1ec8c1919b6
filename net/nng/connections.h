/* The connections of one REP socket: how many there are, how many messages each
 * has under way, and how one is closed without hanging nng (docs/nng.md).
 * Thread-safe. */
#ifndef LOCKSTOCK_NET_CONNECTIONS_H
#define LOCKSTOCK_NET_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nng/nng.h>

typedef struct connections connections;

/* Runs once for each connection that was taken, when it is gone and each of its
 * messages was delivered. On any thread, but not inside connections_enter or _leave. */
typedef void connections_lost(void *arg, uint32_t id);

/* Watches the socket, which must not listen yet, and closes a connection that comes when
 * there are `max` already, or with an Origin: over WebSocket a browser opened it for some
 * page. NULL when out of memory. */
connections *connections_new(nng_socket socket, uint32_t max, connections_lost *on_lost, void *arg);

/* Closes every connection that comes from now on. */
void connections_refuse_new(connections *all);

/* Counts one more message of a connection as under way, and as being delivered. How
 * many are under way now; 0, counting nothing, when it is gone or doomed and the
 * message is to be dropped. */
uint32_t connections_enter(connections *all, uint32_t id);
void connections_leave(connections *all, uint32_t id);

/* The application has it, or never will: now it may hear of the loss. */
void connections_delivered(connections *all, uint32_t id);

/* Something that waits for its turn to be sent; part of what is sent. */
typedef struct connection_turn {
    struct connection_turn *next;
} connection_turn;

/* One message is sent on a connection at a time. True when it is this one's turn;
 * else connections_pass_turn gives it out later. */
bool connections_take_turn(connections *all, uint32_t id, connection_turn *turn);

/* Ends a turn: whose it is now, or NULL. */
connection_turn *connections_pass_turn(connections *all, uint32_t id);

/* Whether a connection may be sent to: it is not doomed, nor ended by nng or the
 * kernel, by what is known now. One that the kernel has ended is doomed. */
bool connections_stands(connections *all, uint32_t id);

/* Closes a connection as soon as it has been quiet for a moment, in both directions.
 * Its messages are dropped until then. */
void connections_doom(connections *all, uint32_t id);

/* Connections that stand, or are not known to be closed yet. */
size_t connections_count(connections *all);

/* Connections that were closed here and that nng has not given back; dooms those that
 * are found dead. A few for a moment are normal; if they stay, nng's reaper hangs. */
size_t connections_leaked(connections *all);

/* Closes nothing any more. Before the socket is closed; not in a callback of nng's. */
void connections_stop(connections *all);

/* After the socket was closed. Takes NULL. */
void connections_free(connections *all);

#endif

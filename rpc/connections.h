/* The connections of one REP socket and how many messages each has under way.
 * Not thread-safe: its owner locks. */
#ifndef RPC_CONNECTIONS_H
#define RPC_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct connections connections;

typedef struct connection {
    struct connection *next;
    uint32_t id;
    uint32_t in_flight;
} connection;

/* NULL when out of memory. connections_free takes NULL. */
connections *connections_new(uint32_t max);
void connections_free(connections *all);

/* False, adding nothing, when there are `max` already, or out of memory. */
bool connections_add(connections *all, uint32_t id);

/* Ignores an id that is not there. */
void connections_remove(connections *all, uint32_t id);

/* NULL when not there. Valid until it is removed. */
connection *connections_find(const connections *all, uint32_t id);

#endif

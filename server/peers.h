/* How many calls each connection has under way. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_PEERS_H
#define LOCKSTOCK_SERVER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct peers peers;

/* NULL when out of memory. A connection may have `limit` calls under way. */
peers *peers_new(uint32_t limit);
void peers_free(peers *all);

/* Counts one more call; false, counting nothing, at the limit or out of memory.
 * Every true is answered by one peers_leave. */
bool peers_enter(peers *all, uint32_t peer);
void peers_leave(peers *all, uint32_t peer);

#endif

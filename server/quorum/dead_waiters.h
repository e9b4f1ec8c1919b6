/* Waiters of dead servers: no server claims their turn. A call for the lock skips them; this file is for locks that
 * receive no calls. */
#ifndef LOCKSTOCK_SERVER_QUORUM_DEAD_WAITERS_H
#define LOCKSTOCK_SERVER_QUORUM_DEAD_WAITERS_H

#include "quorum/quorum_parts.h"

/* Calls lock_promote for each name of the group that has waiters of a dead server. */
void dead_waiters_skip(quorum *q, const stored_group *s);

#endif

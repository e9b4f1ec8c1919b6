/* Handles waiters of servers that are gone, which cannot claim their turn. A call for the lock skips them; this is for
 * locks without calls. */
#ifndef LOCKSTOCK_SERVER_QUORUM_BURY_H
#define LOCKSTOCK_SERVER_QUORUM_BURY_H

#include "quorum/quorum_parts.h"

/* Calls lock_promote for each name of the group with waiters that a dead server parks. */
void bury_waiters(quorum *q, const stored_group *s);

#endif

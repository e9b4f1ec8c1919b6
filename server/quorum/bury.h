/* Waiters of servers that are gone: nobody claims their turn. A call for the lock passes them over; this is for locks that
 * nobody asks for. */
#ifndef LOCKSTOCK_SERVER_QUORUM_BURY_H
#define LOCKSTOCK_SERVER_QUORUM_BURY_H

#include "quorum/quorum_parts.h"

/* Calls lock_promote for each name of the group for which a server that does not live parks waiters. */
void bury_waiters(quorum *q, const stored_group *s);

#endif

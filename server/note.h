/* The note of this server for the other servers on its store. */
#ifndef LOCKSTOCK_SERVER_NOTE_H
#define LOCKSTOCK_SERVER_NOTE_H

#include "calls/peers.h"
#include "config.h"

/* Version, policy, and the settings that must be alike on all servers of a store; the others are for one machine.
 * `policy`: the digest of its file; "" without one. */
void note_of(const settings *config, const char *policy, char note[PEERS_NOTE_BYTES]);

#endif

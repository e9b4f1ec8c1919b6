/* The note of this server for the other servers on its store. */
#ifndef LOCKSTOCK_SERVER_NOTE_H
#define LOCKSTOCK_SERVER_NOTE_H

#include "calls/peers.h"
#include "config.h"
#include "quorum/quorum.h"

/* Version, policy, and the settings that must be alike on all servers of a store; the others are for one machine.
 * `policy`: the digest of its file; "" without one. `locks`: NULL: there is no lock store. */
void note_settings(peers *p, const settings *config, const char *policy, const quorum *locks);

#endif

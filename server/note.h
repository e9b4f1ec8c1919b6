/* The note that this server writes for the other servers on its store. */
#ifndef LOCKSTOCK_SERVER_NOTE_H
#define LOCKSTOCK_SERVER_NOTE_H

#include "calls/peers.h"
#include "config.h"
#include "quorum/quorum.h"

/* Notes the version, the policy, and the settings that must be equal on all servers of a store; the other settings
 * concern one machine. `policy`: the digest of its file; "" without one. `locks`: NULL without a lock store. */
void note_settings(peers *p, const settings *config, const char *policy, const quorum *locks);

#endif

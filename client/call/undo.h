/* What is sent when a call is cancelled. */
#ifndef LOCKSTOCK_CLIENT_CALL_UNDO_H
#define LOCKSTOCK_CLIENT_CALL_UNDO_H

#include <lockstock/channel.h>

struct request;

/* For a cancelled call that may have reached a server: starts the call that its method's
 * option `undo` names, in the background; without the option nothing. Does not block; the
 * loop thread's. */
void call_undo(lks_channel *channel, const struct request *request);

#endif

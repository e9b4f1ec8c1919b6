/* What a call leaves behind at the server when its caller cancels it. */
#ifndef LOCKSTOCK_CLIENT_CALL_UNDO_H
#define LOCKSTOCK_CLIENT_CALL_UNDO_H

#include <lockstock/channel.h>

struct request;

/* For a cancelled call that may have reached a server: an Acquire has a place in a
 * queue there, or holds what nobody will use, so its token is released, in the
 * background. Any other call leaves nothing. Does not block; the loop thread's. */
void withdraw(lks_channel *channel, const struct request *request);

#endif

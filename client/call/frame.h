/* The calls that travel in one message, from its sending until the last of them has its answer
 * or does not care any more. It is the owner of an endpoint's slot; what becomes of the
 * message it tells each of its calls (call.h). The loop thread's. */
#ifndef LOCKSTOCK_CLIENT_CALL_FRAME_H
#define LOCKSTOCK_CLIENT_CALL_FRAME_H

#include "client/call/channel.h"

struct lks_call;
struct frame;

/* Sends the first of a queue, and those behind it that may ride along; the endpoint has room. */
void frame_send(lks_channel *channel, endpoint_lane lane, struct endpoint *endpoint);

/* Before the message is sent: asks for it back, for the sake of one of its calls. All of them
 * are told that it was sent, or not. */
void frame_withdraw(struct frame *frame);

/* After that: the call does not care any more. It may have been the last one. */
void frame_leave(struct lks_call *call);

extern const endpoint_events frame_events;

#endif

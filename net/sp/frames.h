/* One SP message of calls: a frame in, a reply out. Shared by the transports that carry frames; gRPC carries single
 * calls. Loop thread only. */
#ifndef LOCKSTOCK_NET_FRAMES_H
#define LOCKSTOCK_NET_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/sink.h"

typedef struct frames frames;

/* How a transport sends an answer. Each message ends with exactly one call of reply or close_peer. */
typedef struct frames_port {
    void *(*answer)(void *message, size_t len); /* space for the reply; NULL = out of memory */
    void (*reply)(void *message);               /* sends that reply */
    void (*close_peer)(void *message);          /* closes the connection: the message was not a frame */
} frames_port;

/* Calls go to the sink, which must outlive the frames. message_bytes_max limits replies. LKS_RESOURCE_EXHAUSTED: out
 * of memory. */
lks_code frames_new(const sink *to, size_t message_bytes_max, frames **ret, lks_error *error);

/* No message may be in progress. Takes NULL. */
void frames_free(frames *f);

/* The sender of a message: its connection and credentials. */
typedef struct frames_sender {
    caller *caller;
    budget_share *bytes;     /* the caller's share */
    const char *certificate; /* as in credentials */
    const uid_t *uid;
} frames_sender;

/* Takes a message. Does not use its bytes, or the sender except for the caller, after it returns. The message may end
 * before this returns. received_ns: when it arrived, CLOCK_MONOTONIC. */
void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns);

/* Refuses each of the n calls of a message for which there was no room, instead of frames_take. */
void frames_refuse(frames *f, const frames_port *port, void *message, size_t n);

/* Refuses each call from now on (UNAVAILABLE, NO). */
void frames_drain(frames *f);

#endif

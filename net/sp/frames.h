/* One SP message of calls: a frame in, a reply out. Shared by the transports that
 * carry frames; gRPC carries calls of its own. Loop thread only. */
#ifndef LOCKSTOCK_NET_FRAMES_H
#define LOCKSTOCK_NET_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/sink.h"

typedef struct frames frames;

/* How a transport takes an answer. Exactly one of reply and close_peer ends a
 * message. */
typedef struct frames_port {
    void *(*answer)(void *message, size_t len); /* space for the reply; NULL = out of memory */
    void (*reply)(void *message);               /* sends it */
    void (*close_peer)(void *message);          /* ends the connection: this was no frame */
} frames_port;

/* Calls go to the sink, which outlives it. message_bytes_max bounds replies. LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code frames_new(const sink *to, size_t message_bytes_max, frames **ret, lks_error *error);

/* No message may be under way. Takes NULL. */
void frames_free(frames *f);

/* Who sent a message: the connection, and what it proved. */
typedef struct frames_sender {
    caller *caller;
    budget_share *bytes;     /* that the caller was opened with */
    const char *certificate; /* as in credentials */
    const uid_t *uid;
} frames_sender;

/* Takes a message. Neither its bytes nor the sender, but for the caller, are looked at
 * after this has returned; the message may be ended before that. received_ns: when it
 * arrived, CLOCK_MONOTONIC. */
void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns);

/* Answers a message that was not taken: that refusal for each of its n calls. */
void frames_refuse(frames *f, const frames_port *port, void *message, size_t n, const lks_error *error);

/* From now on each call of a message is refused (UNAVAILABLE, NO). */
void frames_drain(frames *f);

#endif

/* One server as the client sees it. Connections come and go (link.h), the endpoint
 * stays: it opens a new link when one is lost, after a pause that grows while nothing
 * is ever answered, and lets the old one end in peace. What became of a message is told
 * through endpoint_events.
 *
 *   endpoint_send --> sent() --> reply() or lost()
 *          \------> unsent()
 *
 * An unsent() message was not seen by anyone; a lost() one may have been. Everything
 * but endpoint_open and endpoint_close runs on the loop thread, the events too. */
#ifndef LOCKSTOCK_CLIENT_WIRE_ENDPOINT_H
#define LOCKSTOCK_CLIENT_WIRE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "client/loop/loop.h"
#include "client/wire/link.h"

struct endpoint;
typedef link_slot endpoint_slot;

/* Calls that a server holds back for long (WAITING) never take the room of the others: a
 * call that would end their wait must find some. Those that are COALESCED share messages:
 * while FRAMES_MAX of these (endpoint.c) are under way, there is no room for a further one, so
 * that the calls gather for it. Calls that settle share theirs with their like only, for
 * a full server runs them first. */
typedef enum endpoint_lane {
    ENDPOINT_PROMPT,
    ENDPOINT_COALESCED,
    ENDPOINT_COALESCED_SETTLING,
    ENDPOINT_WAITING,
    ENDPOINT_LANES
} endpoint_lane;

static inline bool endpoint_coalesces(endpoint_lane lane)
{
    return lane == ENDPOINT_COALESCED || lane == ENDPOINT_COALESCED_SETTLING;
}

/* None runs inside a function of this header but endpoint_flush. */
typedef struct endpoint_events {
    void (*sent)(void *owner);
    void (*unsent)(void *owner);
    void (*reply)(void *owner, const void *data, size_t len); /* data until it returns */
    void (*lost)(void *owner);
} endpoint_events;

/* What a channel lends to its endpoints; all of it outlives them. */
typedef struct endpoint_options {
    uint32_t in_flight_max; /* calls on a connection that do not wait; of engines that share it, all */
    uint32_t waiting_max;   /* WAITING calls on a connection */
    size_t message_bytes_max;
    const endpoint_events *events;
    struct loop *loop;
    struct tls_context *tls; /* of tls:// */
    const char *server_name; /* in its certificate; NULL = the URL's host */
    uint64_t *random;        /* of backoff_ns */
} endpoint_options;

/* Begins to connect to `url` (of `len` bytes). LKS_INVALID_ARGUMENT: a URL that is
 * none, or whose scheme is unknown. */
lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error);

/* Frees it; no event runs. Not before the loop thread has ended. Takes NULL. */
void endpoint_close(struct endpoint *endpoint);

const char *endpoint_url(const struct endpoint *endpoint);
bool endpoint_connected(const struct endpoint *endpoint);

/* Why it is not connected; "" when nobody has said. */
const char *endpoint_why(const struct endpoint *endpoint);

/* How many calls may be sent in one message now; 0 = none. */
uint32_t endpoint_room(const struct endpoint *endpoint, endpoint_lane lane);

/* Sends a message of n calls; it must be connected and have room. NULL, and the message is still
 * the caller's, when out of memory. The slot is the owner's until unsent(), reply() or
 * lost() is called, or endpoint_forget for the last of its calls. */
endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, uint32_t n, link_message *message,
                             void *owner);

/* Before sent(): asks for the message back. Ends in unsent(), or in sent() when it is
 * too late. */
void endpoint_withdraw(endpoint_slot *slot);

/* After sent(): its owner does not care any more for one of its calls. */
void endpoint_forget(endpoint_slot *slot);

/* A message was not taken for so long that the connection may be gone unnoticed. */
void endpoint_suspect(struct endpoint *endpoint);

/* Once a turn of the loop: writes what was sent. Events run inside. */
void endpoint_flush(struct endpoint *endpoint);

/* Where answers come; NULL when that is no source of the loop, or it is not connected. */
loop_source *endpoint_source(const struct endpoint *endpoint);

/* Once a turn of the loop: closes lost links that no message uses any more. */
void endpoint_tidy(struct endpoint *endpoint);

#endif

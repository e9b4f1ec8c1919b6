/* One server as the client sees it: a REQ socket with one dialer, and a pool of
 * contexts. A context carries one message to its answer, in a slot; what became of
 * it is told through endpoint_events. Everything but endpoint_open and
 * endpoint_close runs on the driver thread, the events too.
 *
 *   IDLE --send--> SENDING --sent()--> RECEIVING --reply(), lost()--> IDLE
 *                     |                    |
 *                  unsent()             forget
 *                     v                    v
 *                    IDLE              FORGOTTEN ------------------> IDLE
 *
 * nng takes a message off a context only when a connection takes it: an unsent()
 * message was not seen by anyone, a lost() one may have been. */
#ifndef LOCKSTOCK_CLIENT_ENDPOINT_H
#define LOCKSTOCK_CLIENT_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>
#include <nng/nng.h>

#include "inbox.h"

struct endpoint;
typedef struct endpoint_slot endpoint_slot;

/* Calls that a server holds back for long (WAITING) never take all slots: a call
 * that would end their wait must find one. */
typedef enum endpoint_lane { ENDPOINT_PROMPT, ENDPOINT_WAITING, ENDPOINT_LANES } endpoint_lane;

/* After sent() exactly one of reply() and lost() follows, unless forgotten. */
typedef struct endpoint_events {
    void (*sent)(void *owner);
    void (*unsent)(void *owner);
    void (*reply)(void *owner, const void *data, size_t len); /* data until it returns */
    void (*lost)(void *owner);
} endpoint_events;

typedef struct endpoint_options {
    uint32_t in_flight_max;
    size_t message_bytes_max;
    const endpoint_events *events; /* not copied */
    struct inbox *inbox;                  /* of the driver; must outlive the endpoint */
} endpoint_options;

/* Dials `url` (of `len` bytes) in the background, again and again. */
lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error);

/* Frees it; no event runs. Not before the driver thread has ended. Blocks until nng
 * is done with it. Takes NULL. */
void endpoint_close(struct endpoint *endpoint);

const char *endpoint_url(const struct endpoint *endpoint);
bool endpoint_connected(const struct endpoint *endpoint);
bool endpoint_has_room(const struct endpoint *endpoint, endpoint_lane lane);

/* Sends a message; it must have room. NULL, and the message is still the caller's,
 * when out of memory. The slot is the owner's until unsent(), reply() or lost() is
 * called, or endpoint_forget. */
endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, nng_msg *message, void *owner);

/* Before sent(): asks for the message back. Ends in unsent(), or in sent() when it
 * was too late. */
void endpoint_withdraw(endpoint_slot *slot);

/* After sent(): its owner does not care any more. */
void endpoint_forget(endpoint_slot *slot);

#endif

/* One server as the client sees it: a connection that is made again and again, and
 * slots, each of which carries one message to its answer. What became of it is told
 * through endpoint_events. Everything but endpoint_open and endpoint_close runs on the
 * driver thread, the events too.
 *
 *   endpoint_send --> SENDING --sent()--> AWAITING --reply(), lost()--> over
 *                        |                   |
 *                     unsent()        endpoint_forget
 *                        v                   v
 *                       over                over
 *
 * An unsent() message was not seen whole by anyone; a lost() one may have been.
 *
 * Two engines do the work: endpoint_sp.c (TCP) and endpoint_nng.c (WebSocket). */
#ifndef LOCKSTOCK_CLIENT_ENDPOINT_H
#define LOCKSTOCK_CLIENT_ENDPOINT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/status.h>

#include "inbox.h"
#include "timers.h"

/* Calls that a server holds back for long (WAITING) never take all slots: a call
 * that would end their wait must find one. */
typedef enum endpoint_lane { ENDPOINT_PROMPT, ENDPOINT_WAITING, ENDPOINT_LANES } endpoint_lane;

/* After sent() exactly one of reply() and lost() follows, unless forgotten. None runs
 * inside endpoint_send or endpoint_forget. */
typedef struct endpoint_events {
    void (*sent)(void *owner);
    void (*unsent)(void *owner);
    void (*reply)(void *owner, const void *data, size_t len); /* data until it returns */
    void (*lost)(void *owner);
} endpoint_events;

/* What a channel lends to its endpoints; all of it outlives them. */
typedef struct endpoint_options {
    uint32_t in_flight_max;
    size_t message_bytes_max;
    const endpoint_events *events;
    struct inbox *inbox;
    struct timers *timers; /* one a endpoint */
    uint64_t *jitter;
} endpoint_options;

/* A message to be sent: malloc'ed, with room before `data` for an engine's header. All
 * but `len` and `data` is the engine's once it was given to endpoint_send. */
enum { ENDPOINT_ROOM = 16 };
typedef struct endpoint_message {
    TAILQ_ENTRY(endpoint_message) in_output;
    struct endpoint_slot *slot;
    size_t len;
    uint8_t room[ENDPOINT_ROOM];
    uint8_t data[];
} endpoint_message;

typedef struct endpoint_slot {
    struct endpoint *endpoint;
    void *owner;
    endpoint_lane lane;
} endpoint_slot;

struct endpoint {
    const struct endpoint_engine *engine;
    endpoint_options options;
    char *url;
    uint32_t in_flight[ENDPOINT_LANES];
};

/* What an engine does; the functions below say what each means. An engine's endpoint
 * begins with a struct endpoint, and its slots with an endpoint_slot. */
struct endpoint_engine {
    lks_code (*open)(const char *address, const endpoint_options *options, struct endpoint **ret, lks_error *error);
    void (*close)(struct endpoint *endpoint);
    bool (*connected)(const struct endpoint *endpoint);
    endpoint_slot *(*send)(struct endpoint *endpoint, endpoint_message *message);
    void (*withdraw)(endpoint_slot *slot);
    void (*forget)(endpoint_slot *slot);
    void (*prepare)(struct endpoint *endpoint, struct pollfd *fd);
    void (*ready)(struct endpoint *endpoint, short events);
};

extern const struct endpoint_engine endpoint_sp, endpoint_nng;

/* Begins to connect to `url` (of `len` bytes). LKS_INVALID_ARGUMENT: a URL that is
 * none, or whose scheme is unknown. */
lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error);

/* Frees it; no event runs. Not before the driver thread has ended. Takes NULL. */
void endpoint_close(struct endpoint *endpoint);

bool endpoint_connected(const struct endpoint *endpoint);
bool endpoint_has_room(const struct endpoint *endpoint, endpoint_lane lane);

/* Sends a message; there must be room. NULL, and the message is still the caller's,
 * when out of memory. The slot is the owner's until unsent(), reply() or lost() is
 * called, or endpoint_forget. */
endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, endpoint_message *message,
                             void *owner);

/* Before sent(): asks for the message back. Ends in unsent(), or in sent() when it is
 * too late; both may run inside. */
void endpoint_withdraw(endpoint_slot *slot);

/* After sent(): its owner does not care any more. */
void endpoint_forget(endpoint_slot *slot);

/* Before the driver sleeps: writes what can be written, and says what to wait for
 * (fd -1 = nothing). */
void endpoint_prepare(struct endpoint *endpoint, struct pollfd *fd);

/* After the driver woke: what poll(2) said, not 0. */
void endpoint_ready(struct endpoint *endpoint, short events);

/* For engines: the slot is over. */
void endpoint_give_back(endpoint_slot *slot);

#endif

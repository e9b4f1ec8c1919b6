/* One connection to a server over libnng: a REQ socket with one dialer, and a pool of
 * its contexts, one to a slot. A slot carries one message to its answer.
 *
 *   link_send --> SENDING --SENT--> AWAITING --REPLY, LOST--> over
 *                    |                  |
 *                  UNSENT           link_forget
 *                    v                  v
 *                   over            FORGOTTEN --FORGOTTEN--> over
 *
 * nng takes a message off a context only when a connection takes it: one that is UNSENT
 * was not seen by anyone, one that is LOST may have been. All functions are the driver
 * thread's, and so are the callbacks, which never run inside of them. */
#ifndef LOCKSTOCK_CLIENT_LINK_H
#define LOCKSTOCK_CLIENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/status.h>
#include <nng/nng.h>

#include "inbox.h"

typedef enum link_outcome { LINK_SENT, LINK_UNSENT, LINK_REPLY, LINK_LOST, LINK_FORGOTTEN } link_outcome;

typedef struct link_slot {
    struct link *link;
    void *owner; /* the user's */
    int lane;    /* the user's */
    enum { LINK_SLOT_IDLE, LINK_SLOT_SENDING, LINK_SLOT_AWAITING, LINK_SLOT_FORGOTTEN } state;
    inbox_item finished; /* the operation of `aio` */
    nng_ctx context;
    nng_aio *aio;
    struct link_slot *next_idle;
} link_slot;

typedef struct link_options {
    const char *address; /* as nng writes it: "tcp://host:port" */
    size_t message_bytes_max;
    uint32_t slots_max;
    struct inbox *inbox;
    inbox_signal *changed; /* raised when link_connected may have changed */
    /* The slot is over unless SENT; data (of a REPLY) until it returns. */
    void (*outcome)(void *arg, link_slot *slot, link_outcome outcome, const void *data, size_t len);
    void *arg;
} link_options;

struct link {
    link_options options;
    TAILQ_ENTRY(link) in_list; /* the user's */
    struct link_watch *watch;
    nng_dialer dialer;
    link_slot **slots;
    size_t n_slots;
    link_slot *idle;
    uint32_t awaiting, in_use; /* slots: awaiting an answer; not idle */
};

/* Begins to connect, and goes on until it is connected. The options are copied; what
 * they point to outlives the link. LKS_INVALID_ARGUMENT: not an address. */
lks_code link_open(const link_options *options, struct link **ret, lks_error *error);

/* Takes all slots with it; no callback runs any more. Not while the driver runs unless
 * no slot is in use. Does not wait for the socket (grave.h). Takes NULL. */
void link_close(struct link *link);

bool link_connected(const struct link *link);

/* Sends a message, which is the link's then. NULL, and it is still the caller's, when
 * out of memory. There must be a slot that is not in use. */
link_slot *link_send(struct link *link, nng_msg *message, int lane, void *owner);

/* Before SENT: asks for the message back. Ends in UNSENT, or in SENT when it is too
 * late. */
void link_withdraw(link_slot *slot);

/* After SENT: its owner does not care any more. */
void link_forget(link_slot *slot);

/* Asks for all messages back that no connection has taken. */
void link_withdraw_all(struct link *link);

#endif

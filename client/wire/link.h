/* One connection to a server, with slots: a slot carries one message to its answer.
 *
 *   link_send --> SENDING --SENT--> AWAITING --REPLY, LOST--> over
 *                    |                  |
 *                  UNSENT           link_forget
 *                    v                  v
 *                   over            FORGOTTEN --FORGOTTEN--> over
 *
 * One that is UNSENT was not seen by anyone, one that is LOST may have been. There are
 * two engines: libnng's REQ sockets (link_nng.c) and one of our own (link_sp.c). All
 * functions are the loop thread's, and so are the callbacks, which never run inside
 * of them, except that link_forget may tell FORGOTTEN. */
#ifndef LOCKSTOCK_CLIENT_WIRE_LINK_H
#define LOCKSTOCK_CLIENT_WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/status.h>

#include "client/loop/loop.h"

struct tls_context;

enum { LINK_HEADROOM = 16 };

/* What is sent, freed with free(). In front of its body is room for an engine's header. */
typedef struct link_message {
    TAILQ_ENTRY(link_message) next; /* the engine's, with slot */
    struct link_slot *slot;
    size_t len; /* of the body */
    uint8_t bytes[];
} link_message;

/* NULL when out of memory. */
link_message *link_message_new(size_t len);

static inline uint8_t *link_message_body(link_message *message)
{
    return message->bytes + LINK_HEADROOM;
}

typedef enum link_state { LINK_CONNECTING, LINK_UP, LINK_OVER } link_state;
typedef enum link_outcome { LINK_SENT, LINK_UNSENT, LINK_REPLY, LINK_LOST, LINK_FORGOTTEN } link_outcome;

typedef struct link_slot {
    struct link *link;
    void *owner; /* the user's */
    int lane;    /* the user's */
    uint32_t n;  /* the user's */
    enum { LINK_SLOT_IDLE, LINK_SLOT_SENDING, LINK_SLOT_AWAITING, LINK_SLOT_FORGOTTEN } state;
    struct link_slot *next_idle;
} link_slot;

typedef struct link_options {
    const struct link_engine *engine;
    const char *address; /* what follows the scheme; as the engine's check wants it */
    const char *scheme;  /* the engine's name of it: "tcp://" */
    size_t message_bytes_max;
    uint32_t slots_max;
    struct loop *loop;
    struct tls_context *tls;                   /* of tls:// */
    const char *server_name;                   /* in its certificate; NULL = the address' host */
    loop_signal *changed;                      /* raised when link_state may have changed, or */
    void (*moved)(void *arg, const char *why); /* called; why: it is over, else NULL */
    /* The slot is over unless SENT; data (of a REPLY) until it returns. */
    void (*outcome)(void *arg, link_slot *slot, link_outcome outcome, const void *data, size_t len);
    void *arg;
} link_options;

struct link {
    link_options options;
    TAILQ_ENTRY(link) in_list; /* the user's */
    link_slot **slots;
    size_t n_slots;
    link_slot *idle;
    uint32_t awaiting; /* slots that await an answer */
    uint32_t in_use;   /* slots that are not idle, and what else is to come back to it */
};

/* Begins to connect, and goes on until it is connected or, of some engines, OVER. The
 * options are copied; what they point to outlives the link. LKS_INVALID_ARGUMENT: not an
 * address; LKS_RESOURCE_EXHAUSTED. */
lks_code link_open(const link_options *options, struct link **ret, lks_error *error);

/* Takes all slots with it; no callback runs any more. Not while the loop thread runs unless
 * in_use is 0. Does not block. Takes NULL. */
void link_close(struct link *link);

link_state link_state_of(const struct link *link);

/* Sends a message, which is the link's then. NULL, and it is still the caller's, when
 * out of memory. There must be a slot that is not in use. */
link_slot *link_send(struct link *link, link_message *message, int lane, uint32_t n, void *owner);

/* Before SENT: asks for the message back. Ends in UNSENT, or in SENT when it is too
 * late. */
void link_withdraw(link_slot *slot);

/* After SENT: its owner does not care any more. */
void link_forget(link_slot *slot);

/* It is to be closed once it is not in use: does not connect any more, and asks for all
 * messages back that are not SENT. */
void link_abandon(struct link *link);

/* Once a turn of the loop: writes what was sent. */
void link_flush(struct link *link);

/* Where answers come; NULL when that is no source of the loop. */
loop_source *link_source(const struct link *link);

/* ---- for engines ------------------------------------------------------------------ */

/* A link and its slots begin with struct link and link_slot. */
struct link_engine {
    /* An address that it takes; else *form is what it must look like. */
    bool (*is_address)(const char *scheme, const char *address);
    lks_code (*open)(const link_options *options, struct link **ret, lks_error *error);
    void (*close)(struct link *link); /* the slots are freed by it, link->slots and the link by link_close */
    link_state (*state)(const struct link *link);
    link_slot *(*slot_new)(struct link *link); /* NULL when out of memory */
    bool (*send)(link_slot *slot, link_message *message);
    void (*withdraw)(link_slot *slot);
    void (*forget)(link_slot *slot);
    void (*abandon)(struct link *link); /* may be NULL, as flush */
    void (*flush)(struct link *link);
    loop_source *(*source)(const struct link *link); /* NULL: nothing comes on the loop thread */
    bool shares_room;                                /* its servers count waiting calls as any other */
    bool overlooks_losses; /* a message that is not taken may mean that the connection is gone */
};

extern const struct link_engine link_nng, link_sp;

/* Zeroed, of `size` bytes, the base filled in; NULL when out of memory. */
struct link *link_new(size_t size, const link_options *options);

/* SENDING -> AWAITING, and tells so. */
void link_sent(link_slot *slot);

/* Any -> over, and tells the outcome. */
void link_slot_over(link_slot *slot, link_outcome outcome, const void *data, size_t len);

#endif

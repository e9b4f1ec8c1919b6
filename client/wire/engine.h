/* The interface between a connection (connection.c) and the engine that carries its messages: SP on sockets
 * (engine_sp.c), gRPC (engine_grpc.c), or libnng (engine_nng.c). Everything here runs on the loop thread.
 *
 * A slot carries one message to its answer:
 *
 *   IDLE --> SENDING --sent--> AWAITING --reply, lost, forgotten--> IDLE
 *               \---unsent--> IDLE
 *
 * No server has seen an unsent message. A server may have seen a lost one.
 *
 * A message is a Frame (rpc/frame.h). For an engine with `one_call_per_message` it has one call, and the
 * engine need not send it as a Frame. */
#ifndef LOCKSTOCK_CLIENT_WIRE_ENGINE_H
#define LOCKSTOCK_CLIENT_WIRE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <lockstock/status.h>

#include "client/loop/loop.h"

struct tls_context;
struct frame_call;

enum { MESSAGE_HEADROOM = 16 };

/* Bytes to send, freed with free(). In front of the body is room for an engine's header. */
typedef struct message {
    TAILQ_ENTRY(message) next; /* the engine's, with slot */
    struct slot *slot;
    size_t len; /* of the body */
    uint8_t bytes[];
} message;

static inline uint8_t *message_body(message *m)
{
    return m->bytes + MESSAGE_HEADROOM;
}

typedef enum slot_state { SLOT_IDLE, SLOT_SENDING, SLOT_AWAITING } slot_state;
typedef enum slot_outcome { SLOT_UNSENT, SLOT_REPLY, SLOT_LOST } slot_outcome;

typedef struct slot {
    struct link *link;
    slot_state state;

    /* The engine's. */
    uint32_t id;       /* at first the slot's place in link->slots */
    void *operation;   /* the engine's state for sending; NULL at first */
    bool engine_owned; /* its answer may come although the link is down: link_down leaves the slot to the engine */

    /* The connection's. */
    struct slot *next_idle;
    int lane;
    uint32_t n, left; /* calls in the message; calls that still wait for the answer */
    uint32_t room;
    struct frame_call **calls; /* NULL: the call does not wait any more */
    struct frame_call *single; /* `calls` while room is 1 */
} slot;

/* The part of a connection that its engine uses: the base of struct connection. */
struct link {
    const char *scheme, *address; /* the engine's name of the scheme, and what follows it */
    size_t message_bytes_max;
    uint32_t keepalive_ms, keepalive_timeout_ms; /* for engines that can ping; 0: no pings */
    uint32_t slots_max;
    uint32_t taken_max; /* set by the engine: how many messages the server accepts at once; UINT32_MAX at first */
    struct loop *loop;
    struct tls_context *tls; /* NULL: the URL is not encrypted */
    const char *server_name; /* in its certificate; NULL = the host of the address */
    uint32_t first_address;  /* which address of a name is tried first; libnng chooses for itself */
    slot **slots;
    size_t n_slots;
    void *transport; /* the engine's */
};

struct engine {
    bool (*is_address)(const char *scheme, const char *address);

    /* `open` makes link->transport; false when out of memory. `close` runs when the loop thread has ended, also while
     * slots are in use; no callback may follow. */
    bool (*open)(struct link *link);
    void (*close)(struct link *link);

    /* Begins to connect. The engine calls link_up or link_down later, or link_down at once. LKS_INVALID_ARGUMENT: not
     * an address; LKS_RESOURCE_EXHAUSTED. */
    lks_code (*connect)(struct link *link, lks_error *error);

    /* Ends what connect began. No slot is in use. */
    void (*disconnect)(struct link *link);

    bool (*send)(slot *s, message *m); /* false when out of memory: the message is still the caller's */
    bool (*withdraw)(slot *s);         /* of SENDING: takes the message back; false: too late, it counts as sent */
    void (*forget)(slot *s); /* of AWAITING: drops a late answer; may be NULL, as may all functions that follow */

    void (*flush)(struct link *link);            /* once a turn of the loop: writes what was sent */
    loop_source *(*source)(struct link *link);   /* where answers come */
    bool (*looks_dead)(const struct link *link); /* while connected: a message was not taken for long */
    bool shares_room;                            /* its servers count waiting calls like others */
    bool one_call_per_message;                   /* messages carry one call each */
};

extern const struct engine engine_sp, engine_grpc, engine_nng;

/* ---- what an engine reports (connection.c) ---------------------------------------------- */

void link_up(struct link *link);
bool link_is_up(const struct link *link);

/* The connection is over, or could not be made. why NULL: unknown. Runs the engine's disconnect. */
void link_down(struct link *link, const char *why);

/* SENDING -> AWAITING. */
void slot_sent(slot *s);

/* -> IDLE. data: the reply, with SLOT_REPLY. */
void slot_end(slot *s, slot_outcome outcome, const void *data, size_t len);

/* AWAITING -> IDLE, for an engine with one_call_per_message: the answer. result NULL: it is malformed, and `why`
 * says how. */
void slot_answer(slot *s, Lockstock__Rpc__V1__Result *result, const char *why);

/* -> IDLE: the connection of the message is over. `withdraw` decides whether it was sent. */
void slot_lose(slot *s);

#endif

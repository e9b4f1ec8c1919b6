/* The connection to one server of a channel, which is made again whenever it is lost, and the messages on it. Calls
 * share messages. Everything except connection_open and connection_close runs on the loop thread. */
#ifndef LOCKSTOCK_CLIENT_WIRE_CONNECTION_H
#define LOCKSTOCK_CLIENT_WIRE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <lockstock/status.h>

#include "client/wire/request.h"
#include "client/loop/loop.h"

struct connection;
struct frame_call;

/* Calls that wait at the server (WAITING) never take the room of the others, so that there is room for a call that ends
 * their wait. COALESCED calls share messages: while 4 of these messages are under way, the next calls gather. Calls
 * that settle share messages only with each other, because a full server runs them first. */
typedef enum connection_lane {
    LANE_PROMPT,
    LANE_COALESCED,
    LANE_COALESCED_SETTLING,
    LANE_WAITING,
    LANES
} connection_lane;

/* What the channel and the connection report to a call. After connection_send: sending, or no_memory; then
 *
 *   sending --> sent --> answered, malformed or lost
 *       \-----> unsent
 *
 * No server has seen an unsent call; a server may have seen a lost one. */
typedef struct frame_call_events {
    void (*no_memory)(struct frame_call *call);
    void (*sending)(struct frame_call *call, uint64_t now_ns);
    void (*sent)(struct frame_call *call, uint64_t now_ns);
    void (*unsent)(struct frame_call *call);
    void (*lost)(struct frame_call *call);
    /* The result is valid until it returns. shared: other calls were in the message. */
    void (*answered)(struct frame_call *call, const Lockstock__Rpc__V1__Result *result, bool shared);
    void (*malformed)(struct frame_call *call, const char *why);

    /* The token that it waited for; NULL: `why` has the error. Valid until it returns. */
    void (*token)(struct frame_call *call, const char *authorization, const lks_error *why);

    void (*closing)(struct frame_call *call);  /* the channel is closed: settles the call */
    void (*complete)(struct frame_call *call); /* runs its completion; the call may be gone afterwards */
} frame_call_events;

/* The part of a call that the channel and the connection use: the base of struct lks_call. */
typedef struct frame_call {
    /* The channel's. */
    TAILQ_ENTRY(frame_call) in_queue; /* in a queue, or in the list of settled calls */
    TAILQ_ENTRY(frame_call) in_calls; /* until settled */
    uint64_t enqueued;

    const frame_call_events *events;
    struct request *request;
    uint32_t tries;      /* tries that may have reached a server */
    lks_applied applied; /* by all tries so far */

    /* The connection's. */
    struct connection *connection; /* of the last try */
    struct slot *slot;             /* NULL: not in a message */
    uint32_t place;                /* in it */
} frame_call;

typedef TAILQ_HEAD(frame_queue, frame_call) frame_queue;

/* The settings of a connection. Everything that they point to must outlive it. */
typedef struct connection_options {
    uint32_t in_flight_max; /* calls on a connection that do not wait; all calls for engines with shares_room */
    uint32_t waiting_max;   /* WAITING calls on a connection */
    size_t message_bytes_max;
    uint32_t keepalive_ms, keepalive_timeout_ms; /* of gRPC; 0: no pings */
    struct loop *loop;
    struct tls_context *tls; /* of URLs that are encrypted */
    const char *server_name; /* the name in its certificate; NULL = the URL's host */
    uint32_t first_address;  /* which address of a name is tried first */
    uint64_t *random;        /* of backoff_ns */
    lks_rpc_arena *arena;    /* for one reply at a time */
} connection_options;

/* Begins to connect to `url` (of `len` bytes). LKS_INVALID_ARGUMENT: not a URL, or an unknown scheme. */
lks_code connection_open(const char *url, size_t len, const connection_options *options, struct connection **ret,
                         lks_error *error);

/* Frees it without further events. Call it when the loop thread has ended. Takes NULL. */
void connection_close(struct connection *c);

/* Whether a URL, or the beginning of one, needs connection_options.tls. */
bool connection_is_encrypted(const char *url);

const char *connection_url(const struct connection *c);
bool connection_is_up(const struct connection *c);

/* Whether it was lost, or could not be made, since it last answered a call. */
bool connection_has_failed(const struct connection *c);

/* Why it is not up; "" when unknown. */
const char *connection_why(const struct connection *c);

/* How many calls may be sent in one message now. */
uint32_t connection_room(const struct connection *c, connection_lane lane);

/* The number of calls that are on it. */
uint32_t connection_load(const struct connection *c);

/* Sends the first call of a queue, and the next calls that share its message. The connection must be up and have
 * room. */
void connection_send(struct connection *c, connection_lane lane, const frame_queue *queue);

/* Takes back the message of a call that is not sent yet. Each of its calls gets `unsent`, or `sent` when it is too
 * late. */
void connection_withdraw(frame_call *call);

/* A sent call does not wait for its answer any more. */
void connection_forget(frame_call *call);

/* A message was not taken for so long that the connection may be dead. */
void connection_suspect(struct connection *c);

/* Once a turn of the loop: writes what was sent. */
void connection_flush(struct connection *c);

/* The source of answers; NULL when it is not a source of the loop, or the connection is not up. */
loop_source *connection_source(struct connection *c);

#endif

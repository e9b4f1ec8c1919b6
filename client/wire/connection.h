/* One server of a channel: the connection to it, which is made again whenever it is lost, and the messages on it. Calls
 * share messages. Everything but connection_open and connection_close runs on the loop thread. */
#ifndef LOCKSTOCK_CLIENT_WIRE_CONNECTION_H
#define LOCKSTOCK_CLIENT_WIRE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <lockstock/status.h>

#include "client/call/request.h"
#include "client/loop/loop.h"

struct connection;
struct frame_call;

/* Calls that wait at the server (WAITING) never take the room of the others, so that a call that would end their wait
 * finds some. COALESCED calls share messages: while 4 of those are under way the next calls gather. Calls that settle
 * share messages with their like only, because a full server runs them first. */
typedef enum connection_lane {
    LANE_PROMPT,
    LANE_COALESCED,
    LANE_COALESCED_SETTLING,
    LANE_WAITING,
    LANES
} connection_lane;

/* What its channel and its connection tell a call. What becomes of one that connection_send took: sending, or
 * no_memory; then
 *
 *   sending --> sent --> answered, malformed or lost
 *       \-----> unsent
 *
 * Nobody has seen an unsent call; a server may have seen a lost one. */
typedef struct frame_call_events {
    void (*no_memory)(struct frame_call *call);
    void (*sending)(struct frame_call *call, uint64_t now_ns);
    void (*sent)(struct frame_call *call, uint64_t now_ns);
    void (*unsent)(struct frame_call *call);
    void (*lost)(struct frame_call *call);
    /* The result is valid until it returns. shared: other calls were in the message. */
    void (*answered)(struct frame_call *call, const Lockstock__Rpc__V1__Result *result, bool shared);
    void (*malformed)(struct frame_call *call, const char *why);

    /* The token that it waited for; NULL: why there is none. Valid until it returns. */
    void (*token)(struct frame_call *call, const char *authorization, const lks_error *why);

    void (*closing)(struct frame_call *call);  /* the channel is closed: settles the call */
    void (*complete)(struct frame_call *call); /* runs its completion; the call may be gone afterwards */
} frame_call_events;

/* A call as its channel and its connection see it: the base of struct lks_call. */
typedef struct frame_call {
    /* The channel's. */
    TAILQ_ENTRY(frame_call) in_line;  /* in a queue, or among the settled */
    TAILQ_ENTRY(frame_call) in_calls; /* until settled */
    uint64_t enqueued;

    const frame_call_events *events;
    struct request *request;
    uint32_t tries;      /* that may have reached a server */
    lks_applied applied; /* by any try so far */

    /* The connection's. */
    struct connection *connection; /* of the last try */
    struct slot *slot;             /* NULL: in no message */
    uint32_t place;                /* in it */
} frame_call;

typedef TAILQ_HEAD(frame_queue, frame_call) frame_queue;

/* What a channel lends to its connections; all of it outlives them. */
typedef struct connection_options {
    uint32_t in_flight_max; /* calls on a connection that do not wait; of engines that share it, all */
    uint32_t waiting_max;   /* WAITING calls on a connection */
    size_t message_bytes_max;
    uint32_t keepalive_ms, keepalive_timeout_ms; /* of gRPC; 0: no pings */
    struct loop *loop;
    struct tls_context *tls; /* of URLs that are encrypted */
    const char *server_name; /* in its certificate; NULL = the URL's host */
    uint32_t first_address;  /* which address of a name is tried first */
    uint64_t *random;        /* of backoff_ns */
    lks_rpc_arena *arena;    /* for one reply at a time */
} connection_options;

/* Begins to connect to `url` (of `len` bytes). LKS_INVALID_ARGUMENT: not a URL, or an unknown scheme. */
lks_code connection_open(const char *url, size_t len, const connection_options *options, struct connection **ret,
                         lks_error *error);

/* Frees it without further events. Not before the loop thread has ended. Takes NULL. */
void connection_close(struct connection *c);

/* Whether a URL, or the beginning of one, needs connection_options.tls. */
bool connection_is_encrypted(const char *url);

const char *connection_url(const struct connection *c);
bool connection_is_up(const struct connection *c);

/* It was lost, or could not be made, since it last answered a call. */
bool connection_has_failed(const struct connection *c);

/* Why it is not up; "" when unknown. */
const char *connection_why(const struct connection *c);

/* How many calls may be sent in one message now. */
uint32_t connection_room(const struct connection *c, connection_lane lane);

/* Calls that are on it. */
uint32_t connection_load(const struct connection *c);

/* Sends the first call of a queue, and those behind it that share its message. The connection is up and has room. */
void connection_send(struct connection *c, connection_lane lane, const frame_queue *queue);

/* Takes the message of a call back that is not sent yet. Each of its calls learns that it is unsent, or, too late,
 * sent. */
void connection_withdraw(frame_call *call);

/* A sent call that waits for its answer no longer. */
void connection_forget(frame_call *call);

/* A message was not taken for so long that the connection may be dead. */
void connection_suspect(struct connection *c);

/* Once a turn of the loop: writes what was sent. */
void connection_flush(struct connection *c);

/* Where answers come; NULL when that is no source of the loop, or it is not up. */
loop_source *connection_source(struct connection *c);

#endif

/* Shared by the two halves of the gRPC engine: engine_grpc.c has the connections, engine_grpc_call.c the calls on them.
 *
 *   CONNECTING --SETTINGS--> UP --GOAWAY, or no ids left--> GOING --> LEAVING --> OVER
 *
 * A LEAVING connection only finishes its calls; the link makes another one. */
#ifndef LOCKSTOCK_CLIENT_WIRE_ENGINE_GRPC_H
#define LOCKSTOCK_CLIENT_WIRE_ENGINE_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <nghttp2/nghttp2.h>

#include "base/heap.h"
#include "client/wire/byte_stream.h"
#include "client/wire/engine.h"
#include "net/grpc/grpc_message.h"

enum { H2_OUTPUT_BYTES = 48 * 1024 };

/* One call on a stream of HTTP/2. It is the operation of its slot until the slot ends; anything that arrives later for
 * the stream is dropped. */

typedef struct grpc_try {
    TAILQ_ENTRY(grpc_try) in_list;    /* of its connection's calls, or of idle ones */
    TAILQ_ENTRY(grpc_try) in_sending; /* while it is completely packed and not yet written, or in `refused` */
    struct h2 *on;
    slot *slot;
    int32_t stream;
    message *message;    /* NULL once it is packed */
    const char *refusal; /* why it is refused without being sent; static, or in the arena */

    uint8_t prefix[GRPC_PREFIX_BYTES];
    ProtobufCBinaryData payload; /* in the message */
    size_t packed;               /* bytes of prefix and payload that nghttp2 has taken */
    uint64_t end_at;             /* position of its last byte in the output; 0: not packed yet */

    /* The answer; its texts are in the arena, which exists once there is one. */
    lks_rpc_arena *arena;
    unsigned http_status;
    bool is_grpc;
    lks_rpc_slice status, text, details, applied;
    lks_rpc_list headers, trailers;
    size_t header_bytes;
    grpc_reader reader;
    uint8_t *response; /* NULL: none yet */
    size_t response_len;
} grpc_try;

typedef TAILQ_HEAD(grpc_tries, grpc_try) grpc_tries;

typedef enum h2_state { H2_CONNECTING, H2_UP, H2_GOING, H2_LEAVING, H2_OVER } h2_state;

/* A connection of HTTP/2. */
typedef struct h2 {
    struct grpc *grpc; /* the owner */
    h2_state state;
    byte_stream stream;
    nghttp2_session *session; /* NULL: none */
    grpc_tries calls, sending, refused;
    grpc_try *packing; /* the call whose last byte nghttp2 is packing */

    uint8_t output[H2_OUTPUT_BYTES];
    size_t output_len, output_done;
    uint64_t packed, taken; /* bytes of output since the connection began */
    TAILQ_ENTRY(h2) in_list;
} h2;

/* The transport of a link. */
typedef struct grpc {
    struct link *link;
    h2 *current;                  /* NULL: not made yet, or leaving */
    struct timer alive;           /* of the current connection: when to ping it, or to give it up */
    uint64_t heard_ns, pinged_ns; /* of it: when bytes last came; when the unanswered ping was sent, or 0 */
    TAILQ_HEAD(, h2) leaving;
    grpc_tries idle;
    lks_rpc_arena *sending; /* for one request at a time */
    lks_rpc_arena *spare;   /* for an answer; NULL: none */
} grpc;

/* engine.send */
bool grpc_try_send(slot *s, message *m);
bool grpc_try_withdraw(slot *s);
void grpc_try_forget(slot *s);

/* Ends the calls that are refused without being sent. */
void grpc_tries_refuse(h2 *h);

/* Makes nghttp2's session. False when out of memory. */
bool grpc_calls_listen(h2 *h);

#endif

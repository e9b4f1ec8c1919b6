/* The state of the gRPC server, its connections and calls. Private to grpc*.c. */
#ifndef LOCKSTOCK_NET_GRPC_STATE_H
#define LOCKSTOCK_NET_GRPC_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <nghttp2/nghttp2.h>

#include "net/grpc/grpc_message.h"
#include "net/grpc/grpc_meter.h"
#include "net/grpc/grpc_types.h"
#include "net/http/exchange.h"
#include "net/http/fields.h"

typedef struct grpc_output {
    size_t len, done;
    uint8_t *data;
    TAILQ_ENTRY(grpc_output) next;
} grpc_output;

struct grpc_connection;

/*   HEADERS --gRPC--> READING --whole request--> RUNNING --done--> ANSWERED (no more output comes)
 *      \                 |\--streaming method--> STREAMING --finish, or too much waits--> ANSWERED
 *       \                 \--refused--> ANSWERED
 *        \--not gRPC--> HTTP --answer--> ANSWERED */
typedef enum grpc_phase {
    GRPC_HEADERS,
    GRPC_READING,
    GRPC_RUNNING,
    GRPC_STREAMING,
    GRPC_HTTP,
    GRPC_ANSWERED
} grpc_phase;

struct grpc_stream {
    grpc_server *all;
    struct grpc_connection *from; /* NULL: the HTTP/2 stream is gone */
    int32_t id;                   /* of the HTTP/2 stream */
    struct running *running;      /* while the sink has it */
    grpc_phase phase;
    lks_rpc_arena *arena;
    uint64_t received_ns;
    size_t header_bytes;
    uint32_t timeout_ms; /* 0: none given */
    http_fields headers; /* including pseudo-headers */
    grpc_reader reader;
    budget_claim held;     /* of the connection's bytes */
    size_t reading;        /* bytes of messages that arrived and were not taken */
    uint64_t input_due_ns; /* deadline of the request, or of a stream's next message */
    uint64_t deadline_ns;  /* grpc-timeout; 0: none */
    uint8_t *request;
    size_t request_len;
    const grpc_streaming_method *method;
    void *state;
    http_exchange *http; /* in the phase HTTP */
    bool too_much;       /* the request did not fit into the budget */
    bool is_http;        /* the answer has no trailers */
    bool half_closed;    /* the client has sent everything */
    bool whole;          /* it did so before it was answered: the call is in n_whole */
    bool gzip;           /* for the answer */
    http_fields reply_headers, trailers;
    TAILQ_HEAD(, grpc_output) output;
    size_t waiting; /* bytes of output */
    size_t taken;   /* bytes of it that the client took since moved_ns */
    uint64_t moved_ns;
    bool responded;                 /* the head of the answer was submitted */
    lks_code code;                  /* of its answer */
    const lks_rpc_additions *added; /* to the answer, while it is written; NULL: nothing */
    lks_error *status;              /* further fields; NULL: none */
    TAILQ_ENTRY(grpc_stream) in_connection, in_stops;
    TAILQ_ENTRY(grpc_stream) in_watched; /* by the clock, while the HTTP/2 stream exists, except in the phase RUNNING */
    bool stops;                          /* in in_stops: the client must be told to stop */
};

/* Bytes that a header field counts beyond its name and value (RFC 7541, 4.1). */
enum { GRPC_FIELD_BYTES = 32, GRPC_HEADER_BYTES_MAX = 16 * 1024 /* of a call; larger ones are refused */ };

/*   OPEN --drain--> NOTICE_SENT (GOAWAY, then a ping) --the ping is answered--> FINAL_DUE --> FINAL_SENT
 *     \------------- mark_ending, in any state before --> END_DUE --> ENDING (nothing more is read) */
typedef enum grpc_connection_state {
    GRPC_OPEN,
    GRPC_NOTICE_SENT,
    GRPC_FINAL_DUE,
    GRPC_FINAL_SENT,
    GRPC_END_DUE,
    GRPC_ENDING
} grpc_connection_state;

/* A connection; the part of grpc.c that calls use. */
typedef struct grpc_connection {
    grpc_server *all;
    stream *stream; /* NULL: gone */
    nghttp2_session *session;
    http_peer peer;
    uid_t uid;             /* of a unix peer */
    const http_site *site; /* of an http:// URL; NULL: gRPC only */
    TAILQ_HEAD(, grpc_stream) calls;
    uint32_t n_calls, n_whole; /* n_whole: with a complete request */
    size_t waiting;            /* bytes of their output */
    uint64_t moved_ns;         /* when the client last took part of an answer */
    TAILQ_HEAD(, grpc_stream) stops;
    bool ready; /* the client's SETTINGS came */
    bool idle;  /* as the stream was told */
    grpc_connection_state state;
    stream_reason why; /* of END_DUE and ENDING; STREAM_ENDED before */
    grpc_meter meter;
    grpc_life life;
    size_t header_bytes; /* of the current header block, decoded */
    TAILQ_ENTRY(grpc_connection) next;
} grpc_connection;

struct grpc_server {
    grpc_server_options options;
    size_t in_flight; /* calls that exist */
    uint64_t random;  /* of backoff_random */
    bool draining;
    TAILQ_HEAD(, grpc_stream) watched;
    TAILQ_HEAD(, grpc_connection) connections;
};

/* Adds to the output that waits for windows. While too much waits, none of the connection's calls starts, because
 * answers would fill memory. */
void grpc_output_waits(grpc_connection *c, size_t bytes);

#endif

/* grpc:// and grpcs://: gRPC over HTTP/2 with nghttp2, on the loop. Unary calls go to the sink, as from every
 * transport. Streaming methods are served by the code that registers them. Loop thread only.
 *
 *   stream --HEADERS--> method? --DATA, END_STREAM--> sink --> HEADERS, DATA, trailers
 *                          \--> streaming method: message... --> send..., finish
 */
#ifndef LOCKSTOCK_NET_GRPC_H
#define LOCKSTOCK_NET_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "net/admission/budget.h"
#include "net/grpc/grpc_life.h"
#include "net/sink.h"
#include "net/stream/stream.h"

typedef struct grpc_server grpc_server;

/* One call of a streaming method. */
typedef struct grpc_stream grpc_stream;

typedef struct grpc_streaming_method {
    const char *path;      /* "/grpc.health.v1.Health/Watch" */
    lks_rpc_effect effect; /* the right that a policy must grant; 0: none, for requests of up to 4 KiB */
    /* A call begins. Returns its state; NULL when out of memory. */
    void *(*open)(void *arg, grpc_stream *s);
    /* A request message, valid until this returns. */
    void (*message)(void *state, const uint8_t *data, size_t len);
    /* The client will send no more. */
    void (*half_closed)(void *state);
    /* The call has ended: the stream must not be used any more. */
    void (*closed)(void *state);
    void *arg;
} grpc_streaming_method;

/* A metadata value of the call, with a NUL; NULL when there is none. Valid until `closed`. */
const char *grpc_stream_header(const grpc_stream *s, const char *name);

/* Whether the message in `message` was compressed. */
bool grpc_stream_compressed(const grpc_stream *s);

/* Adds metadata to send before the first message, and after the last. Copies the texts. */
void grpc_stream_add_header(grpc_stream *s, const char *name, const char *value);
void grpc_stream_add_trailer(grpc_stream *s, const char *name, const char *value);

/* Sends a response message. */
void grpc_stream_send(grpc_stream *s, const void *data, size_t len);

/* Bytes that the client has not taken. A sender that can wait should wait above some limit. */
size_t grpc_stream_waiting(const grpc_stream *s);

/* Ends the call with a status (code LKS_OK: success); `closed` follows. */
void grpc_stream_finish(grpc_stream *s, const lks_error *status);

enum { GRPC_TICK_MS = 500 };

typedef struct grpc_server_options {
    streams *streams; /* outlives it */
    const sink *sink;
    size_t message_bytes_max;
    uint32_t in_flight_per_peer, waiting_per_peer; /* MAX_CONCURRENT_STREAMS: both */
    uint32_t request_ms;                           /* limit from a call's first byte to its last */
    uint32_t stall_ms;                             /* limit while the peer takes nothing of an answer that waits */
    grpc_life_options life;
    const grpc_streaming_method *methods;
    size_t n_methods;
} grpc_server_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code grpc_server_new(const grpc_server_options *options, grpc_server **ret, lks_error *error);

/* Errors as streams_listen_tcp; context NULL: without TLS (h2c with prior knowledge). */
lks_code grpc_server_listen(grpc_server *all, const char *address, tls_context *const *context, uint16_t *bound,
                            lks_error *error);

/* Errors as streams_listen_unix. */
lks_code grpc_server_listen_unix(grpc_server *all, const char *path, lks_error *error);

/* Errors as streams_listen_fd. */
lks_code grpc_server_listen_fd(grpc_server *all, int fd, tls_context *const *context, uint16_t *bound,
                               lks_error *error);

/* Takes over a connection of an http:// URL before its preface. Requests that are not gRPC go to the site
 * (http/exchange.h). Returns the state for the functions of grpc_server_protocol, which the caller calls; NULL: out of
 * memory. */
struct http_site;
void *grpc_server_adopt(grpc_server *all, stream *s, const struct http_site *site, bool is_local);
const stream_protocol *grpc_server_protocol(void);

/* Ends calls and connections whose time limits have passed. Call it every GRPC_TICK_MS. */
void grpc_server_tick(grpc_server *all);

/* Tells every client to send no new calls (GOAWAY, in two steps), and refuses calls that come nevertheless. */
void grpc_server_drain(grpc_server *all);

/* Calls whose answer is not complete. */
size_t grpc_server_in_flight(const grpc_server *all);

/* The streams must be closed and no call in progress. Takes NULL. */
void grpc_server_free(grpc_server *all);

#endif

/* grpc:// and grpcs://: gRPC over HTTP/2 on nghttp2, on the loop. Unary calls go to
 * the sink like those of every transport; methods that stream are served by whoever
 * registers them. Loop thread only.
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
#include "net/sink.h"
#include "net/stream/stream.h"

typedef struct grpc_server grpc_server;

/* One call of a streaming method. */
typedef struct grpc_stream grpc_stream;

typedef struct grpc_streaming_method {
    const char *path;      /* "/grpc.health.v1.Health/Watch" */
    lks_rpc_effect effect; /* what a policy must allow; 0: it is open to everybody, for requests of 4 KiB at most */
    /* It begins; what is kept for it, NULL when out of memory. */
    void *(*open)(void *arg, grpc_stream *s);
    /* A request message; data until it returns. */
    void (*message)(void *state, const uint8_t *data, size_t len);
    /* The client will send no more. */
    void (*half_closed)(void *state);
    /* The call is over, in any way: nothing may be called on the stream any more. */
    void (*closed)(void *state);
    void *arg;
} grpc_streaming_method;

/* Metadata that came with the call: the header's value, with a NUL; NULL when there is
 * none. Valid until `closed`. */
const char *grpc_stream_header(const grpc_stream *s, const char *name);

/* Whether the message that is being told came compressed. */
bool grpc_stream_compressed(const grpc_stream *s);

/* Metadata to send: before the first message, and after the last. Text is copied. */
void grpc_stream_add_header(grpc_stream *s, const char *name, const char *value);
void grpc_stream_add_trailer(grpc_stream *s, const char *name, const char *value);

/* Sends a response message. */
void grpc_stream_send(grpc_stream *s, const void *data, size_t len);

/* Bytes sent and not yet taken by the client: a sender that can wait waits at some. */
size_t grpc_stream_waiting(const grpc_stream *s);

/* Ends the call with a status (code LKS_OK: success); `closed` follows. */
void grpc_stream_finish(grpc_stream *s, const lks_error *status);

enum { GRPC_TICK_MS = 500 };

typedef struct grpc_server_options {
    streams *streams; /* outlives it */
    const sink *sink;
    size_t message_bytes_max;
    uint32_t in_flight_per_peer, waiting_per_peer; /* MAX_CONCURRENT_STREAMS: both */
    uint32_t request_ms; /* from a call's first byte to its last, or between messages of a stream */
    uint32_t stall_ms;   /* while an answer is held back and the peer takes none of it */
    const grpc_streaming_method *methods;
    size_t n_methods;
} grpc_server_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code grpc_server_new(const grpc_server_options *options, grpc_server **ret, lks_error *error);

/* Errors as streams_listen_tcp; context NULL: without TLS (h2c with prior knowledge). */
lks_code grpc_server_listen(grpc_server *all, const char *address, tls_context *const *context, uint16_t *bound,
                            lks_error *error);

/* Ends the calls, and the connections, whose time is over: to be called now and then,
 * every GRPC_TICK_MS or so. */
void grpc_server_tick(grpc_server *all);

/* Tells every connection to send no new calls (GOAWAY, in two steps), and refuses those
 * that come all the same. */
void grpc_server_drain(grpc_server *all);

/* Calls not yet answered to their end. */
size_t grpc_server_in_flight(const grpc_server *all);

/* With the streams closed and no call under way. Takes NULL. */
void grpc_server_free(grpc_server *all);

#endif

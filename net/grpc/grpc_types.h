/* The types of grpc.h, and the functions for calls of streaming methods. */
#ifndef LOCKSTOCK_NET_GRPC_TYPES_H
#define LOCKSTOCK_NET_GRPC_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "net/grpc/grpc_life.h"
#include "net/sink.h"
#include "net/stream/stream_types.h"

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

/* Sends a response message. */
void grpc_stream_send(grpc_stream *s, const void *data, size_t len);

/* Ends the call with a status (code LKS_OK: success); `closed` follows. */
void grpc_stream_finish(grpc_stream *s, const lks_error *status);

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

#endif

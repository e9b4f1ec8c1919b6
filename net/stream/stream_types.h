/* The types of stream.h, which the parts of the streams use too. */
#ifndef LOCKSTOCK_NET_STREAM_TYPES_H
#define LOCKSTOCK_NET_STREAM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/admission/budget.h"

struct uv_loop_s;

typedef struct streams streams;
typedef struct stream stream;

/* Why a connection ends or is refused; for the log. */
typedef enum stream_reason {
    STREAM_ENDED, /* the protocol closed it */
    STREAM_PEER_LEFT,
    STREAM_LOST,
    STREAM_STOPPED,
    STREAM_BROKEN, /* bytes that are not of the protocol */
    STREAM_NO_TLS,
    STREAM_NOT_GREETED,
    STREAM_NOT_FINISHED,
    STREAM_NOT_TAKEN,
    STREAM_TOO_COSTLY,
    STREAM_TOO_MANY_PINGS,
    STREAM_PEER_GONE,
    STREAM_TOO_OLD,
    STREAM_IDLE,
    STREAM_NO_MEMORY,
    STREAM_GIVEN_UP,
    STREAM_REFUSED,
    STREAM_NO_DESCRIPTOR,
    STREAM_REASONS
} stream_reason;

/* A protocol over streams. No function of this header calls them before it returns. */
typedef struct stream_protocol {
    /* Its names without and with TLS, for limits, which look at their first 8 bytes, and the log. NULL: "other". */
    const char *name, *tls_name;
    /* A new connection. Returns its state, which is passed to the other functions; NULL refuses the connection. */
    void *(*open)(void *arg, stream *s);
    /* Bytes arrived. */
    void (*bytes)(void *connection, const uint8_t *data, size_t len);
    /* The connection's turn: it must process the bytes that it kept. False: it kept none. NULL: the protocol never
     * keeps bytes. */
    bool (*kept)(void *connection);
    /* Runs at the end of the loop's turn, after stream_produce: write now. May be NULL. */
    void (*produce)(void *connection);
    /* All output has been written. */
    void (*drained)(void *connection);
    /* The connection is gone: no function may be called on the stream any more. A close by the peer is detected in any
     * state, also while the connection is not read. Bytes that were not read are then lost. */
    void (*closed)(void *connection);
} stream_protocol;

/* Where to listen. */
typedef struct stream_address {
    const char *text; /* "host:port", where port 0 lets the system choose, or the path of a unix socket; NULL: */
    int fd;           /* of a socket that is already listening */
    bool is_unix;
    bool is_local; /* by IP, and only from this machine */
    /* The context of a connection is the one that *tls is when it arrives. NULL: without TLS. */
    struct tls_context *const *tls;
} stream_address;

/* A line for the log: an event, and key=value pairs. */
typedef void stream_log(void *arg, bool warns, const char *event, const char *line);

typedef struct streams_options {
    struct uv_loop_s *loop;
    uint32_t connections_max; /* a further connection replaces the longest idle one, or is refused when none is idle */
    uint32_t connections_per_wire;    /* 0: no limit */
    uint32_t connections_per_address; /* 0: no limit; for unix sockets, by user */
    uint32_t connections_for_unix;    /* of connections_max, for unix sockets only */
    uint32_t greeting_ms;             /* from accept to stream_ready, with TLS */
    uint32_t idle_ms;                 /* without a byte read or written, while the stream is idle */
    uint32_t stall_ms;                /* while output waits and the peer does not read it */
    uint32_t request_ms;              /* for a message, from its first byte; 0: no limit */
    budget *budget;                   /* must outlive the streams, and every share of them */
    stream_log *tell;                 /* for connections that end or are refused; NULL: no log */
    void *tell_arg;
} streams_options;

/* A block of output, allocated by the caller and freed by the stream. */
typedef struct stream_block {
    TAILQ_ENTRY(stream_block) next;
    size_t len;
    uint8_t data[];
} stream_block;

#endif

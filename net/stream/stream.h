/* Connections on the loop: TCP, TLS and unix sockets, listened on, read, written, timed.
 * What is spoken over them is a protocol's, which this does not know. Loop thread only.
 *
 *   accepted --(TLS)--open--> OPEN --peer ends, stream_close, a timer--> CLOSING --closed--> freed
 *                               bytes... in order
 *
 * Output is kept until the end of the loop's turn and leaves in one system call. */
#ifndef LOCKSTOCK_NET_STREAM_H
#define LOCKSTOCK_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <lockstock/status.h>

#include "net/admission/budget.h"
#include "net/tls.h"

struct uv_loop_s;

typedef struct streams streams;
typedef struct stream stream;

/* Why a connection ends, or is not let in; for the log. */
typedef enum stream_reason {
    STREAM_ENDED, /* the protocol is done with it */
    STREAM_PEER_LEFT,
    STREAM_LOST,
    STREAM_STOPPED,
    STREAM_BROKEN, /* not the protocol */
    STREAM_NO_TLS,
    STREAM_NOT_GREETED,
    STREAM_NOT_FINISHED,
    STREAM_NOT_TAKEN,
    STREAM_TOO_COSTLY,
    STREAM_IDLE,
    STREAM_NO_MEMORY,
    STREAM_GIVEN_UP,
    STREAM_REFUSED,
    STREAM_NO_DESCRIPTOR,
    STREAM_REASONS
} stream_reason;

/* What speaks over streams. None of these runs inside a function of this header. */
typedef struct stream_protocol {
    /* What it is called in plain and over TLS, in fewer than 8 bytes: for limits and the log. NULL:
     * "other". */
    const char *name, *tls_name;
    /* A new connection: what is kept for it, given to the others; NULL refuses it. */
    void *(*open)(void *arg, stream *s);
    /* Bytes came; they are the protocol's now. */
    void (*bytes)(void *connection, const uint8_t *data, size_t len);
    /* Its turn has come: takes bytes that it was given and has kept. False: it has none. NULL: it never has. */
    bool (*kept)(void *connection);
    /* It asked by stream_produce, and the turn ends: what it has to say now goes out. May
     * be NULL. */
    void (*produce)(void *connection);
    /* Output that waited for the peer is gone. */
    void (*drained)(void *connection);
    /* It is gone: no function may be called on the stream any more. The end of a peer is
     * seen in any state, also while it is not read from; what it sent and was not read yet
     * is then dropped. */
    void (*closed)(void *connection);
} stream_protocol;

/* A line for the log: an event, and key=value pairs. */
typedef void stream_tell(bool warns, const char *event, const char *line);

typedef struct streams_options {
    struct uv_loop_s *loop;
    uint32_t connections_max;         /* for one more the idlest is given up; where none is idle it is refused */
    uint32_t connections_per_wire;    /* 0: as many */
    uint32_t connections_per_address; /* 0: as many; of a unix socket the user counts */
    uint32_t connections_for_unix;    /* of connections_max, for unix sockets only */
    uint32_t greeting_ms;             /* from accept to stream_ready, TLS included */
    uint32_t idle_ms;                 /* with nothing read or written, while stream_idle says so */
    uint32_t stall_ms;                /* while output waits and the peer takes none */
    uint32_t request_ms;              /* for a message, from its first byte; 0: as long as it takes */
    budget *budget;                   /* outlives the streams, and every share of them */
    stream_tell *tell;                /* of connections that end or are not let in; NULL: nobody is told */
} streams_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code streams_new(const streams_options *options, streams **ret, lks_error *error);

/* Listens on "host:port" (port 0 lets the system choose; *bound gets it), in plain or,
 * where `context` is not NULL, over TLS with what *context then is; or on the path of a unix socket: one that nobody listens on any more is replaced; made with mode
 * 0600. The protocol is static; arg is its `open`'s. LKS_INVALID_ARGUMENT: no such
 * address; LKS_UNAVAILABLE: in use, or not ours. */
lks_code streams_listen_tcp(streams *all, const char *address, tls_context *const *context,
                            const stream_protocol *protocol, void *arg, uint16_t *bound, lks_error *error);
lks_code streams_listen_unix(streams *all, const char *path, const stream_protocol *protocol, void *arg,
                             lks_error *error);

/* No new connections from now on. */
void streams_stop_accepting(streams *all);

/* Whether output waits to be taken. */
bool streams_flushing(const streams *all);

/* Closes all connections. None may come any more. */
void streams_hang_up(streams *all);

/* Closes all listeners and connections; `closed` runs on the loop when all is freed. */
void streams_close(streams *all, void (*closed)(void *arg), void *arg);

/* What is spoken on it, and where it comes from, for the log. Static; the stream's. */
const char *stream_wire(const stream *s);
const char *stream_from(const stream *s);

/* The same without the port, and of IPv6 the network of 64 bits: what one host has for itself. The stream's. */
const char *stream_origin(const stream *s);

/* The name in the peer's verified certificate, the stream's; NULL without one. */
const char *stream_peer_certificate(const stream *s);

/* The user at the other end of a unix socket; false for other connections. */
bool stream_peer_uid(const stream *s, uid_t *uid);

/* The greeting is over: greeting_ms ends, idle_ms begins. */
void stream_ready(stream *s);

/* Whether nothing is under way: it may be closed when nothing happens for idle_ms, or when a newcomer
 * needs its place and it is nobody's (by its certificate, or stream_bytes). At first
 * it is not idle. */
void stream_idle(stream *s, bool idle);

/* Whether a message has begun to come and is not whole; `anew`: it is another one than
 * when this was called before. One that is not whole within request_ms ends the connection; the
 * time in which the stream is paused does not count. */
void stream_unfinished(stream *s, bool unfinished, bool anew);

/* The connection's share of the budget, which holds the bytes of output that waits. It lives until `closed`, and then as long as
 * it holds bytes. Its principal (budget_set_principal) decides whether an idle connection may be closed for a new one. */
budget_share *stream_bytes(const stream *s);

/* Stops reading, but for what was read already; and goes on. */
void stream_pause(stream *s);
void stream_resume(stream *s);

/* Output, allocated by the caller, freed by the stream. */
typedef struct stream_block {
    TAILQ_ENTRY(stream_block) next;
    size_t len;
    uint8_t data[];
} stream_block;

/* A block with room for len bytes; NULL when out of memory. */
stream_block *stream_block_new(size_t len);

/* Takes the block. Dropped when the stream is closing. */
void stream_write(stream *s, stream_block *block);

/* Asks for `produce` at the end of this turn of the loop. */
void stream_produce(stream *s);

/* Bytes written and not yet taken by the kernel. */
size_t stream_waiting(const stream *s);

/* Whether it is: then nothing of it needs to be worked for any more. */
bool stream_is_closing(const stream *s);

/* Ends it: `closed` follows, later. What waits to be written is tried once. The first
 * reason counts. stream_close: STREAM_ENDED. */
void stream_end(stream *s, stream_reason why);
void stream_close(stream *s);

#endif

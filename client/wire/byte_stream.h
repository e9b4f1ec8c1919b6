/* Bytes to and from a server over TCP, TLS or a unix socket, without blocking. A stream may be opened again after it
 * was closed. All functions run on the loop thread, and so do the callbacks.
 *
 *   CLOSED --open--> [RESOLVING] --> CONNECTING, to one of the addresses --> [HANDSHAKE] --> UP
 *     ^                  |               |                                           |            |
 *     +------------------+---------------+----- failed(), then bytes_close ----------+------------+ */
#ifndef LOCKSTOCK_CLIENT_WIRE_BYTE_STREAM_H
#define LOCKSTOCK_CLIENT_WIRE_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/address.h"
#include "client/loop/loop.h"
#include "client/wire/dial.h"
#include "net/tls.h"

enum { BYTES_WHY_MAX = 128 };

typedef enum byte_stream_state {
    BYTES_CLOSED,
    BYTES_RESOLVING,
    BYTES_CONNECTING,
    BYTES_HANDSHAKE,
    BYTES_UP
} byte_stream_state;

/* The user sets the first part and the target before bytes_init. What they point to must outlive the stream. */
typedef struct byte_stream {
    tls_context *tls_context; /* NULL = plain */
    const char *alpn;         /* the protocol that TLS must negotiate; NULL = none */
    const char *server_name;  /* the name that the server's certificate must have; NULL = the host */
    uint32_t first_address;   /* for dial_start */
    struct loop *loop;
    void (*up)(struct byte_stream *b);
    void (*readable)(struct byte_stream *b); /* call bytes_read until it returns no bytes */
    void (*failed)(struct byte_stream *b);   /* it failed before it was up: b->why. May run inside bytes_open */

    struct address address; /* unless `path` is set */
    const char *path;       /* of a unix socket; NULL = the address */

    byte_stream_state state;
    loop_source source; /* the socket, once up; watched while its fd is not -1 */
    struct timer timer; /* the end of HANDSHAKE */
    dial dial;
    struct resolution *resolution; /* may outlast RESOLVING and be used by the next open */
    loop_task resolved;
    struct addrinfo *addresses; /* until one is connected */
    bool blocked;               /* the kernel takes no more bytes now */
    bool drained;               /* all bytes were read since the source was found ready */
    char why[BYTES_WHY_MAX];

    tls *tls; /* NULL = plain */
    uint8_t *cipher;
    size_t cipher_len, cipher_done; /* ciphertext that must be sent first */
} byte_stream;

/* Sets the target: the path of a unix socket if the scheme is "unix://" or ends with it, else HOST:PORT. False: it is
 * invalid. */
bool bytes_aim(byte_stream *b, const char *scheme, const char *address);

/* The is_address of an engine. */
static inline bool bytes_is_address(const char *scheme, const char *address)
{
    byte_stream probe;

    return bytes_aim(&probe, scheme, address);
}

void bytes_init(byte_stream *b);
void bytes_open(byte_stream *b);
void bytes_close(byte_stream *b);

/* Frees a stream when the loop thread has ended. */
void bytes_fini(byte_stream *b);

/* Once up: reads bytes. Returns 0 when there are none now, -1 when the stream is over: b->why. */
ssize_t bytes_read(byte_stream *b, uint8_t *data, size_t len);

/* Once up: takes as many bytes as can be written now, or soon, since TLS keeps some. The end of the stream is found
 * when it is read, after all bytes that arrived before. */
size_t bytes_write(byte_stream *b, const struct iovec *parts, size_t n);

/* Writes the bytes that TLS keeps; call it once per turn. False when no bytes are taken now. */
bool bytes_flush(byte_stream *b);

#endif

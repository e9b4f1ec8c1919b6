/* WebSocket (RFC 6455), server side, without I/O: network bytes in, pieces of messages and output out.
 *
 *   REQUEST --101--> OPEN --close frame or error--> OVER
 *      \----refused------------------------------------^
 *
 * Binary messages only, without extensions. The caller unmasks each piece into its own memory; this module keeps no
 * bytes of messages. */
#ifndef LOCKSTOCK_NET_WEBSOCKET_H
#define LOCKSTOCK_NET_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/sp/websocket_request.h"

enum {
    WEBSOCKET_REQUEST_BYTES_MAX = 8192,
    WEBSOCKET_HEADER_BYTES_MAX = 10,
    WEBSOCKET_CONTROL_BYTES_MAX = 125,
    WEBSOCKET_EMPTY_MAX = 64, /* frames without a byte, in one message */
    WEBSOCKET_OUTPUT_BYTES_MAX = WEBSOCKET_ANSWER_BYTES_MAX + 2 * (2 + WEBSOCKET_CONTROL_BYTES_MAX),
};

/* Codes of the close frame. */
enum {
    WEBSOCKET_WRONG = 1002, /* protocol error */
    WEBSOCKET_NOT_BINARY = 1003,
    WEBSOCKET_NO_PROGRESS = 1008, /* more than WEBSOCKET_EMPTY_MAX */
    WEBSOCKET_TOO_LONG = 1009,
};

typedef struct websocket websocket;

/* message_bytes_max: of a message, over all its frames. The site must outlive it. NULL when out of memory. */
websocket *websocket_new(const websocket_site *site, size_t message_bytes_max);

/* Takes NULL. */
void websocket_free(websocket *w);

typedef enum websocket_event {
    WEBSOCKET_MORE,   /* all bytes were read; no event */
    WEBSOCKET_OPENED, /* the request was accepted: send the output first of all */
    WEBSOCKET_PIECE,
    WEBSOCKET_OVER, /* nothing more is read; the output says why */
    WEBSOCKET_NO_MEMORY,
} websocket_event;

/* Bytes of a message, possibly none. */
typedef struct websocket_piece {
    const uint8_t *bytes; /* masked, inside the bytes that were read */
    size_t len;
    uint8_t key[4];   /* the mask at the first of these bytes */
    size_t announced; /* bytes of the message in all frames that have begun */
    bool last;        /* of the message: it has `announced` bytes */
} websocket_piece;

/* Reads up to the first event. *taken is how many bytes it read. */
websocket_event websocket_read(websocket *w, const uint8_t *data, size_t len, size_t *taken, websocket_piece *piece);

/* Writes the piece's bytes without the mask. */
void websocket_unmask(const websocket_piece *piece, uint8_t *to);

/* Closes the connection because of what a message contained. */
void websocket_fail(websocket *w, unsigned code);

/* Output for the peer: the response to its request, a pong for its last ping, and a close frame. Returns the length,
 * 0 when there is none. */
size_t websocket_output(websocket *w, uint8_t out[WEBSOCKET_OUTPUT_BYTES_MAX]);

/* Writes the header of a frame of `len` bytes of a binary message: the only frame, or the first or last of several.
 * Returns the length. */
size_t websocket_write_header(bool first, bool last, size_t len, uint8_t out[WEBSOCKET_HEADER_BYTES_MAX]);

#endif

/* WebSocket (RFC 6455), server side, without I/O: bytes of the network in, pieces of
 * messages out, and what the peer is to be told.
 *
 *   request --101--> open --close frame, a mistake--> over
 *      \----refused------------------------------------^
 *
 * Binary messages only, no extensions. A piece is the caller's to unmask, to where it
 * wants it: nothing of a message is kept here. */
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
    WEBSOCKET_SAY_BYTES_MAX = WEBSOCKET_ANSWER_BYTES_MAX + 2 * (2 + WEBSOCKET_CONTROL_BYTES_MAX),
};

/* Why a connection ends, in the close frame. */
enum {
    WEBSOCKET_WRONG = 1002, /* against the protocol */
    WEBSOCKET_NOT_BINARY = 1003,
    WEBSOCKET_NO_PROGRESS = 1008, /* more than WEBSOCKET_EMPTY_MAX */
    WEBSOCKET_TOO_LONG = 1009,
};

typedef struct websocket websocket;

/* A message may have message_bytes_max bytes, over all its frames. The site outlives it.
 * NULL when out of memory. */
websocket *websocket_new(const websocket_site *site, size_t message_bytes_max);

/* Takes NULL. */
void websocket_free(websocket *w);

typedef enum websocket_event {
    WEBSOCKET_MORE,   /* all bytes were taken; nothing to tell */
    WEBSOCKET_OPENED, /* the request was accepted: what there is to say goes before all else */
    WEBSOCKET_PIECE,
    WEBSOCKET_OVER, /* nothing more is read; what there is to say says why */
    WEBSOCKET_NO_MEMORY,
} websocket_event;

/* Some bytes of a message, perhaps none. */
typedef struct websocket_piece {
    const uint8_t *bytes; /* masked, among those that were read */
    size_t len;
    uint8_t key[4];   /* the mask, from the first of these bytes on */
    size_t announced; /* bytes of the message, these included, by the frames that have begun */
    bool last;        /* of the message: it has `announced` bytes */
} websocket_piece;

/* Reads on, up to the first event; *taken of the bytes. */
websocket_event websocket_read(websocket *w, const uint8_t *data, size_t len, size_t *taken, websocket_piece *piece);

/* Writes the piece's bytes as they were meant. */
void websocket_unmask(const websocket_piece *piece, uint8_t *to);

/* Ends it for what was in a message. */
void websocket_fail(websocket *w, unsigned code);

/* What the peer is to be told now: the answer to its request, to the last of its pings,
 * and that it is over. Gives its length, 0 when there is nothing. */
size_t websocket_say(websocket *w, uint8_t out[WEBSOCKET_SAY_BYTES_MAX]);

/* Writes what stands before `len` bytes of a binary message, in one frame or as the
 * first or last of several; gives its length. */
size_t websocket_write_header(bool first, bool last, size_t len, uint8_t out[WEBSOCKET_HEADER_BYTES_MAX]);

#endif

/* SP's request/reply protocol without I/O: bytes in, messages and bytes out; for servers
 * (REP), and for the client (REQ). It speaks with every socket of libnng and nanomsg.
 *
 *   handshake  00 'S' 'P' 00  00 30 00 00        once, from REQ; from REP 00 31
 *   message    [01]  length (8, big-endian)      [01] on unix sockets only
 *              hop ids (4 each), request id (4)  high bit set in the last, and only there
 *              a Frame or a Reply
 *
 * Over WebSocket (websocket.h) its handshake and its frames stand in place of SP's own
 * handshake and length: a binary message is a message, from its ids on.
 *
 * A device between the two may have pushed hop ids onto a request; its reply carries
 * them back as they came.
 *
 * Source: rfc "SP TCP mapping", "SP WebSocket mapping" and "SP request/reply" of nanomsg;
 * for unix sockets nng's ipc transport. No function here blocks or calls back except
 * sp_read. */
#ifndef LOCKSTOCK_NET_SP_SP_H
#define LOCKSTOCK_NET_SP_SP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/admission/budget.h"
#include "net/sp/sp_calls.h"
#include "net/sp/websocket.h"

enum {
    SP_HANDSHAKE_BYTES = 8,
    SP_ID_BYTES = 4,
    SP_HOPS_MAX = 8,
    SP_STACK_BYTES_MAX = (SP_HOPS_MAX + 1) * SP_ID_BYTES,
    SP_HEADER_BYTES_MAX = WEBSOCKET_HEADER_BYTES_MAX + SP_STACK_BYTES_MAX, /* the longest of all */
    SP_SAY_BYTES_MAX = WEBSOCKET_SAY_BYTES_MAX,
};

typedef enum sp_mapping { SP_OVER_TCP, SP_OVER_UNIX, SP_OVER_WEBSOCKET } sp_mapping;

/* What REP says first, but over WebSocket; and the subprotocol there. */
extern const uint8_t sp_rep_handshake[SP_HANDSHAKE_BYTES];
extern const char sp_rep_subprotocol[];

/* A message. bytes: the ids, then the frame or the reply, unless it was skipped. */
typedef struct sp_message {
    size_t ids_len, len; /* len: of all bytes */
    bool skipped;        /* there was no room for it: of `bytes` only the ids may be looked at */
    size_t n_results;    /* of one that was skipped: results that answer it */
    uint8_t bytes[];
} sp_message;

typedef struct sp_reader {
    sp_mapping mapping;
    bool of_client; /* it reads replies */
    size_t frame_bytes_max;
    websocket *websocket;           /* NULL: another mapping */
    bool shaken, greeted, too_long; /* too_long: why it is broken */
    uint8_t head[9];                /* handshake, or what stands before a message */
    size_t head_len;
    budget_share *share; /* NULL: nothing is counted */
    sp_message *message; /* being read; has room for `room` bytes, wants `wanted` */
    size_t room, wanted;
    size_t seen;    /* bytes of it that came; message->len of them are kept */
    size_t held;    /* bytes of the share */
    sp_calls calls; /* of one that is skipped */
    bool more;      /* wants yet more, whose length is not known */
} sp_reader;

/* Takes a message, to be freed with free(). False: enough for now. */
typedef bool sp_take(void *arg, sp_message *message);

/* A frame may have frame_bytes_max bytes. */
void sp_reader_init(sp_reader *r, sp_mapping mapping, size_t frame_bytes_max);

/* The client's: of replies, not over WebSocket, with the one id that its requests have. */
void sp_reader_init_client(sp_reader *r, sp_mapping mapping, size_t reply_bytes_max);

/* From now on what is half read is held as bytes of the share, which outlives the reader;
 * a message that finds no room there is skipped. */
void sp_reader_charge(sp_reader *r, budget_share *share);

/* The same for SP_OVER_WEBSOCKET. The site outlives it. False when out of memory. */
bool sp_reader_init_websocket(sp_reader *r, const websocket_site *site, size_t frame_bytes_max);

/* Frees what is half read. */
void sp_reader_end(sp_reader *r);

/* Whether it is between messages, and the handshake is done. */
bool sp_reader_idle(const sp_reader *r);

typedef enum sp_verdict { SP_FINE, SP_BROKEN, SP_NO_MEMORY } sp_verdict;

/* Takes bytes; *taken of them, all unless `take` had enough, or something is to be said
 * before what follows. Memory grows with what has come, never with the length that was
 * announced; a message that is taken is counted no more. SP_BROKEN: this is not SP, or not
 * of the other side, or it is too long, or the peer closes; nothing more can be read. */
sp_verdict sp_read(sp_reader *r, const uint8_t *data, size_t len, size_t *taken, sp_take *take, void *arg);

/* What the peer is to be told besides replies: first of all, after each sp_read, and
 * before an end. Gives its length, 0 when there is nothing. */
size_t sp_say(sp_reader *r, uint8_t out[SP_SAY_BYTES_MAX]);

/* An id of a client's request, and of the reply to it: any number with SP_ID_MARK. */
#define SP_ID_MARK UINT32_C(0x80000000)
uint32_t sp_id_read(const uint8_t id[SP_ID_BYTES]);
void sp_id_write(uint32_t number, uint8_t id[SP_ID_BYTES]);

/* The length of what stands before a message's ids, but over WebSocket. */
size_t sp_prefix_bytes(sp_mapping mapping);

/* Writes what stands before a message of `len` bytes with those ids, ids and all; gives its
 * length, at most SP_HEADER_BYTES_MAX. */
size_t sp_write_header(sp_mapping mapping, const uint8_t *ids, size_t ids_len, size_t len, uint8_t *out);

#endif

/* SP's request/reply protocol without I/O, for servers (REP) and the client (REQ). It is compatible with every
 * socket of libnng and nanomsg.
 *
 *   handshake  00 'S' 'P' 00  00 30 00 00        once, from REQ; from REP 00 31
 *   message    [01]  length (8, big-endian)      [01] on unix sockets only
 *              hop ids (4 each), request id (4)  high bit set in the last, and only there
 *              a Frame or a Reply
 *
 * Over WebSocket (websocket.h), the WebSocket handshake and frames replace SP's handshake and length: a binary
 * message is a message, from its ids on.
 *
 * A device between client and server may push hop ids onto a request; the reply returns them.
 *
 * Source: RFCs "SP TCP mapping", "SP WebSocket mapping" and "SP request/reply" of nanomsg; for unix sockets nng's
 * ipc transport. Only sp_read calls back; no function blocks. */
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
    SP_OUTPUT_BYTES_MAX = WEBSOCKET_OUTPUT_BYTES_MAX,
};

typedef enum sp_mapping { SP_OVER_TCP, SP_OVER_UNIX, SP_OVER_WEBSOCKET } sp_mapping;

/* The handshake of REP, except over WebSocket; and the WebSocket subprotocol. */
extern const uint8_t sp_rep_handshake[SP_HANDSHAKE_BYTES];
extern const char sp_rep_subprotocol[];

/* A message. bytes: the ids, then the frame or the reply, unless it was skipped. */
typedef struct sp_message {
    size_t ids_len, len; /* len: of all bytes */
    bool skipped;        /* there was no room: only the ids in `bytes` are valid */
    size_t n_results;    /* of a skipped message: how many results answer it */
    uint8_t bytes[];
} sp_message;

typedef struct sp_reader {
    sp_mapping mapping;
    bool of_client; /* for a client, which reads replies */
    size_t frame_bytes_max;
    websocket *websocket;                   /* NULL: another mapping */
    bool handshake_done, greeted, too_long; /* too_long: why the stream is broken */
    uint8_t head[9];                        /* handshake, or prefix of a message */
    size_t head_len;
    budget_share *share; /* NULL: no bytes are held */
    sp_message *message; /* being read; has room for `room` bytes and gets `wanted` */
    size_t room, wanted;
    size_t seen;    /* bytes of it that arrived; message->len of them are kept */
    size_t held;    /* bytes of the share */
    sp_calls calls; /* of a skipped message */
    bool more;      /* more frames follow, of unknown length */
} sp_reader;

/* Takes a message and frees it with free(). False: stop for now. */
typedef bool sp_take(void *arg, sp_message *message);

/* A frame may have frame_bytes_max bytes. */
void sp_reader_init(sp_reader *r, sp_mapping mapping, size_t frame_bytes_max);

/* A client's reader, of replies with one id; not over WebSocket. */
void sp_reader_init_client(sp_reader *r, sp_mapping mapping, size_t reply_bytes_max);

/* From now on, the share holds the bytes of partly read messages. It must outlive the reader. A message without
 * room is skipped. */
void sp_reader_charge(sp_reader *r, budget_share *share);

/* The same for SP_OVER_WEBSOCKET. The site must outlive the reader. False when out of memory. */
bool sp_reader_init_websocket(sp_reader *r, const websocket_site *site, size_t frame_bytes_max);

/* Frees a partly read message. */
void sp_reader_end(sp_reader *r);

/* Whether the handshake is done and no message is partly read. */
bool sp_reader_idle(const sp_reader *r);

typedef enum sp_verdict { SP_FINE, SP_BROKEN, SP_NO_MEMORY } sp_verdict;

/* Reads bytes. *taken is how many were processed: all, unless `take` stops, or output must be sent before the rest.
 * Memory grows with the bytes that arrive, never with an announced length; the share does not hold taken messages.
 * SP_BROKEN: the bytes are not SP, not of the other side's protocol, or too long, or the peer closes; nothing more can
 * be read. */
sp_verdict sp_read(sp_reader *r, const uint8_t *data, size_t len, size_t *taken, sp_take *take, void *arg);

/* Output other than replies: call it before all else, after each sp_read, and before closing. Returns the length, 0
 * when there is none. */
size_t sp_output(sp_reader *r, uint8_t out[SP_OUTPUT_BYTES_MAX]);

/* The id of a client's request and its reply: any number with SP_ID_MARK. */
#define SP_ID_MARK UINT32_C(0x80000000)
uint32_t sp_id_read(const uint8_t id[SP_ID_BYTES]);
void sp_id_write(uint32_t number, uint8_t id[SP_ID_BYTES]);

/* The length of a message's prefix, except over WebSocket. */
size_t sp_prefix_bytes(sp_mapping mapping);

/* Writes the prefix of a message of `len` bytes and its ids. Returns the length, at most SP_HEADER_BYTES_MAX. */
size_t sp_write_header(sp_mapping mapping, const uint8_t *ids, size_t ids_len, size_t len, uint8_t *out);

#endif

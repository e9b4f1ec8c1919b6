/* Invariant: `wanted` is checked against the limit before memory is allocated. `room` is at most twice the bytes
 * that arrived, or ROOM_MIN. The share holds `room` bytes, and none for a skipped message. Called by
 * sp_server.c, and by the client's engine_sp.c. */
#include "net/sp/sp.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ROOM_MIN = 1024, UNIX_MESSAGE = 1, PLAIN_BYTES = 4096 /* whole masks */ };

static const uint8_t req_handshake[SP_HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
const uint8_t sp_rep_handshake[SP_HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
const char sp_rep_subprotocol[] = "rep.sp.nanomsg.org";

void sp_reader_init(sp_reader *r, sp_mapping mapping, size_t frame_bytes_max)
{
    *r = (sp_reader){.mapping = mapping, .frame_bytes_max = frame_bytes_max};
}

void sp_reader_init_client(sp_reader *r, sp_mapping mapping, size_t reply_bytes_max)
{
    sp_reader_init(r, mapping, reply_bytes_max);
    r->of_client = true;
}

void sp_reader_charge(sp_reader *r, budget_share *share)
{
    r->share = share;
}

bool sp_reader_init_websocket(sp_reader *r, const websocket_site *site, size_t frame_bytes_max)
{
    sp_reader_init(r, SP_OVER_WEBSOCKET, frame_bytes_max);
    r->websocket = websocket_new(site, frame_bytes_max + SP_STACK_BYTES_MAX);
    return r->websocket;
}

void sp_reader_end(sp_reader *r)
{
    free(r->message);
    r->message = NULL;
    if (r->held > 0)
        budget_give(r->share, r->held);
    r->held = 0;
    websocket_free(r->websocket);
    r->websocket = NULL;
}

bool sp_reader_idle(const sp_reader *r)
{
    return r->handshake_done && !r->message && r->head_len == 0;
}

size_t sp_prefix_bytes(sp_mapping mapping)
{
    return mapping == SP_OVER_UNIX ? 1 + LENGTH_BYTES : LENGTH_BYTES;
}

uint32_t sp_id_read(const uint8_t id[SP_ID_BYTES])
{
    uint32_t number;

    memcpy(&number, id, sizeof number);
    return be32toh(number);
}

void sp_id_write(uint32_t number, uint8_t id[SP_ID_BYTES])
{
    number = htobe32(number);
    memcpy(id, &number, sizeof number);
}

/* Holds the bytes of a buffer. Returns false and changes nothing when there is no room. */
static bool hold(sp_reader *r, size_t bytes)
{
    if (!r->share)
        return true;
    if (bytes > r->held && !budget_take(r->share, bytes - r->held))
        return false;
    if (bytes < r->held)
        budget_give(r->share, r->held - bytes);
    r->held = bytes;
    return true;
}

static bool set_room(sp_reader *r, size_t room)
{
    sp_message *changed = realloc(r->message, sizeof *changed + room);

    if (!changed)
        return false;
    if (!r->message)
        changed->len = 0;
    changed->skipped = false;
    r->message = changed;
    r->room = room;
    return true;
}

/* Keeps only the ids of the bytes that arrived. */
static bool begin_skipping(sp_reader *r)
{
    size_t room = SP_STACK_BYTES_MAX;

    r->calls = (sp_calls){0};
    if (r->message)
        sp_calls_pass(&r->calls, r->message->bytes, r->message->len);
    if (r->message && r->message->len > room)
        r->message->len = room;
    if (!set_room(r, room))
        return false;
    hold(r, 0);
    r->message->skipped = true;
    return true;
}

/* Makes room for `more` bytes that have arrived, and at most as many again, or starts to skip the message. False
 * when out of memory. */
static bool make_room(sp_reader *r, size_t more)
{
    size_t have = r->message ? r->message->len : 0;

    if (r->message && (r->message->skipped || r->room - have >= more))
        return true;
    size_t room = 2 * (have + more) > ROOM_MIN ? 2 * (have + more) : ROOM_MIN;
    if (room > r->wanted)
        room = r->wanted;
    return hold(r, room) ? set_room(r, room) : begin_skipping(r);
}

/* Appends bytes of a message; there must be room for those that are kept. */
static void append(sp_reader *r, const uint8_t *data, size_t len)
{
    sp_message *m = r->message;
    size_t n = r->room - m->len < len ? r->room - m->len : len;

    memcpy(m->bytes + m->len, data, n);
    m->len += n;
    r->seen += len;
    if (m->skipped)
        sp_calls_pass(&r->calls, data, len);
}

/* The prefix of a message is complete. */
static sp_verdict begin_message(sp_reader *r)
{
    uint64_t length;

    if (r->mapping == SP_OVER_UNIX && r->head[0] != UNIX_MESSAGE)
        return SP_BROKEN;
    memcpy(&length, r->head + sp_prefix_bytes(r->mapping) - LENGTH_BYTES, LENGTH_BYTES);
    length = be64toh(length);
    r->too_long = length > r->frame_bytes_max + (r->of_client ? SP_ID_BYTES : SP_STACK_BYTES_MAX);
    if (length < SP_ID_BYTES || r->too_long)
        return SP_BROKEN;
    r->wanted = (size_t)length;
    r->seen = r->head_len = 0;
    return make_room(r, 0) ? SP_FINE : SP_NO_MEMORY;
}

/* Finds the request id, the first with the high bit set. A reply has no other id. */
static bool find_ids(const sp_reader *r, sp_message *message)
{
    if (r->of_client) {
        message->ids_len = SP_ID_BYTES;
        return true;
    }
    for (size_t end = SP_ID_BYTES; end <= message->len && end <= SP_STACK_BYTES_MAX; end += SP_ID_BYTES) {
        if (message->bytes[end - SP_ID_BYTES] & 0x80) {
            message->ids_len = end;
            return r->seen - end <= r->frame_bytes_max;
        }
    }
    return false;
}

/* Collects `wanted` bytes of the head. Returns how many bytes of data it took. */
static size_t read_head(sp_reader *r, size_t wanted, const uint8_t *data, size_t len)
{
    size_t n = wanted - r->head_len < len ? wanted - r->head_len : len;

    memcpy(r->head + r->head_len, data, n);
    r->head_len += n;
    return n;
}

/* Skipped bytes are unmasked as well, to find ids and count calls. */
static void append_piece(sp_reader *r, const websocket_piece *piece)
{
    uint8_t plain[PLAIN_BYTES];
    websocket_piece part = *piece;

    if (!r->message->skipped) {
        websocket_unmask(piece, r->message->bytes + r->message->len);
        r->message->len += piece->len;
        r->seen += piece->len;
        return;
    }
    for (size_t left = piece->len; left > 0; left -= part.len, part.bytes += part.len) {
        part.len = left < sizeof plain ? left : sizeof plain;
        websocket_unmask(&part, plain);
        append(r, plain, part.len);
    }
}

static sp_verdict read_websocket(sp_reader *r, const uint8_t *data, size_t len, size_t *n)
{
    websocket_piece piece;

    switch (websocket_read(r->websocket, data, len, n, &piece)) {
    case WEBSOCKET_MORE:
        return SP_FINE;
    case WEBSOCKET_OPENED:
        r->handshake_done = true;
        return SP_FINE;
    case WEBSOCKET_PIECE:
        if (!r->message)
            r->seen = 0;
        r->wanted = piece.announced;
        r->more = !piece.last;
        if (!make_room(r, piece.len))
            return SP_NO_MEMORY;
        append_piece(r, &piece);
        return SP_FINE;
    case WEBSOCKET_OVER:
        return SP_BROKEN;
    default:
        return SP_NO_MEMORY;
    }
}

/* Reads one part: handshake, prefix or body, as far as the data goes. */
static sp_verdict read_some(sp_reader *r, const uint8_t *data, size_t len, size_t *n)
{
    if (r->websocket)
        return read_websocket(r, data, len, n);
    if (r->message) {
        *n = r->wanted - r->seen < len ? r->wanted - r->seen : len;
        if (!make_room(r, *n))
            return SP_NO_MEMORY;
        append(r, data, *n);
        return SP_FINE;
    }
    size_t head = r->handshake_done ? sp_prefix_bytes(r->mapping) : SP_HANDSHAKE_BYTES;
    *n = read_head(r, head, data, len);
    if (!r->handshake_done) {
        if (memcmp(r->head, r->of_client ? sp_rep_handshake : req_handshake, r->head_len) != 0)
            return SP_BROKEN;
        r->handshake_done = r->head_len == head;
        r->head_len = r->handshake_done ? 0 : r->head_len;
        return SP_FINE;
    }
    return r->head_len == head ? begin_message(r) : SP_FINE;
}

static sp_verdict no_request(sp_reader *r)
{
    if (r->websocket)
        websocket_fail(r->websocket, WEBSOCKET_WRONG);
    return SP_BROKEN;
}

sp_verdict sp_read(sp_reader *r, const uint8_t *data, size_t len, size_t *taken, sp_take *take, void *arg)
{
    bool more = true;

    *taken = 0;
    while (*taken < len && more) {
        size_t n;
        bool was_handshake_done = r->handshake_done;
        sp_verdict verdict = read_some(r, data + *taken, len - *taken, &n);
        if (verdict != SP_FINE)
            return verdict;
        *taken += n;
        if (r->message && r->seen == r->wanted && !r->more) {
            sp_message *whole = r->message;
            if (!find_ids(r, whole))
                return no_request(r);
            whole->n_results = whole->skipped ? sp_calls_results(&r->calls) : 0;
            r->message = NULL;
            hold(r, 0);
            more = take(arg, whole);
        }
        /* Stop here: the response that opens a WebSocket must precede answers. */
        if (r->websocket && r->handshake_done && !was_handshake_done)
            more = false;
    }
    return SP_FINE;
}

size_t sp_output(sp_reader *r, uint8_t out[SP_OUTPUT_BYTES_MAX])
{
    if (r->websocket)
        return websocket_output(r->websocket, out);
    if (r->greeted)
        return 0;
    r->greeted = true;
    memcpy(out, r->of_client ? req_handshake : sp_rep_handshake, SP_HANDSHAKE_BYTES);
    return SP_HANDSHAKE_BYTES;
}

size_t sp_write_header(sp_mapping mapping, const uint8_t *ids, size_t ids_len, size_t len, uint8_t *out)
{
    size_t prefix = sp_prefix_bytes(mapping);
    uint64_t length = htobe64(ids_len + len);

    if (mapping == SP_OVER_WEBSOCKET) {
        prefix = websocket_write_header(true, true, ids_len + len, out);
    } else {
        out[0] = UNIX_MESSAGE; /* overwritten over TCP */
        memcpy(out + prefix - LENGTH_BYTES, &length, LENGTH_BYTES);
    }
    memcpy(out + prefix, ids, ids_len);
    return prefix + ids_len;
}

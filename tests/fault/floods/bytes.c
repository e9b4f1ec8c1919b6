#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <nghttp2/nghttp2.h>

enum { FRAME_MAX = 16384, CALLS_MAX = 256 };

static uint8_t *room_for(bytes *b, size_t len)
{
    if (b->len + len > b->room) {
        b->room = 2 * (b->len + len);
        b->data = realloc(b->data, b->room);
        if (!b->data)
            abort();
    }
    b->len += len;
    return b->data + b->len - len;
}

void bytes_put(bytes *b, const void *data, size_t len)
{
    uint8_t *to = room_for(b, len);

    if (len > 0)
        memcpy(to, data, len);
}

void bytes_fill(bytes *b, uint8_t value, size_t len)
{
    memset(room_for(b, len), value, len);
}

void bytes_drop(bytes *b, size_t len)
{
    b->len -= len;
    if (b->len > 0)
        memmove(b->data, b->data + len, b->len);
}

void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

static void put_big_endian(bytes *b, uint64_t value, size_t n)
{
    uint8_t *to = room_for(b, n);

    for (size_t i = n; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
}

/* ---- HTTP/2 ----------------------------------------------------------------------------- */

void h2_put_frame(bytes *b, uint8_t type, uint8_t flags, uint32_t id, const void *data, size_t len)
{
    put_big_endian(b, len, 3);
    put_big_endian(b, type, 1);
    put_big_endian(b, flags, 1);
    put_big_endian(b, id, 4);
    bytes_put(b, data, len);
}

void h2_put_preface(bytes *b, long window)
{
    const uint8_t setting[] = {0,
                               NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                               (uint8_t)(window >> 24),
                               (uint8_t)(window >> 16),
                               (uint8_t)(window >> 8),
                               (uint8_t)window};

    bytes_put(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    h2_put_frame(b, NGHTTP2_SETTINGS, 0, 0, setting, window >= 0 ? sizeof setting : 0);
    h2_put_frame(b, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0); /* at once: the server's windows and limits count */
}

/* RFC 7541, 5.1, with a prefix of 7 bits. */
static void put_hpack_text(bytes *b, const char *text)
{
    size_t len = strlen(text), rest = len;

    put_big_endian(b, len < 127 ? len : 127, 1);
    if (len >= 127) {
        for (rest -= 127; rest >= 128; rest >>= 7)
            put_big_endian(b, 128 | (rest & 127), 1);
        put_big_endian(b, rest, 1);
    }
    bytes_put(b, text, len);
}

static void put_field(bytes *b, const char *name, const char *value)
{
    put_big_endian(b, 0, 1);
    put_hpack_text(b, name);
    put_hpack_text(b, value);
}

void hpack_put_start(bytes *b, const char *path)
{
    put_field(b, ":method", "POST");
    put_field(b, ":scheme", "http");
    put_field(b, ":path", path);
    put_field(b, ":authority", "floods");
    put_field(b, "content-type", "application/grpc");
    put_field(b, "te", "trailers");
}

/* "Bearer TOKEN" of a call that has one. */
static const char *authorization_of(const wire_call *c, char out[128])
{
    snprintf(out, 128, "Bearer %s", c->token);
    return out;
}

void h2_put_headers(bytes *b, uint32_t id, const wire_call *c)
{
    char authorization[128];
    bytes block = {0};

    hpack_put_start(&block, c->path);
    if (c->token)
        put_field(&block, "authorization", authorization_of(c, authorization));
    if (c->name)
        put_field(&block, c->name, c->value);
    h2_put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block.data, block.len);
    bytes_free(&block);
}

void h2_put_message(bytes *b, uint32_t id, const void *data, size_t len, bool compressed, uint8_t flags)
{
    bytes message = {0};

    put_big_endian(&message, compressed, 1);
    put_big_endian(&message, len, 4);
    bytes_put(&message, data, len);
    for (size_t at = 0, n; at < message.len; at += n) {
        n = message.len - at < FRAME_MAX ? message.len - at : FRAME_MAX;
        h2_put_frame(b, NGHTTP2_DATA, at + n == message.len ? flags : 0, id, message.data + at, n);
    }
    bytes_free(&message);
}

/* ---- SP --------------------------------------------------------------------------------- */

static void put_greeting(bytes *b, wire w)
{
    static const char upgrade[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";

    if (w == WIRE_WS)
        bytes_put(b, upgrade, sizeof upgrade - 1);
    else
        bytes_put(b, "\0SP\0\0\x30\0\0", 8);
}

/* The head of a binary message; a mask of zeros changes nothing. */
static void put_websocket_head(bytes *b, uint64_t len)
{
    const size_t len_bytes = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8;

    put_big_endian(b, 0x82, 1);
    put_big_endian(b, 0x80 | (len_bytes == 0 ? len : len_bytes == 2 ? 126 : 127), 1);
    put_big_endian(b, len, len_bytes);
    put_big_endian(b, 0, 4);
}

void sp_put_length(bytes *b, wire w, uint64_t len)
{
    if (w == WIRE_WS) {
        put_websocket_head(b, len);
        return;
    }
    if (w == WIRE_UNIX)
        put_big_endian(b, 1, 1);
    put_big_endian(b, len, 8);
}

void sp_put_frame(bytes *b, wire w, uint32_t id, const wire_call *c, size_t n)
{
    Lockstock__Rpc__V1__Frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;
    Lockstock__Rpc__V1__Call one = LOCKSTOCK__RPC__V1__CALL__INIT, *calls[CALLS_MAX];
    Lockstock__Rpc__V1__Metadata metadata = LOCKSTOCK__RPC__V1__METADATA__INIT, *list[] = {&metadata};
    char authorization[128];

    one.method = (char *)(uintptr_t)c->path;
    one.payload = (ProtobufCBinaryData){.len = c->len, .data = (uint8_t *)(uintptr_t)c->payload};
    one.timeout_ms = c->timeout_ms;
    if (c->token) {
        authorization_of(c, authorization);
        metadata.key = "authorization";
        metadata.value = (ProtobufCBinaryData){.len = strlen(authorization), .data = (uint8_t *)authorization};
        one.metadata = list;
        one.n_metadata = 1;
    }
    for (size_t i = 0; i < CALLS_MAX; i++)
        calls[i] = &one;
    frame.calls = calls;
    frame.n_calls = n;
    size_t len = lockstock__rpc__v1__frame__get_packed_size(&frame);
    sp_put_length(b, w, 4 + len);
    put_big_endian(b, id | UINT32_C(0x80000000), 4);
    lockstock__rpc__v1__frame__pack(&frame, room_for(b, len));
}

/* ---- both ------------------------------------------------------------------------------- */

void put_beginning(bytes *b, wire w)
{
    if (target_uses_h2(w))
        h2_put_preface(b, -1);
    else
        put_greeting(b, w);
}

void put_call(bytes *b, wire w, uint32_t nth, const wire_call *c)
{
    if (!target_uses_h2(w)) {
        sp_put_frame(b, w, nth + 1, c, 1);
        return;
    }
    h2_put_headers(b, 2 * nth + 1, c);
    h2_put_message(b, 2 * nth + 1, c->payload, c->len, false, NGHTTP2_FLAG_END_STREAM);
}

/* ---- requests --------------------------------------------------------------------------- */

void pack(bytes *b, const ProtobufCMessage *message)
{
    protobuf_c_message_pack(message, room_for(b, protobuf_c_message_get_packed_size(message)));
}

void pack_uuids(bytes *b)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;

    request.kind = LKS_ID_KIND_UUID_V7;
    request.count = 10000;
    pack(b, &request.base);
}

void pack_acquire(bytes *b, const char *name, const char *token, uint32_t wait_ms)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};

    target.name = name;
    request.targets = targets;
    request.n_targets = 1;
    request.token = token;
    request.lease_ms = 60000;
    request.wait_ms = wait_ms;
    pack(b, &request.base);
}

void pack_waiting_acquire(bytes *b, unsigned nth, uint32_t wait_ms, size_t padding)
{
    char token[48];

    snprintf(token, sizeof token, "a-waiting-token-%016x", nth);
    pack_acquire(b, HELD_LOCK, token, wait_ms);
    if (padding > 0) { /* field 1000, bytes */
        bytes_put(b,
                  (const uint8_t[]){0xC2, 0x3E, (uint8_t)(padding | 0x80), (uint8_t)(padding >> 7 | 0x80),
                                    (uint8_t)(padding >> 14 & 0x7F)},
                  5);
        bytes_fill(b, 'x', padding);
    }
}

/* SP over WebSocket without a library: one call a message, any number under way. Every second
 * message goes in two frames with a ping between. */
#include "conformance/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/line.h"
#include "conformance/sp_frame.h"

enum { ID = 4, MASK = 4, HEAD_MAX = 14, ANSWER_MAX = 1024, REPLY_MAX = 16 << 20 };
enum { FINAL = 0x80, CONTINUED = 0, BINARY = 2, PING = 9, PONG = 10, MASKED = 0x80, LENGTH_16 = 126, LENGTH_64 = 127 };

typedef struct ws_caller {
    line *line;
    unsigned last_id;
} ws_caller;

/* Reads the answer to the request, byte by byte: what follows it is of frames. */
static bool is_accepted(line *l)
{
    static const char wanted[] = "HTTP/1.1 101 ";
    static const char accept[] = "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"; /* RFC 6455's example */
    char got[ANSWER_MAX + 1] = "";

    for (size_t n = 0; n < ANSWER_MAX && line_receive_all(l, got + n, 1); n++)
        if (strstr(got, "\r\n\r\n"))
            return strncmp(got, wanted, sizeof wanted - 1) == 0 && strstr(got, accept);
    return false;
}

static void *open_on(line *l, const char *url)
{
    static const char form[] = "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";
    char request[512];
    int len = snprintf(request, sizeof request, form, strchr(strstr(url, "://") + 3, '/'));

    if (!l || !line_send(l, request, (size_t)len) || !is_accepted(l)) {
        line_close(l);
        return NULL;
    }
    ws_caller *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->line = l;
    return c;
}

static void *open_caller(const char *url, const char *certificate)
{
    return open_on(line_open(url, certificate, NULL), url);
}

/* A frame of `head`, the first of its bytes. */
static bool send_frame(ws_caller *c, unsigned head, const uint8_t *payload, size_t len)
{
    static const uint8_t mask[MASK] = {0x37, 0xfa, 0x21, 0x3d};
    uint8_t *frame = malloc(HEAD_MAX + len);
    size_t n = 2, length_bytes = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;

    if (!frame)
        abort();
    frame[0] = (uint8_t)head;
    frame[1] = (uint8_t)(MASKED | (length_bytes == 0   ? len
                                   : length_bytes == 2 ? (size_t)LENGTH_16
                                                       : (size_t)LENGTH_64));
    for (size_t i = length_bytes; i-- > 0;)
        frame[n++] = (uint8_t)(len >> (8 * i));
    memcpy(frame + n, mask, MASK);
    n += MASK;
    for (size_t i = 0; i < len; i++)
        frame[n + i] = payload[i] ^ mask[i % MASK];
    bool sent = line_send(c->line, frame, n + len);
    free(frame);
    return sent;
}

static unsigned start(void *caller, const call_spec *call)
{
    ws_caller *c = caller;
    size_t len = 0, half;
    uint8_t *frame = sp_frame_of(call, &len);
    uint8_t *message = malloc(ID + len);
    unsigned id = ++c->last_id;

    if (!message)
        abort();
    memcpy(message, (uint8_t[]){(uint8_t)(0x80 | id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id}, ID);
    memcpy(message + ID, frame, len);
    len += ID;
    half = id % 2 == 0 ? len / 2 : 0;
    bool sent = half == 0 || (send_frame(c, BINARY, message, half) && send_frame(c, FINAL | PING, message, ID));
    sent = sent && send_frame(c, FINAL | (half == 0 ? BINARY : CONTINUED), message + half, len - half);
    free(frame);
    free(message);
    return sent ? id : 0;
}

/* Appends a frame's payload; gives the frame's first byte, -1 when there is none. */
static int receive_frame(ws_caller *c, uint8_t **message, size_t *have)
{
    uint8_t head[2], length[8];
    uint64_t len = 0;

    if (!line_receive_all(c->line, head, sizeof head) || (head[1] & MASKED) != 0)
        return -1;
    size_t length_bytes = head[1] == LENGTH_16 ? 2 : head[1] == LENGTH_64 ? 8 : 0;
    if (!line_receive_all(c->line, length, length_bytes))
        return -1;
    for (size_t i = 0; i < length_bytes; i++)
        len = len << 8 | length[i];
    len = length_bytes == 0 ? head[1] : len;
    if (len > REPLY_MAX)
        return -1;
    *message = realloc(*message, *have + (size_t)len + 1);
    if (!*message)
        abort();
    if (!line_receive_all(c->line, *message + *have, (size_t)len))
        return -1;
    /* The pong has the payload of the ping; it is not kept. */
    *have += head[0] == (FINAL | PONG) && len == ID ? 0 : (size_t)len;
    return head[0];
}

static bool await(void *caller, outcome *ret)
{
    ws_caller *c = caller;
    uint8_t *message = NULL;
    size_t len = 0;
    int head;

    do {
        head = receive_frame(c, &message, &len);
    } while (head == (FINAL | PONG) || head == BINARY || head == CONTINUED);
    bool whole = (head == (FINAL | BINARY) || head == (FINAL | CONTINUED)) && len >= ID && (message[0] & 0x80) != 0 &&
                 sp_outcome_of(message + ID, len - ID, ret);
    if (whole)
        ret->call = (message[0] & 0x7FU) << 24 | (unsigned)message[1] << 16 | (unsigned)message[2] << 8 | message[3];
    free(message);
    return whole;
}

static void close_caller(void *caller)
{
    ws_caller *c = caller;

    line_close(c->line);
    free(c);
}

const wire_driver ws_driver = {
    .open = open_caller, .open_on = open_on, .start = start, .await = await, .close = close_caller};

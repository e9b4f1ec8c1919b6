/* SP without a library: one call a frame, any number of frames under way. */
#include "conformance/caller.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "conformance/line.h"
#include "conformance/sp_frame.h"
#include "support/sp_peer.h"

enum { HANDSHAKE = 8, LENGTH = 8, ID = 4, REPLY_MAX = 16 << 20 };

typedef struct sp_wire {
    line *line;
    bool marks; /* a byte 01 before every message, on unix sockets */
    unsigned last_id;
} sp_wire;

static void *open_on(line *l, const char *url)
{
    static const uint8_t req[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    static const uint8_t rep[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t got[HANDSHAKE];

    if (!l || !line_send(l, req, sizeof req) || !line_receive_all(l, got, sizeof got) ||
        memcmp(got, rep, sizeof rep) != 0) {
        line_close(l);
        return NULL;
    }
    sp_wire *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (sp_wire){.line = l, .marks = strncmp(url, "unix://", 7) == 0};
    return c;
}

static void *open_caller(const char *url, const char *certificate)
{
    return open_on(line_open(url, certificate, NULL), url);
}

static unsigned start(void *caller, const call_spec *call)
{
    static const uint8_t mark = 1;
    sp_wire *c = caller;
    size_t frame_len = 0, len = 0;
    uint8_t *frame = sp_frame_of(call, &frame_len);
    uint8_t *message = sp_peer_message(++c->last_id, frame, frame_len, &len);
    bool sent = (!c->marks || line_send(c->line, &mark, 1)) && line_send(c->line, message, len);

    free(frame);
    free(message);
    return sent ? c->last_id : 0;
}

static bool await(void *caller, outcome *ret)
{
    sp_wire *c = caller;
    uint8_t head[1 + LENGTH + ID];
    size_t head_len = sizeof head - (c->marks ? 0 : 1);
    const uint8_t *at = head + (c->marks ? 1 : 0);
    uint64_t len = 0;

    if (!line_receive_all(c->line, head, head_len) || (c->marks && head[0] != 1))
        return false;
    for (size_t i = 0; i < LENGTH; i++)
        len = len << 8 | at[i];
    at += LENGTH;
    if (len < ID || len > REPLY_MAX || (at[0] & 0x80) == 0)
        return false;
    len -= ID;
    uint8_t *body = malloc((size_t)len + 1);
    if (!body)
        abort();
    bool whole = line_receive_all(c->line, body, (size_t)len) && sp_outcome_of(body, (size_t)len, ret);
    free(body);
    ret->call = (at[0] & 0x7FU) << 24 | (unsigned)at[1] << 16 | (unsigned)at[2] << 8 | at[3];
    return whole;
}

static void close_caller(void *caller)
{
    sp_wire *c = caller;

    line_close(c->line);
    free(c);
}

const wire_driver sp_driver = {
    .open = open_caller, .open_on = open_on, .start = start, .await = await, .close = close_caller};

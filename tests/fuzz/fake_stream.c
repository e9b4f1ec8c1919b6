#include "fake_stream.h"

#include "fuzz.h"

static const stream_protocol *protocol;
static void *protocol_arg;

lks_code streams_listen(streams *all, const stream_address *at, const stream_protocol *spoken, void *arg,
                        uint16_t *bound, lks_error *error)
{
    protocol = spoken;
    protocol_arg = arg;
    *bound = 1;
    return LKS_OK;
}

bool fake_stream_open(stream *s, void (*output)(const uint8_t *data, size_t len))
{
    *s = (stream){.output = output, .share = budget_open(NULL)};
    s->connection = protocol->open(protocol_arg, s);
    return s->connection;
}

/* Bytes that the protocol has kept come before further ones, as in stream_input.c. Returns false if there were none. */
static bool take_kept(stream *s)
{
    bool any = false;

    while (protocol->kept && stream_is_read(s) && protocol->kept(s->connection))
        any = true;
    return any;
}

void fake_stream_bytes(stream *s, const uint8_t *data, size_t len)
{
    if (!s->closing && len > 0)
        protocol->bytes(s->connection, data, len);
    take_kept(s);
}

void fake_stream_pieces(stream *s, const uint8_t *data, size_t len, size_t piece)
{
    fuzz_input in = {data, len};

    while (in.len > 0) {
        size_t n;
        uint8_t *copy = fuzz_bytes(&in, piece, &n);
        fake_stream_bytes(s, copy, n);
        free(copy);
    }
}

void fake_stream_turn(stream *s)
{
    while (s->wants_produce && !s->closing) {
        s->wants_produce = false;
        protocol->produce(s->connection);
    }
}

bool fake_stream_take(stream *s)
{
    bool any = s->waiting > 0 && !s->closing;

    if (any) {
        s->waiting = 0;
        protocol->drained(s->connection);
    }
    return take_kept(s) || any;
}

void fake_stream_closed(stream *s)
{
    s->closing = true;
    protocol->closed(s->connection);
    budget_close(s->share);
}

lks_rpc_peer stream_peer(const stream *s)
{
    return (lks_rpc_peer){.wire = "fake", .address = "nowhere", .uid = -1, .pid = -1};
}

const char *stream_origin(const stream *s)
{
    return "127.0.0.1";
}

const char *stream_peer_certificate(const stream *s)
{
    return NULL;
}

void stream_ready(stream *s)
{
    s->ready = true;
}

void stream_idle(stream *s, bool idle)
{
    s->idle = idle;
}

void stream_unfinished(stream *s, bool unfinished, bool new_message)
{
    s->unfinished = unfinished;
}

budget_share *stream_bytes(const stream *s)
{
    return s->share;
}

void stream_pause(stream *s)
{
    s->paused = true;
}

void stream_resume(stream *s)
{
    s->paused = false;
}

stream_block *stream_block_new(size_t len)
{
    stream_block *block = malloc(sizeof *block + len);

    fuzz_expect(block);
    block->len = len;
    return block;
}

void stream_write(stream *s, stream_block *block)
{
    if (!s->closing) {
        s->waiting += block->len;
        s->output(block->data, block->len);
    }
    free(block);
}

void stream_produce(stream *s)
{
    s->wants_produce = true;
}

size_t stream_waiting(const stream *s)
{
    return s->waiting;
}

bool stream_is_read(const stream *s)
{
    return !s->paused && !s->closing;
}

bool stream_is_closing(const stream *s)
{
    return s->closing;
}

void stream_end(stream *s, stream_reason why)
{
    s->closing = true;
}

void stream_end_output(stream *s)
{
}

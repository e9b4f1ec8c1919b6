/* For any bytes of a server, and with calls that begin, are withdrawn, forgotten or lost at any time, each call that
 * was sent ends once, results are well-formed, and nothing leaks.
 *
 *   (operation (1)  arguments)...   see act()
 *
 * The connection (connection.c) and the stream of bytes (byte_stream.c) are ours: the input is what the server sends, and
 * how much it takes. */
#include "client/wire/engine_grpc.h"
#include "fuzz.h"

#include <lockstock/rpc/v1/envelope.pb-c.h>

enum { SLOTS = 8, MESSAGE_BYTES_MAX = 4096, FRAME_HEAD = 9 };

static struct {
    struct link link;
    slot slots[SLOTS], *list[SLOTS];
    bool up, open, eof;
    const uint8_t *input; /* not read yet */
    size_t len, takes;    /* takes: how many bytes the server takes yet */
} here;

/* ---- the stream of bytes -------------------------------------------------------------------- */

bool bytes_aim(byte_stream *b, const char *scheme, const char *address)
{
    (void)scheme;
    b->path = address;
    return true;
}

void bytes_init(byte_stream *b)
{
}

void bytes_open(byte_stream *b)
{
    here.open = true;
    here.eof = false;
    b->state = BYTES_UP;
    b->up(b);
}

void bytes_close(byte_stream *b)
{
    b->state = BYTES_CLOSED;
}

void bytes_fini(byte_stream *b)
{
}

ssize_t bytes_read(byte_stream *b, uint8_t *data, size_t len)
{
    size_t n = here.len < len ? here.len : len;

    if (n > 0) {
        memcpy(data, here.input, n);
        here.input += n;
        here.len -= n;
    }
    strcpy(b->why, "closed");
    return n == 0 && here.eof ? -1 : (ssize_t)n;
}

size_t bytes_write(byte_stream *b, const struct iovec *parts, size_t n)
{
    size_t taken = 0;

    for (size_t i = 0; i < n; i++)
        taken += parts[i].iov_len;
    taken = taken < here.takes ? taken : here.takes;
    here.takes -= taken;
    return taken;
}

bool bytes_flush(byte_stream *b)
{
    return here.takes > 0;
}

/* ---- the connection ---------------------------------------------------------------------------- */

void link_up(struct link *link)
{
    fuzz_expect(!here.up);
    here.up = true;
}

bool link_is_up(const struct link *link)
{
    return here.up;
}

void link_down(struct link *link, const char *why)
{
    here.up = here.open = false;
    for (size_t i = 0; i < SLOTS; i++)
        if (!here.slots[i].engine_owned)
            slot_lose(&here.slots[i]);
    engine_grpc.disconnect(link);
}

void slot_sent(slot *s)
{
    fuzz_expect(s->state == SLOT_SENDING);
    s->state = SLOT_AWAITING;
}

void slot_end(slot *s, slot_outcome outcome, const void *data, size_t len)
{
    fuzz_expect(s->state == (outcome == SLOT_UNSENT ? SLOT_SENDING : SLOT_AWAITING) && !s->operation);
    s->state = SLOT_IDLE;
    s->engine_owned = false;
}

void slot_answer(slot *s, Lockstock__Rpc__V1__Result *result, const char *why)
{
    fuzz_expect(s->state == SLOT_AWAITING && !s->operation && (result || why));
    if (result) {
        fuzz_expect(result->code <= LKS_UNAUTHENTICATED && result->payload.len <= MESSAGE_BYTES_MAX);
        fuzz_expect(strlen(result->message) + strlen(result->field) + strlen(result->reason) < SIZE_MAX);
        fuzz_expect(result->code != LKS_OK || result->payload.data);
    }
    s->state = SLOT_IDLE;
    s->engine_owned = false;
}

void slot_lose(slot *s)
{
    if (s->state == SLOT_SENDING && engine_grpc.withdraw(s))
        slot_end(s, SLOT_UNSENT, NULL, 0);
    if (s->state == SLOT_SENDING)
        slot_sent(s);
    if (s->state == SLOT_AWAITING) {
        engine_grpc.forget(s);
        slot_end(s, SLOT_LOST, NULL, 0);
    }
}

/* ---- what happens ------------------------------------------------------------------------------ */

static void start(slot *s, uint8_t how)
{
    static uint8_t payload[1024];
    Lockstock__Rpc__V1__Metadata metadata = LOCKSTOCK__RPC__V1__METADATA__INIT, *entries[] = {&metadata};
    Lockstock__Rpc__V1__Call call = LOCKSTOCK__RPC__V1__CALL__INIT, *calls[] = {&call};
    Lockstock__Rpc__V1__Frame frame;

    if (s->state != SLOT_IDLE || !here.up)
        return;
    metadata.key = (char *)(uintptr_t)(how & 1 ? "te" : how & 2 ? "x-bin" : "x");
    call.method = (char *)(uintptr_t) "/a.B/C";
    call.timeout_ms = how;
    call.unanswered_before = (how & 4) != 0;
    call.n_metadata = (how & 8) != 0;
    call.metadata = entries;
    call.payload = (ProtobufCBinaryData){.len = (size_t)(how & 0xF0) * 4, .data = payload};
    lockstock__rpc__v1__frame__init(&frame);
    frame.n_calls = 1;
    frame.calls = calls;
    size_t len = lockstock__rpc__v1__frame__get_packed_size(&frame);
    message *m = malloc(sizeof *m + MESSAGE_HEADROOM + len);
    m->len = lockstock__rpc__v1__frame__pack(&frame, message_body(m));
    s->state = SLOT_SENDING;
    fuzz_expect(engine_grpc.send(s, m));
}

/* A caller that does not wait any longer. */
static void leave(slot *s)
{
    if (s->state == SLOT_SENDING && engine_grpc.withdraw(s)) {
        slot_end(s, SLOT_UNSENT, NULL, 0);
        return;
    }
    if (s->state == SLOT_SENDING)
        slot_sent(s);
    if (s->state == SLOT_AWAITING) {
        engine_grpc.forget(s);
        s->state = SLOT_IDLE;
        s->engine_owned = false;
    }
}

/* To the current connection, or to the one that has left for the longest time. */
static void deliver(const uint8_t *bytes, size_t len, bool to_old)
{
    grpc *g = here.link.transport;
    h2 *h = to_old ? TAILQ_FIRST(&g->leaving) : g->current;

    here.input = bytes;
    here.len = len;
    if (h && h->session)
        h->stream.readable(&h->stream);
    here.len = 0;
}

static void act(fuzz_input *in)
{
    uint8_t operation = fuzz_byte(in), argument = fuzz_byte(in);
    slot *s = &here.slots[argument % SLOTS];
    bool to_old = (operation & 0x80) != 0;
    size_t len;

    switch (operation & 7) {
    case 0:
        start(s, fuzz_byte(in));
        break;
    case 1:
        leave(s);
        break;
    case 2:
        here.takes += (size_t)argument * 16;
        engine_grpc.flush(&here.link);
        break;
    case 3:
        if (!here.open)
            engine_grpc.connect(&here.link, NULL);
        break;
    case 4:
        here.eof = true;
        deliver(NULL, 0, to_old);
        here.eof = false;
        break;
    case 5: { /* a frame: type, flags, stream, length */
        uint8_t frame[FRAME_HEAD + 255] = {0};
        frame[3] = argument;
        frame[4] = fuzz_byte(in);
        frame[8] = fuzz_byte(in);
        frame[2] = fuzz_byte(in);
        uint8_t *bytes = fuzz_bytes(in, frame[2], &len);
        frame[2] = (uint8_t)len;
        if (len > 0)
            memcpy(frame + FRAME_HEAD, bytes, len);
        free(bytes);
        deliver(frame, FRAME_HEAD + len, to_old);
        break;
    }
    default: {
        uint8_t *bytes = fuzz_bytes(in, argument, &len);
        deliver(bytes, len, to_old);
        free(bytes);
    }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input in = {.data = data, .len = len};

    memset(&here, 0, sizeof here);
    here.link = (struct link){.scheme = "grpc://",
                              .address = "a:1",
                              .message_bytes_max = MESSAGE_BYTES_MAX,
                              .slots_max = SLOTS,
                              .slots = here.list,
                              .n_slots = SLOTS};
    for (size_t i = 0; i < SLOTS; i++) {
        here.slots[i].link = &here.link;
        here.list[i] = &here.slots[i];
    }
    fuzz_expect(engine_grpc.open(&here.link));
    fuzz_expect(engine_grpc.connect(&here.link, NULL) == LKS_OK);
    while (in.len > 0)
        act(&in);
    engine_grpc.close(&here.link);
    for (size_t i = 0; i < SLOTS; i++)
        fuzz_expect(!here.slots[i].operation);
    return 0;
}

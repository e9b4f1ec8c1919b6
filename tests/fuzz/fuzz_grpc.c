/* For any bytes of a peer, in any pieces, with any behaviour of the handlers: the
 * gRPC engine writes only what a client can accept, has no more calls than it allows,
 * ends each call that it began once, and holds nothing when the connection is gone.
 *
 *   flags (1)  steps: op (1) argument (1) ...; see step()
 *   flags: 1 the client's preface and SETTINGS come by themselves; 2 a lost call ends at
 *   once; 4 small messages only; 24 which limit of calls */

#include "base/clock.h"
#include "fake_stream.h"
#include "fuzz.h"
#include "h2_output.h"
#include "lockstock/v1/idempotency.lks.h"
#include "support/fake_sink.h"
#include "net/grpc/grpc.h"
#include "net/grpc/grpc_call.h"

enum { PARKED_MAX = 256, SMALL = 1024, LARGE = 65536, STREAM_SENDS = 100000, GATHERED_MAX = 65536 };

typedef struct running {
    sink_done *done; /* NULL: free */
    void *arg;
    struct running **handle;
    bool lost;
} parked;

typedef struct streaming {
    grpc_stream *stream; /* NULL: free */
    bool over;
} streaming;

static struct {
    stream stream;
    grpc_server *server;
    sink sink;
    parked parked[PARKED_MAX];
    streaming streaming[PARKED_MAX];
    bool lost_ends;
    size_t message_max;
    uint64_t now_ns;
    uint8_t gathered[GATHERED_MAX]; /* what comes next */
    size_t gathered_len;
} here;

uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return here.now_ns;
}

/* ---- the sink, as the calls say --------------------------------------------------------- */

static const lks_rpc_method unary = {.path = "/f.S/Unary", .effect = LKS_RPC_EFFECT_WRITE};

static lks_code check_call(void *arg, const caller *from, const credentials *who, const char *path,
                           lks_rpc_effect effect, lks_error *error)
{
    if (effect) {
        fuzz_expect(effect == LKS_RPC_EFFECT_READ);
        return who->authorization.len > 0 ? LKS_OK
                                          : lks_error_set(error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO, "who are you");
    }
    if (strcmp(path, unary.path) != 0)
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: no such one");
    return LKS_OK;
}

static void end_with_error(sink_done *done, void *arg, lks_code code, const void *text, size_t len)
{
    lks_error error;

    lks_error_set(&error, code, LKS_APPLIED_MAYBE, "%.*s", (int)(len < 300 ? len : 300), (const char *)text);
    error.retry_after_ms = (uint32_t)len * 1000003;
    done(arg, &unary, NULL, &error, NULL);
}

static void end_with_answer(sink_done *done, void *arg, const void *text, size_t len)
{
    lks_stored_result response = LKS_STORED_RESULT_INIT;
    const lks_error ok = {0};
    uint8_t *copy = malloc(len + 1);

    fuzz_expect(copy);
    memcpy(copy, text, len);
    response.body = (ProtobufCBinaryData){.data = copy, .len = len};
    done(arg, &unary, &response.base, &ok, NULL);
    free(copy);
}

/* A request of "p..." waits, "e..." fails, "b" is answered at length. */
static void take(void *to, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    static const char big[2 * LARGE];
    const char *text = call->payload;
    char first = call->len > 0 ? text[0] : '\0';

    fuzz_expect(arena && strcmp(call->path, unary.path) == 0 && !call->message && call->handle);
    fuzz_expect(call->len <= here.message_max);
    for (size_t i = 0; first == 'p' && i < PARKED_MAX; i++) {
        if (!here.parked[i].done) {
            here.parked[i] = (parked){.done = done, .arg = arg, .handle = call->handle};
            *call->handle = &here.parked[i];
            return;
        }
    }
    if (first == 'e')
        end_with_error(done, arg, (lks_code)(1 + call->len % 16), text, call->len);
    else if (first == 'b')
        end_with_answer(done, arg, big, call->len * SMALL < sizeof big ? call->len * SMALL : sizeof big);
    else
        end_with_answer(done, arg, text, call->len);
}

static void end_parked(parked *p, bool fails)
{
    parked it = *p;

    if (!it.done)
        return;
    p->done = NULL;
    *it.handle = NULL;
    if (fails)
        end_with_error(it.done, it.arg, LKS_UNAVAILABLE, "a: \xC3\xA4 %\n", 9);
    else
        end_with_answer(it.done, it.arg, "woken", 5);
}

static void abandon(struct running *call)
{
    fuzz_expect(call && call->done && !call->lost);
    call->lost = true;
    if (here.lost_ends)
        end_parked(call, true);
}

/* ---- a streaming method ------------------------------------------------------------------ */

static void *on_open(void *arg, grpc_stream *s)
{
    fuzz_expect(arg == &here);
    for (size_t i = 0; i < PARKED_MAX; i++) {
        if (!here.streaming[i].stream) {
            here.streaming[i] = (streaming){.stream = s};
            return &here.streaming[i];
        }
    }
    return NULL;
}

static void finish(streaming *state, lks_code code)
{
    lks_error error = {0};

    if (code != LKS_OK)
        lks_error_set(&error, code, LKS_APPLIED_NO, "lines[0].sku: \x01");
    state->over = true;
    grpc_stream_finish(state->stream, &error);
}

/* "f" ends it, "e" with an error, "b" is answered at length, all else is echoed. */
static void on_message(void *arg, const uint8_t *data, size_t len)
{
    static const uint8_t big[STREAM_SENDS];
    streaming *state = arg;

    fuzz_expect(state->stream && !state->over && len <= here.message_max);
    if (len > 0 && data[0] == 'f')
        finish(state, LKS_OK);
    else if (len > 0 && data[0] == 'e')
        finish(state, LKS_INVALID_ARGUMENT);
    else if (len > 0 && data[0] == 'b' && state->stream->waiting < sizeof big)
        grpc_stream_send(state->stream, big, sizeof big);
    else
        grpc_stream_send(state->stream, data, len);
}

static void on_half_closed(void *arg)
{
    streaming *state = arg;

    fuzz_expect(state->stream && !state->over);
    finish(state, LKS_OK);
}

static void on_closed(void *arg)
{
    streaming *state = arg;

    fuzz_expect(state->stream);
    state->stream = NULL;
}

/* ---- what comes ---------------------------------------------------------------------------- */

static void gather(const uint8_t *data, size_t len)
{
    if (len == 0 || len > GATHERED_MAX - here.gathered_len)
        return;
    memmove(here.gathered + here.gathered_len, data, len);
    here.gathered_len += len;
}

static void feed_gathered(size_t piece)
{
    fake_stream_pieces(&here.stream, here.gathered, here.gathered_len, piece);
    here.gathered_len = 0;
}

static void feed_frame(unsigned type, unsigned flags, unsigned nth, const uint8_t *data, size_t len)
{
    uint32_t id = nth > 0 ? 2 * nth - 1 : 0;
    uint8_t *frame = malloc(9 + len);

    fuzz_expect(frame);
    memcpy(frame,
           (uint8_t[]){(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)type, (uint8_t)flags, 0, 0,
                       (uint8_t)(id >> 8), (uint8_t)id},
           9);
    if (len > 0)
        memcpy(frame + 9, data, len);
    gather(frame, 9 + len);
    free(frame);
}

typedef struct block {
    uint8_t data[1024];
    size_t len;
} block;

/* A literal field, not indexed (RFC 7541, 6.2.2). */
static void put_field(block *b, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value);

    b->data[b->len++] = 0;
    b->data[b->len++] = (uint8_t)name_len;
    memcpy(b->data + b->len, name, name_len);
    b->len += name_len;
    b->data[b->len++] = (uint8_t)value_len;
    memcpy(b->data + b->len, value, value_len);
    b->len += value_len;
}

/* Headers of a call. which: 3 the path; 4 gzip both ways; 8 a timeout; 16 a token; 32 no
 * state; 128 END_STREAM. */
static void feed_call(unsigned which, unsigned nth)
{
    static const char *const paths[] = {"/f.S/Unary", "/f.S/Echo", "/f.S/Judged", "/f.S/None"};
    block b = {.len = 0};

    put_field(&b, ":method", which & 64 ? "GET" : "POST");
    put_field(&b, ":scheme", "http");
    put_field(&b, ":path", paths[which & 3]);
    put_field(&b, ":authority", "fuzz"); /* else nghttp2 resets the call before the engine sees it */
    put_field(&b, "content-type", "application/grpc");
    put_field(&b, "te", "trailers");
    if (which & 4) {
        put_field(&b, "grpc-encoding", "gzip");
        put_field(&b, "grpc-accept-encoding", "identity,gzip");
    }
    if (which & 8)
        put_field(&b, "grpc-timeout", which & 16 ? "9x" : "100m");
    if (which & 16)
        put_field(&b, "authorization", "Bearer x");
    if (which & 32)
        put_field(&b, "x-none", "1");
    feed_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (which & 128 ? NGHTTP2_FLAG_END_STREAM : 0), nth, b.data,
               b.len);
}

/* A message of a call. which: 1 compressed; 2 its length is one too few; 128 END_STREAM. */
static void feed_message(fuzz_input *in, unsigned which)
{
    unsigned nth = fuzz_byte(in);
    size_t len;
    uint8_t *data = fuzz_bytes(in, fuzz_byte(in), &len);
    uint8_t *message = malloc(len + GRPC_PREFIX_BYTES);

    fuzz_expect(message);
    memcpy(message, (uint8_t[]){which & 1, 0, 0, 0, (uint8_t)(which & 2 && len > 0 ? len - 1 : len)},
           GRPC_PREFIX_BYTES);
    if (len > 0)
        memcpy(message + GRPC_PREFIX_BYTES, data, len);
    feed_frame(NGHTTP2_DATA, which & 128 ? NGHTTP2_FLAG_END_STREAM : 0, nth, message, len + GRPC_PREFIX_BYTES);
    free(message);
    free(data);
}

static void feed_raw(fuzz_input *in, size_t len)
{
    size_t n;
    uint8_t *data = fuzz_bytes(in, len, &n);

    gather(data, n);
    free(data);
}

static void feed_any_frame(fuzz_input *in, unsigned type)
{
    unsigned nth = fuzz_byte(in), flags = fuzz_byte(in);
    size_t len;
    uint8_t *data = fuzz_bytes(in, fuzz_byte(in), &len);

    feed_frame(type & 15, flags, nth, data, len);
    free(data);
}

static void act(streaming *state, unsigned how)
{
    if (!state->stream || state->over)
        return;
    if (how & 128)
        finish(state, how & 64 ? LKS_UNAVAILABLE : LKS_OK);
    else
        grpc_stream_send(state->stream, "told", 4);
}

/* The peer takes what waits; 128: time passes, and the clock looks; 64: its calls queue, or
 * not any more. */
static void take_output(unsigned argument)
{
    const grpc_connection *c = here.stream.connection;

    fake_stream_take(&here.stream);
    if (argument & 64)
        fake_caller_queues(c->peer.caller, !fake_sink.queues(c->peer.caller));
    if (argument & 128) {
        here.now_ns += (uint64_t)(argument & 63) * 1000000000;
        grpc_server_tick(here.server);
    }
}

/* op: 0..7 what; 8 the server drains; 128 the turn goes on. What comes: 16 again and
 * again; 32 together with the next; 64 in pieces. */
static void step(fuzz_input *in)
{
    unsigned op = fuzz_byte(in), argument = fuzz_byte(in);
    size_t before = here.gathered_len;

    if (op & 8)
        grpc_server_drain(here.server);
    switch (op & 7) {
    case 0:
        feed_raw(in, argument > 0 ? argument : 256);
        break;
    case 1:
        feed_raw(in, argument * 64);
        break;
    case 2:
        take_output(argument);
        break;
    case 3:
        end_parked(&here.parked[argument & 127], argument & 128);
        break;
    case 4:
        act(&here.streaming[argument & 63], argument);
        break;
    case 5:
        feed_any_frame(in, argument);
        break;
    case 6:
        feed_call(argument, fuzz_byte(in));
        break;
    case 7:
        feed_message(in, argument);
        break;
    }
    size_t len = here.gathered_len - before;
    for (size_t i = op & 16 ? 8 * (size_t)fuzz_byte(in) : 0; i > 0 && here.gathered_len + len <= GATHERED_MAX; i--)
        gather(here.gathered + before, len);
    if (!(op & 32))
        feed_gathered(op & 64 ? 1 + (size_t)fuzz_byte(in) : GATHERED_MAX);
    if (!(op & 128))
        fake_stream_turn(&here.stream);
}

/* Returns the maximum number of open calls. */
static size_t begin(unsigned flags)
{
    static const grpc_streaming_method methods[] = {
        {"/f.S/Echo", 0, on_open, on_message, on_half_closed, on_closed, &here},
        {"/f.S/Judged", LKS_RPC_EFFECT_READ, on_open, on_message, on_half_closed, on_closed, &here},
    };
    static const uint32_t limits[] = {1, 4, 100, 200};
    uint16_t bound;
    lks_error error;

    here.now_ns = 1000000000;
    here.gathered_len = 0;
    here.lost_ends = flags & 2;
    here.message_max = flags & 4 ? SMALL : LARGE;
    here.sink = fake_sink;
    here.sink.check = check_call;
    here.sink.take = take;
    here.sink.abandon = abandon;
    const grpc_server_options options = {.sink = &here.sink,
                                         .message_bytes_max = here.message_max,
                                         .in_flight_per_peer = limits[flags >> 3 & 3],
                                         .waiting_per_peer = 3,
                                         .request_ms = 30000,
                                         .stall_ms = 10000,
                                         .methods = methods,
                                         .n_methods = sizeof methods / sizeof *methods};
    fuzz_expect(grpc_server_new(&options, &here.server, &error) == LKS_OK);
    fuzz_expect(grpc_server_listen(here.server, &(stream_address){.text = ""}, &bound, &error) == LKS_OK);
    fake_callers_reset(NULL);
    h2_output_begin();
    fuzz_expect(fake_stream_open(&here.stream, h2_output_bytes));
    fake_stream_turn(&here.stream);
    if (flags & 1) {
        fake_stream_bytes(&here.stream, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
        feed_frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
        feed_gathered(GATHERED_MAX);
    }
    return options.in_flight_per_peer + options.waiting_per_peer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input in = {.data = data, .len = len};
    size_t calls_max = begin(fuzz_byte(&in));
    const grpc_connection *c = here.stream.connection;

    while (in.len > 0 && !here.stream.closing) {
        step(&in);
        fuzz_expect(c->n_calls <= calls_max);
    }
    fake_stream_turn(&here.stream);
    fake_stream_closed(&here.stream);
    for (size_t i = 0; i < PARKED_MAX; i++) {
        fuzz_expect(!here.streaming[i].stream);
        fuzz_expect(!here.lost_ends || !here.parked[i].done);
        end_parked(&here.parked[i], i % 2);
    }
    fuzz_expect(grpc_server_in_flight(here.server) == 0);
    grpc_server_free(here.server);
    fuzz_expect(fake_callers.lost == 1 && fake_callers.shares_closed == 1 && fake_callers.held == 0);
    h2_output_end();
    return 0;
}

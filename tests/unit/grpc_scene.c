/* Invariant: tests wait for the loop with a limit; nothing sleeps. */
#include "grpc_scene.h"

#include "base/clock.h"

struct grpc_scene here;

/* The engine's clock. */
uint64_t __real_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() + here.ahead_ns;
}

void pass_ms(uint64_t ms)
{
    here.ahead_ns += ms * 1000000;
    grpc_server_tick(here.server);
}

/* ---- the sink ------------------------------------------------------------------------ */

const lks_rpc_method scene_method = {.path = PATH, .effect = LKS_RPC_EFFECT_WRITE};

sink_done *end_of(taken *t)
{
    sink_done *done = t->done;

    t->done = NULL;
    *t->call.handle = NULL;
    return done;
}

void succeed(size_t i, size_t len)
{
    Lockstock__Rpc__V1__Call response = LOCKSTOCK__RPC__V1__CALL__INIT;
    const lks_error ok = {0};
    sink_done *done = end_of(&here.taken[i]);

    response.payload = (ProtobufCBinaryData){.data = calloc(1, len + 1), .len = len};
    assert_non_null(response.payload.data);
    done(here.taken[i].arg, &scene_method, &response.base, &ok, NULL);
    free(response.payload.data);
}

void fail_with(size_t i, const lks_error *error)
{
    end_of (&here.taken[i])(here.taken[i].arg, &scene_method, NULL, error, NULL);
}

static void take(void *to, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    assert_non_null(arena);
    assert_true(here.n < CALLS_MAX);
    here.taken[here.n] = (taken){.done = done, .arg = arg, .call = *call};
    memcpy(here.taken[here.n].payload, call->payload, call->len < 8 ? call->len : 8);
    here.taken[here.n].first = here.taken[here.n].payload[0];
    *call->handle = &here.taken[here.n++];
    if (here.answer_len > 0)
        succeed(here.n - 1, here.answer_len);
}

static lks_code check_call(void *arg, const caller *from, const credentials *who, const char *path,
                           lks_rpc_effect effect, lks_error *error)
{
    if (effect) {
        assert_string_equal(path, GUARDED);
        return here.refuses ? lks_error_set(error, LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "not you") : LKS_OK;
    }
    if (here.refuses)
        return lks_error_set(error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO, "who are you");
    if (strcmp(path, PATH) != 0)
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: this server has no such method");
    return LKS_OK;
}

static void abandon(struct running *call)
{
    assert_non_null(call->done);
    here.last_lost = call;
    here.lost++;
}

/* ---- a streaming method ---------------------------------------------------------------- */

static void *on_open(void *arg, grpc_stream *s)
{
    assert_ptr_equal(arg, &here);
    here.n_opened++;
    here.streamed = s;
    return s;
}

static void on_message(void *state, const uint8_t *data, size_t len)
{
    assert_ptr_equal(state, here.streamed);
    here.n_messages++;
    here.last_message_len = len;
    memcpy(here.last_message, data, len < sizeof here.last_message ? len : sizeof here.last_message);
}

static void on_half_closed(void *state)
{
    assert_ptr_equal(state, here.streamed);
    here.n_half_closed++;
}

static void on_closed(void *state)
{
    assert_ptr_equal(state, here.streamed);
    here.streamed = NULL;
    here.n_closed++;
}

static const grpc_streaming_method streaming[] = {
    {STREAMED, 0, on_open, on_message, on_half_closed, on_closed, &here},
    {GUARDED, LKS_RPC_EFFECT_READ, on_open, on_message, on_half_closed, on_closed, &here},
};

/* ---- the loop --------------------------------------------------------------------- */

void turn(void)
{
    uv_run(&here.loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < here.n_peers; i++)
        h2_peer_turn(here.peers[i]);
}

void turns(int n)
{
    for (int i = 0; i < n; i++)
        turn();
}

void run_until(bool (*condition)(void))
{
    uint64_t end = uv_hrtime() + (uint64_t)LIMIT_S * 1000000000;

    while (!condition() && uv_hrtime() < end)
        turn();
    assert_true(condition());
    for (int i = 0; i < 3; i++)
        turn();
}

static bool has_taken(void)
{
    return here.n >= here.wanted;
}

void run_until_taken(size_t n)
{
    here.wanted = n;
    run_until(has_taken);
    assert_int_equal(here.n, n);
}

static bool has_closed(void)
{
    return h2_peer_answer(here.peers[0], here.wanted)->closed;
}

const h2_answer *run_until_answered(size_t call)
{
    here.wanted = call;
    run_until(has_closed);
    return h2_peer_answer(here.peers[0], call);
}

static bool has_lost(void)
{
    return here.lost >= here.wanted;
}

void run_until_lost(size_t n)
{
    here.wanted = n;
    run_until(has_lost);
    assert_int_equal(here.lost, n);
}

bool is_over(void)
{
    return !h2_peer_turn(here.peers[0]);
}

bool no_call_is_open(void)
{
    return grpc_server_in_flight(here.server) == 0;
}

void start_with(const streams_options *given, size_t answer_len)
{
    streams_options options = given ? *given : (streams_options){.connections_max = 100};
    lks_error error;

    memset(&here, 0, sizeof here);
    fake_callers_reset(NULL);
    here.answer_len = answer_len;
    uv_loop_init(&here.loop);
    options.loop = &here.loop;
    assert_int_equal(streams_new(&options, &here.streams, &error), LKS_OK);
    here.sink = fake_sink;
    here.sink.check = check_call;
    here.sink.take = take;
    here.sink.abandon = abandon;
    const grpc_server_options server = {.streams = here.streams,
                                        .sink = &here.sink,
                                        .message_bytes_max = MESSAGE_MAX,
                                        .in_flight_per_peer = RUNNING,
                                        .waiting_per_peer = WAITING,
                                        .request_ms = 30000,
                                        .stall_ms = 10000,
                                        .life = scene_life,
                                        .methods = streaming,
                                        .n_methods = 2};
    assert_int_equal(grpc_server_new(&server, &here.server, &error), LKS_OK);
    assert_int_equal(grpc_server_listen(here.server, &(stream_address){.text = "127.0.0.1:0"}, &here.port, &error),
                     LKS_OK);
}

h2_peer *open_peer(uint32_t window)
{
    h2_peer *p = h2_peer_open(here.port, window);

    assert_non_null(p);
    here.peers[here.n_peers++] = p;
    return p;
}

h2_peer *start(void)
{
    start_with(NULL, 0);
    return open_peer(0);
}

static void on_streams_closed(void *arg)
{
    assert_ptr_equal(arg, &here);
    here.closed = true;
}

static bool is_closed(void)
{
    return here.closed;
}

grpc_life_options scene_life;

void stop(void)
{
    scene_life = (grpc_life_options){0};
    streams_close(here.streams, on_streams_closed, &here);
    run_until(is_closed);
    for (size_t i = 0; i < here.n; i++)
        if (here.taken[i].done)
            succeed(i, 1);
    assert_int_equal(grpc_server_in_flight(here.server), 0);
    assert_null(here.streamed);
    grpc_server_free(here.server);
    assert_int_equal(fake_callers.lost, fake_callers.opened);
    assert_int_equal(fake_callers.shares_closed, fake_callers.shares_opened);
    assert_int_equal(fake_callers.held, 0);
    for (size_t i = 0; i < here.n_peers; i++)
        h2_peer_free(here.peers[i]);
    assert_int_equal(uv_loop_close(&here.loop), 0);
}

size_t call_text(h2_peer *p, char text)
{
    const char message[] = {0, 0, 0, 0, 1, text};

    return h2_peer_call(p, PATH, NULL, message, sizeof message, false);
}

void expect_header(size_t call, const char *name, const char *value)
{
    const char *got = h2_peer_header(here.peers[0], call, name);

    if (strcmp(got, value) != 0)
        fail_msg("%s is \"%s\", not \"%s\"; all:\n%s", name, got, value, h2_peer_answer(here.peers[0], call)->headers);
}

void expect_refused(size_t call, const char *status, const char *message)
{
    const h2_answer *a = run_until_answered(call);

    expect_header(call, ":status", "200");
    expect_header(call, "content-type", "application/grpc");
    expect_header(call, "grpc-status", status);
    expect_header(call, "grpc-message", message);
    expect_header(call, "lockstock-applied", "NO");
    assert_int_equal(a->blocks, 1);
    assert_int_equal(a->len, 0);
    assert_int_equal(a->error, NGHTTP2_NO_ERROR);
}

void expect_ended(uint32_t error)
{
    const h2_goaways *came = h2_peer_goaways(here.peers[0]);

    run_until(is_over);
    if (came->n > 0)
        assert_int_equal(came->error[came->n - 1], error);
}

bool has_some(void)
{
    return h2_peer_answer(here.peers[0], 0)->len >= here.wanted;
}

static bool has_messages(void)
{
    return here.n_messages >= here.wanted;
}

void run_until_messages(size_t n)
{
    here.wanted = n;
    run_until(has_messages);
    assert_int_equal(here.n_messages, n);
}

/* ---- a client of the test's own ------------------------------------------------------- */

int open_raw(void)
{
    static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0";
    int fd = sp_peer_connect(here.port, 0);

    assert_true(sp_peer_send(fd, hello, 24 + 9 + 9));
    turns(10);
    return fd;
}

size_t put_raw_call(uint8_t *out, size_t n)
{
    static const uint8_t block[] = "\x83\x86\x01\x01"
                                   "t"
                                   "\x04\x10" PATH "\x0f\x10\x10"
                                   "application/grpc";
    const uint8_t head[] = {0,
                            0,
                            sizeof block - 1,
                            NGHTTP2_HEADERS,
                            NGHTTP2_FLAG_END_HEADERS,
                            0,
                            0,
                            (uint8_t)((2 * n + 1) >> 8),
                            (uint8_t)(2 * n + 1)};

    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, block, sizeof block - 1);
    return sizeof head + sizeof block - 1;
}

frames_seen read_frames(int fd)
{
    static uint8_t bytes[1 << 20];
    size_t len = 0;
    frames_seen seen = {0};

    for (int i = 0; i < 50; i++) {
        turn();
        ssize_t n = recv(fd, bytes + len, sizeof bytes - len, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
        seen.over = n == 0;
    }
    for (size_t at = 0; at + 13 <= len;) {
        const uint8_t *frame = bytes + at;
        if (frame[3] == NGHTTP2_GOAWAY) {
            seen.n_goaways++;
            seen.error = frame[16];
        }
        if (frame[3] == NGHTTP2_RST_STREAM && frame[12] == NGHTTP2_REFUSED_STREAM)
            seen.n_refused++;
        else if (frame[3] == NGHTTP2_RST_STREAM)
            seen.n_other_resets++;
        at += 9 + ((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);
    }
    return seen;
}

void expect_calmed(int fd)
{
    frames_seen seen = read_frames(fd);

    assert_int_equal(seen.n_goaways, 1);
    assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(seen.over);
    close(fd);
    run_until(no_call_is_open);
    stop();
}

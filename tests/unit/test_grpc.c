/* gRPC on a real loop, over raw HTTP/2: what is answered and how, what ends a call, and
 * what ends a connection. The sink is the test's own. */
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <nghttp2/nghttp2.h>
#include <uv.h>

#include "support/fake_sink.h"
#include "support/h2_peer.h"
#include "support/sp_peer.h"
#include "net/grpc/grpc.h"
#include "test.h"

enum {
    CALLS_MAX = 2048,
    PEERS_MAX = 4,
    LIMIT_S = 60,
    MESSAGE_MAX = 256 * 1024,
    RUNNING = 6,
    WAITING = 10,
    CONCURRENT = RUNNING + WAITING
};
#define PATH "/test.v1.Test/Do"
#define STREAMED "/test.v1.Test/Stream"
#define GUARDED "/test.v1.Test/Guarded"
#define EMPTY "\0\0\0\0\0"

typedef struct running taken;
struct running {
    sink_done *done; /* NULL: ended */
    void *arg;
    sink_call call;
    char first, payload[8]; /* what it began with */
};

static struct {
    uv_loop_t loop;
    streams *streams;
    grpc_server *server;
    sink sink;
    uint16_t port;
    h2_peer *peers[PEERS_MAX];
    size_t n_peers;
    taken taken[CALLS_MAX];
    size_t n, lost, wanted;
    const taken *last_lost;
    bool closed, refuses;
    size_t answer_len; /* not 0: every call is answered at once, with so many bytes */
    grpc_stream *streamed;
    size_t n_opened, n_messages, n_half_closed, n_closed;
    uint64_t ahead_ns; /* of the clock */
    char last_message[64];
    size_t last_message_len;
    bool last_compressed;
} here;

/* The engine's clock. */
uint64_t __real_lks_rpc_now_ns(void);
uint64_t __wrap_lks_rpc_now_ns(void);

uint64_t __wrap_lks_rpc_now_ns(void)
{
    return __real_lks_rpc_now_ns() + here.ahead_ns;
}

static void pass_ms(uint64_t ms)
{
    here.ahead_ns += ms * 1000000;
    grpc_server_tick(here.server);
}

/* ---- the sink ------------------------------------------------------------------------ */

static const lks_rpc_method method = {.path = PATH, .effect = LKS_RPC_EFFECT_WRITE};

/* The call is over; what tells so. */
static sink_done *end_of(taken *t)
{
    sink_done *done = t->done;

    t->done = NULL;
    *t->call.handle = NULL;
    return done;
}

static void succeed(size_t i, size_t len)
{
    Lockstock__Rpc__V1__Call response = LOCKSTOCK__RPC__V1__CALL__INIT;
    const lks_error ok = {0};
    sink_done *done = end_of(&here.taken[i]);

    response.payload = (ProtobufCBinaryData){.data = calloc(1, len + 1), .len = len};
    assert_non_null(response.payload.data);
    done(here.taken[i].arg, &method, &response.base, &ok);
    free(response.payload.data);
}

static void fail_with(size_t i, const lks_error *error)
{
    end_of (&here.taken[i])(here.taken[i].arg, &method, NULL, error);
}

static void take(void *to, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    (void)to;
    assert_non_null(arena);
    assert_true(here.n < CALLS_MAX);
    here.taken[here.n] = (taken){.done = done, .arg = arg, .call = *call};
    memcpy(here.taken[here.n].payload, call->payload, call->len < 8 ? call->len : 8);
    here.taken[here.n].first = here.taken[here.n].payload[0];
    *call->handle = &here.taken[here.n++];
    if (here.answer_len > 0)
        succeed(here.n - 1, here.answer_len);
}

static lks_code judge(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                      lks_error *error)
{
    (void)arg;
    (void)who;
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
    here.last_compressed = grpc_stream_compressed(state);
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

static void turn(void)
{
    uv_run(&here.loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < here.n_peers; i++)
        h2_peer_turn(here.peers[i]);
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        turn();
}

static void run_until(bool (*condition)(void))
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

static void run_until_taken(size_t n)
{
    here.wanted = n;
    run_until(has_taken);
    assert_int_equal(here.n, n);
}

static bool has_closed(void)
{
    return h2_peer_answer(here.peers[0], here.wanted)->closed;
}

/* The first peer's call has ended. */
static const h2_answer *run_until_answered(size_t call)
{
    here.wanted = call;
    run_until(has_closed);
    return h2_peer_answer(here.peers[0], call);
}

static bool has_lost(void)
{
    return here.lost >= here.wanted;
}

static void run_until_lost(size_t n)
{
    here.wanted = n;
    run_until(has_lost);
    assert_int_equal(here.lost, n);
}

static bool is_over(void)
{
    return !h2_peer_turn(here.peers[0]);
}

static bool nothing_lives(void)
{
    return grpc_server_in_flight(here.server) == 0;
}

static void start_with(const streams_options *given, size_t answer_len)
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
    here.sink.judge = judge;
    here.sink.take = take;
    here.sink.abandon = abandon;
    const grpc_server_options server = {.streams = here.streams,
                                        .sink = &here.sink,
                                        .message_bytes_max = MESSAGE_MAX,
                                        .in_flight_per_peer = RUNNING,
                                        .waiting_per_peer = WAITING,
                                        .request_ms = 30000,
                                        .stall_ms = 10000,
                                        .methods = streaming,
                                        .n_methods = 2};
    assert_int_equal(grpc_server_new(&server, &here.server, &error), LKS_OK);
    assert_int_equal(grpc_server_listen(here.server, "127.0.0.1:0", NULL, &here.port, &error), LKS_OK);
}

static h2_peer *open_peer(uint32_t window)
{
    h2_peer *p = h2_peer_open(here.port, window);

    assert_non_null(p);
    here.peers[here.n_peers++] = p;
    return p;
}

static h2_peer *start(void)
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

static void stop(void)
{
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

/* A message of one byte. */
static size_t call_text(h2_peer *p, char text)
{
    const char message[] = {0, 0, 0, 0, 1, text};

    return h2_peer_call(p, PATH, NULL, message, sizeof message, false);
}

static void expect_header(size_t call, const char *name, const char *value)
{
    const char *got = h2_peer_header(here.peers[0], call, name);

    if (strcmp(got, value) != 0)
        fail_msg("%s is \"%s\", not \"%s\"; all:\n%s", name, got, value, h2_peer_answer(here.peers[0], call)->headers);
}

/* Answered by trailers only. */
static void expect_refused(size_t call, const char *status, const char *message)
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

/* The connection ended; what arrived of its GOAWAYs said why. */
static void expect_ended(uint32_t error)
{
    int32_t last[H2_PEER_GOAWAYS_MAX];
    uint32_t errors[H2_PEER_GOAWAYS_MAX];

    run_until(is_over);
    size_t n = h2_peer_goaways(here.peers[0], last, errors);
    if (n > 0)
        assert_int_equal(errors[n - 1], error);
}

/* ---- unary calls ---------------------------------------------------------------------- */

TEST(what_stands_twice_is_told)
{
    static const char *const fields[] = {"authorization", "Bearer x", "lockstock-namespace", "shop", "authorization",
                                         "Bearer y",      NULL};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, PATH, fields, "\0\0\0\0\3abc", 8, false);
    run_until_taken(1);
    assert_string_equal(here.taken[0].call.who.twice, "authorization");
    succeed(0, 3);
    run_until_answered(call);
    stop();
}

TEST(a_call_and_its_answer)
{
    static const char *const fields[] = {"grpc-timeout", "1500m", "lockstock-namespace", "shop", "authorization",
                                         "Bearer x",     NULL};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, PATH, fields, "\0\0\0\0\3abc", 8, false);
    run_until_taken(1);
    const sink_call *got = &here.taken[0].call;
    assert_string_equal(got->path, PATH);
    assert_int_equal(got->len, 3);
    assert_memory_equal(here.taken[0].payload, "abc", 3);
    assert_int_equal(got->timeout_ms, 1500);
    assert_true(got->received_ns > 0 && !got->order);
    assert_memory_equal(got->who.ns.data, "shop", got->who.ns.len);
    assert_memory_equal(got->who.authorization.data, "Bearer x", got->who.authorization.len);
    assert_null(got->who.certificate);
    succeed(0, 3);
    const h2_answer *a = run_until_answered(call);
    expect_header(call, ":status", "200");
    expect_header(call, "grpc-status", "0");
    expect_header(call, "grpc-message", "");
    expect_header(call, "lockstock-applied", "");
    assert_int_equal(a->blocks, 2);
    assert_int_equal(a->len, 5 + 5);
    assert_memory_equal(a->data, "\0\0\0\0\5", 5);
    assert_int_equal(a->error, NGHTTP2_NO_ERROR);
    assert_int_equal(h2_peer_concurrent_max(p), CONCURRENT);
    stop();
}

TEST(an_empty_answer_is_a_message)
{
    Lockstock__Rpc__V1__Call response = LOCKSTOCK__RPC__V1__CALL__INIT;
    const lks_error ok = {0};
    size_t call = h2_peer_call(start(), PATH, NULL, EMPTY, 5, false);
    run_until_taken(1);
    assert_int_equal(here.taken[0].call.len, 0);
    end_of (&here.taken[0])(here.taken[0].arg, &method, &response.base, &ok);
    assert_int_equal(run_until_answered(call)->len, 5);
    expect_header(call, "grpc-status", "0");
    stop();
}

TEST(every_error_is_trailers_only)
{
    static const lks_applied applied[] = {LKS_APPLIED_YES, LKS_APPLIED_NO, LKS_APPLIED_MAYBE};
    h2_peer *p = start();
    for (int code = 1; code <= 16; code++) {
        lks_error error;
        char number[8];
        lks_error_set(&error, (lks_code)code, applied[code % 3], "field.name: 100%% wrong\n");
        error.retry_after_ms = code == LKS_UNAVAILABLE ? 1500 : 0;
        size_t call = call_text(p, 'a');
        run_until_taken((size_t)code);
        fail_with((size_t)code - 1, &error);
        const h2_answer *a = run_until_answered(call);
        snprintf(number, sizeof number, "%d", code);
        expect_header(call, "grpc-status", number);
        expect_header(call, "grpc-message", "field.name: 100%25 wrong%0A");
        expect_header(call, "lockstock-applied", lks_applied_name(applied[code % 3]));
        bool has_details = code == LKS_INVALID_ARGUMENT || code == LKS_UNAVAILABLE;
        assert_true((h2_peer_header(p, call, "grpc-status-details-bin")[0] != '\0') == has_details);
        assert_int_equal(a->blocks, 1);
        assert_int_equal(a->len, 0);
    }
    stop();
}

TEST(calls_are_answered_as_they_are_done)
{
    h2_peer *p = start();
    for (char c = 'a'; c < 'd'; c++)
        call_text(p, c);
    run_until_taken(3);
    assert_int_equal(here.taken[1].first, 'b');
    succeed(2, 1);
    run_until_answered(2);
    assert_false(h2_peer_answer(p, 0)->closed);
    succeed(0, 1);
    succeed(1, 1);
    run_until_answered(0);
    run_until_answered(1);
    stop();
}

TEST(messages_in_pieces_and_big_ones)
{
    char *big = calloc(1, MESSAGE_MAX + 5);
    assert_non_null(big);
    h2_peer *p = start();
    size_t call = h2_peer_call(p, PATH, NULL, "\0\0", 2, true);
    turn();
    h2_peer_more(p, call, "\0\0\2x", 4, true);
    turn();
    h2_peer_more(p, call, "y", 1, true);
    turn();
    assert_int_equal(here.n, 0); /* not before END_STREAM */
    h2_peer_more(p, call, "", 0, false);
    run_until_taken(1);
    assert_memory_equal(here.taken[0].payload, "xy", 2);
    succeed(0, 1);
    big[2] = MESSAGE_MAX >> 16;
    call = h2_peer_call(p, PATH, NULL, big, MESSAGE_MAX + 5, false);
    run_until_taken(2);
    assert_int_equal(here.taken[1].call.len, MESSAGE_MAX);
    succeed(1, MESSAGE_MAX - 10);
    assert_in_range(run_until_answered(call)->len, MESSAGE_MAX - 10, MESSAGE_MAX + 5);
    expect_header(call, "grpc-status", "0");
    call = call_text(p, 'z');
    run_until_taken(3);
    succeed(2, MESSAGE_MAX);
    run_until_answered(call);
    expect_header(call, "grpc-status", "8");
    expect_header(call, "lockstock-applied", "YES");
    free(big);
    stop();
}

TEST(gzip_both_ways)
{
    static const char *const fields[] = {"grpc-encoding", "gzip", "grpc-accept-encoding", "identity,gzip", NULL};
    static const uint8_t x[] = {1, 0, 0,    0, 0x15, 0x1f, 0x8b, 8,    0,    0, 0, 0, 0,
                                2, 3, 0xab, 0, 0,    0x83, 0x16, 0xdc, 0x8c, 1, 0, 0, 0};
    size_t call = h2_peer_call(start(), PATH, fields, x, sizeof x, false);
    run_until_taken(1);
    assert_int_equal(here.taken[0].call.len, 1);
    assert_int_equal(here.taken[0].first, 'x');
    succeed(0, 100000);
    const h2_answer *a = run_until_answered(call);
    expect_header(call, "grpc-encoding", "gzip");
    assert_in_range(a->len, 20, 1000);
    assert_int_equal(a->data[0], 1);
    stop();
}

TEST(requests_that_are_refused)
{
    static const char *const wrong_timeout[] = {"grpc-timeout", "soon", NULL};
    static const char *const get[] = {":method", "GET", NULL};
    static const char *const json[] = {"content-type", "application/json", NULL};
    static const char *const web[] = {"content-type", "application/grpc-web", NULL};
    static const char *const proto[] = {"content-type", "application/grpc+proto", NULL};
    static const char too_long[] = {0, 0, 4, 0, 1};
    h2_peer *p = start();
    expect_refused(h2_peer_call(p, PATH, wrong_timeout, EMPTY, 5, false), "3", "grpc-timeout: not a timeout");
    expect_refused(h2_peer_call(p, PATH, NULL, "", 0, false), "12", "a unary call has one message");
    expect_refused(h2_peer_call(p, PATH, NULL, EMPTY EMPTY, 10, false), "12", "a unary call has one message");
    expect_refused(h2_peer_call(p, PATH, NULL, "\0\0\0\0\5ab", 7, false), "13", "the last message is not whole");
    expect_refused(h2_peer_call(p, PATH, NULL, "\0\0\0", 3, false), "13", "the last message is not whole");
    expect_refused(h2_peer_call(p, PATH, NULL, "\1\0\0\0\0", 5, false), "12",
                   "grpc-encoding: only gzip and identity are known");
    /* Known before the client has sent all: it is told to stop, after the answer. */
    expect_refused(h2_peer_call(p, PATH, NULL, too_long, 5, true), "8", "the message is too long");
    expect_refused(h2_peer_call(p, "/test.v1.Test/Other", NULL, "", 0, true), "12",
                   "method: this server has no such method");
    run_until_answered(h2_peer_call(p, PATH, get, EMPTY, 5, false));
    expect_header(8, ":status", "405");
    run_until_answered(h2_peer_call(p, PATH, json, EMPTY, 5, false));
    expect_header(9, ":status", "415");
    run_until_answered(h2_peer_call(p, PATH, web, EMPTY, 5, false));
    expect_header(10, ":status", "415");
    assert_int_equal(here.n, 0);
    size_t call = h2_peer_call(p, PATH, proto, EMPTY, 5, false);
    run_until_taken(1);
    succeed(0, 1);
    run_until_answered(call);
    run_until(nothing_lives);
    stop();
}

/* Who may not know hears of no method, and nothing of his is unpacked. */
TEST(who_is_not_let_in_is_refused_at_the_headers)
{
    static const char *const gzip[] = {"grpc-encoding", "gzip", NULL};
    static const uint8_t no_gzip[] = {1, 0, 0, 0, 3, 1, 2, 3};
    h2_peer *p = start();
    here.refuses = true;
    expect_refused(h2_peer_call(p, PATH, gzip, no_gzip, sizeof no_gzip, false), "16", "who are you");
    expect_refused(h2_peer_call(p, "/test.v1.Test/Other", NULL, "", 0, true), "16", "who are you");
    here.refuses = false;
    expect_refused(h2_peer_call(p, PATH, gzip, no_gzip, sizeof no_gzip, false), "13", "the message is not gzip");
    stop();
}

/* A method that is open to everybody takes no more than it needs. */
TEST(open_methods_take_short_messages)
{
    static const char prefix[] = {0, 0, 0, 16, 1};
    h2_peer *p = start();
    expect_refused(h2_peer_call(p, STREAMED, NULL, prefix, 5, true), "8", "the message is too long");
    stop();
}

TEST(headers_have_limits)
{
    static char text[4096];
    const char *fields[64] = {NULL};
    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i < 10; i += 2) {
        fields[i] = "x-some";
        fields[i + 1] = text;
    }
    h2_peer *p = start();
    expect_refused(h2_peer_call(p, PATH, fields, EMPTY, 5, false), "8", "the metadata is too long");
    for (size_t i = 0; i < 34; i += 2) {
        fields[i] = "x-some";
        fields[i + 1] = text + i; /* not taken from HPACK's table */
    }
    h2_peer_call(p, PATH, fields, EMPTY, 5, false);
    run_until(is_over);
    assert_int_equal(here.n, 0);
    stop();
}

static bool knows_the_limit(void)
{
    return h2_peer_concurrent_max(here.peers[0]) == CONCURRENT;
}

TEST(concurrent_calls_have_a_limit)
{
    h2_peer *p = start();
    run_until(knows_the_limit);
    for (size_t i = 0; i < 3 * CONCURRENT; i++)
        call_text(p, 'a');
    run_until_taken(CONCURRENT);
    for (size_t i = 0; i < 2 * CONCURRENT; i++) {
        succeed(i, 1);
        run_until_taken(CONCURRENT + i + 1);
    }
    stop();
}

/* Who does not heed the limit: the call is refused as one that was never seen. */
TEST(calls_beyond_the_limit_are_refused)
{
    size_t refused = 0;
    h2_peer *p = start();
    for (size_t i = 0; i < 2 * CONCURRENT; i++) /* before its SETTINGS are read */
        call_text(p, 'a');
    run_until_taken(CONCURRENT);
    for (int i = 0; i < 100; i++)
        turn();
    for (size_t i = 0; i < 2 * CONCURRENT; i++)
        refused += h2_peer_answer(p, i)->closed && h2_peer_answer(p, i)->error == NGHTTP2_REFUSED_STREAM;
    assert_int_equal(refused, CONCURRENT);
    stop();
}

/* Who has calls that queue is not read, until none does. */
TEST(calls_that_queue_stop_the_reading)
{
    h2_peer *p = start();
    size_t late = h2_peer_call(p, PATH, NULL, "\0\0", 2, true);
    call_text(p, 'a');
    run_until_taken(1);
    caller *c = here.taken[0].call.caller;
    fake_caller_queues(c, true);
    call_text(p, 'b'); /* with it comes that there is no room */
    run_until_taken(2);
    call_text(p, 'c');
    turns(50);
    assert_int_equal(here.n, 2);
    pass_ms(100000); /* nobody can be late whom we do not read */
    fake_caller_queues(c, false);
    run_until_taken(3);
    turns(20);
    assert_false(h2_peer_answer(p, late)->closed);
    fake_caller_queues(c, true); /* and once more */
    call_text(p, 'd');
    run_until_taken(4);
    call_text(p, 'e');
    turns(50);
    assert_int_equal(here.n, 4);
    fake_caller_queues(c, false);
    run_until_taken(5);
    stop();
}

/* A client of the test's own, which heeds nothing: its socket, with the greeting over. */
static int open_raw(void)
{
    static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0";
    int fd = sp_peer_connect(here.port, 0);

    assert_true(sp_peer_send(fd, hello, 24 + 9 + 9));
    turns(10);
    return fd;
}

/* POST PATH, and more to come. */
static size_t put_raw_call(uint8_t *out, size_t n)
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

typedef struct frames_seen {
    size_t n_refused, n_goaways, n_other_resets;
    uint32_t error; /* of the GOAWAY */
    bool over;
} frames_seen;

/* What comes within some turns of the loop. */
static frames_seen read_frames(int fd)
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

/* Also when it has acknowledged the limit. */
TEST(a_call_beyond_the_limit_is_refused_alone)
{
    uint8_t frame[64];
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    for (size_t i = 0; i <= CONCURRENT; i++)
        assert_true(sp_peer_send(fd, frame, put_raw_call(frame, i)));
    frames_seen seen = read_frames(fd);
    assert_int_equal(seen.n_refused, 1);
    assert_int_equal(seen.n_goaways + seen.n_other_resets, 0);
    assert_int_equal(grpc_server_in_flight(here.server), CONCURRENT);
    close(fd);
    run_until(nothing_lives);
    stop();
}

/* ---- lost calls ------------------------------------------------------------------------ */

TEST(a_cancelled_call_is_lost_alone)
{
    h2_peer *p = start();
    call_text(p, 'a');
    call_text(p, 'b');
    run_until_taken(2);
    h2_peer_reset(p, 0, NGHTTP2_CANCEL);
    run_until_lost(1);
    assert_ptr_equal(here.last_lost, &here.taken[0]);
    assert_ptr_equal(here.taken[0].call.caller, here.taken[1].call.caller);
    assert_int_equal(fake_caller_number(here.taken[0].call.caller), 1);
    succeed(0, 1); /* to nobody */
    succeed(1, 1);
    run_until_answered(1);
    expect_header(1, "grpc-status", "0");
    stop();
}

TEST(a_lost_connection_loses_all_its_calls)
{
    h2_peer *p = start();
    for (int i = 0; i < 5; i++)
        call_text(p, 'a');
    h2_peer_call(p, PATH, NULL, "\0\0", 2, true); /* never whole */
    run_until_taken(5);
    h2_peer_free(p);
    here.n_peers = 0;
    run_until_lost(5);
    assert_int_equal(grpc_server_in_flight(here.server), 5);
    for (size_t i = 0; i < 5; i++)
        succeed(i, 1);
    assert_int_equal(grpc_server_in_flight(here.server), 0);
    stop();
}

/* ---- flow control, and peers that do not read --------------------------------------------- */

static bool has_some(void)
{
    return h2_peer_answer(here.peers[0], 0)->len >= here.wanted;
}

TEST(answers_wait_for_the_window)
{
    start_with(NULL, 0);
    h2_peer *p = open_peer(3);
    call_text(p, 'a');
    run_until_taken(1);
    succeed(0, 20);
    for (size_t len = 3; len < 5 + 22; len += 3) {
        here.wanted = len;
        run_until(has_some);
        assert_int_equal(h2_peer_answer(p, 0)->len, len);
        assert_false(h2_peer_answer(p, 0)->closed);
        h2_peer_allow(p, 0, 3);
    }
    assert_int_equal(run_until_answered(0)->len, 5 + 22);
    expect_header(0, "grpc-status", "0");
    stop();
}

TEST(who_reads_nothing_is_closed)
{
    const streams_options soon = {.connections_max = 100, .stall_ms = 50};
    start_with(&soon, MESSAGE_MAX - 10);
    h2_peer *p = open_peer(1U << 30);
    static const uint8_t window[] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0};
    turn();
    h2_peer_raw(p, window, sizeof window);
    turn();
    h2_peer_deafen(p, true);
    for (size_t i = 0; i < 1000; i++)
        call_text(p, 'a');
    while (grpc_server_in_flight(here.server) == 0)
        turn();
    run_until(nothing_lives);
    assert_in_range(here.n, 1, 200); /* what the kernel holds, a mebibyte, and those under way */
    h2_peer_deafen(p, false);
    run_until(is_over);
    stop();
}

/* What a connection holds is counted, and beyond its part it gets errors; nothing else is lost. */
TEST(what_is_beyond_the_budget_is_refused)
{
    static const char piece[100];
    h2_peer *p = start();
    turn();
    size_t empty = fake_callers.held;
    assert_true(empty > 0); /* the connection itself */
    call_text(p, 'a');
    call_text(p, 'b');
    size_t reading = h2_peer_call(p, PATH, NULL, "\0\0\0\1\0", 5, true);
    run_until_taken(2);
    assert_true(fake_callers.held > empty + 4096);
    fake_budget_is_full(true);
    succeed(0, 100); /* its answer does not fit */
    run_until_answered(0);
    expect_header(0, "grpc-status", "8");
    expect_header(0, "grpc-message", "too many bytes are under way");
    expect_header(0, "lockstock-applied", "YES");
    h2_peer_more(p, reading, piece, sizeof piece, true);
    expect_refused(reading, "8", "too many bytes are under way");
    expect_refused(call_text(p, 'c'), "8", "too many bytes are under way");
    fake_budget_is_full(false);
    succeed(1, 100);
    run_until_answered(1);
    expect_header(1, "grpc-status", "0");
    run_until(nothing_lives);
    assert_int_equal(fake_callers.held, empty);
    stop();
}

/* A call that runs is its fields, and one that is answered its answer. */
TEST(requests_and_headers_are_let_go)
{
    enum { LEN = 100000 };
    static char big[LEN + 5] = {0, 0, LEN >> 16, (char)(LEN >> 8 & 0xff), (char)(LEN & 0xff)};
    start_with(NULL, 0);
    h2_peer *p = open_peer(1);
    turn();
    size_t empty = fake_callers.held;
    size_t call = h2_peer_call(p, PATH, NULL, big, sizeof big, true);
    for (int i = 0; i < 20; i++)
        turn();
    assert_in_range(fake_callers.held - empty, LEN, LEN + 8192);
    h2_peer_more(p, call, "", 0, false);
    run_until_taken(1);
    assert_in_range(fake_callers.held - empty, 1, 100); /* its place among those that run is its own */
    succeed(0, 50000);
    turn();
    assert_in_range(fake_callers.held - empty, 50000 + 4096, 50000 + 8192);
    stop();
}

/* ---- time -------------------------------------------------------------------------------- */

static void expect_deadline(size_t call)
{
    expect_refused(call, "4", "the deadline was over before the request was whole");
}

TEST(requests_must_come_in_time)
{
    static const char *const timeout[] = {"grpc-timeout", "2S", NULL}, *const longer[] = {"grpc-timeout", "2H", NULL};
    h2_peer *p = start();
    size_t named = h2_peer_call(p, PATH, timeout, "\0\0", 2, true), none = h2_peer_call(p, PATH, NULL, "", 0, true);
    size_t late = h2_peer_call(p, PATH, longer, "\0\0", 2, true);
    size_t whole = call_text(p, 'a');
    run_until_taken(1);
    pass_ms(1900);
    turns(20);
    assert_false(h2_peer_answer(p, named)->closed);
    pass_ms(200);
    expect_deadline(named);
    assert_false(h2_peer_answer(p, none)->closed);
    pass_ms(29000);
    expect_deadline(none);
    expect_deadline(late);
    assert_false(h2_peer_answer(p, whole)->closed); /* its time is dispatch's */
    succeed(0, 1);
    run_until_answered(whole);
    expect_header(whole, "grpc-status", "0");
    stop();
}

TEST(headers_must_come_in_time)
{
    static const uint8_t half[] = {0, 0, 1, NGHTTP2_HEADERS, 0, 0, 0, 0, 1, 0x83};
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    assert_true(sp_peer_send(fd, half, sizeof half));
    turns(5);
    pass_ms(29900);
    frames_seen seen = read_frames(fd);
    assert_false(seen.over || seen.n_goaways > 0);
    pass_ms(200);
    seen = read_frames(fd);
    assert_int_equal(seen.n_goaways, 1);
    assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(seen.over);
    close(fd);
    run_until(nothing_lives);
    stop();
}

static bool has_messages(void);
static void run_until_messages(size_t n);

TEST(streams_must_go_on)
{
    static const char *const timeout[] = {"grpc-timeout", "100S", NULL};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    pass_ms(20000);
    h2_peer_more(p, call, EMPTY, 5, true);
    run_until_messages(2);
    pass_ms(20000);
    turns(20);
    assert_false(h2_peer_answer(p, call)->closed);
    pass_ms(11000);
    expect_deadline(call);
    /* Who has asked all may listen for as long as it said. */
    size_t watch = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, false);
    run_until_messages(3);
    pass_ms(1000000);
    turns(20);
    assert_false(h2_peer_answer(p, watch)->closed);
    h2_peer_reset(p, watch, NGHTTP2_CANCEL);
    run_until(nothing_lives);
    size_t timed = h2_peer_call(p, STREAMED, timeout, EMPTY, 5, false);
    run_until_messages(4);
    pass_ms(99000);
    turns(20);
    assert_false(h2_peer_answer(p, timed)->closed);
    pass_ms(1100);
    expect_deadline(timed);
    stop();
}

/* A connection that has sent no whole call is idle, whatever it began. */
TEST(who_only_begins_calls_is_idle)
{
    const streams_options soon = {.connections_max = 100, .idle_ms = 50};
    start_with(&soon, 0);
    h2_peer *p = open_peer(0);
    call_text(p, 'a');
    h2_peer_call(p, PATH, NULL, "\0\0", 2, true);
    run_until_taken(1);
    uint64_t end = uv_now(&here.loop) + 200; /* not idle: one call is whole */
    while (uv_now(&here.loop) < end)
        assert_false(is_over()), turn();
    succeed(0, 1);
    run_until(is_over);
    run_until(nothing_lives);
    stop();
}

/* An answer that is taken too slowly ends: alone while others are taken, else with its connection. */
TEST(who_takes_no_answers_is_given_up)
{
    start_with(NULL, 0);
    h2_peer *p = open_peer(1);
    call_text(p, 'a');
    call_text(p, 'b');
    h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    run_until_taken(2);
    succeed(0, 50000);
    succeed(1, 50000);
    turns(20);
    for (int i = 0; i < 3; i++) { /* a byte is no progress */
        h2_peer_allow(p, 0, 1);
        h2_peer_allow(p, 1, 17000);
        turns(20);
        pass_ms(4000);
        turns(20);
    }
    assert_int_equal(run_until_answered(0)->error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(h2_peer_answer(p, 1)->closed && h2_peer_answer(p, 1)->error == NGHTTP2_NO_ERROR);
    grpc_stream_send(here.streamed, "told", 4);
    turns(20);
    pass_ms(9900);
    turns(20);
    assert_false(is_over());
    pass_ms(200);
    expect_ended(NGHTTP2_ENHANCE_YOUR_CALM);
    run_until(nothing_lives);
    stop();
}

/* ---- floods ------------------------------------------------------------------------------ */

static void flood(void (*one)(h2_peer *p, size_t i))
{
    h2_peer *p = start();

    here.answer_len = 1;
    turn();
    for (size_t i = 0; i < 5000 && h2_peer_turn(p); i++) {
        one(p, i);
        if (i % 50 == 0)
            turn();
    }
    expect_ended(NGHTTP2_ENHANCE_YOUR_CALM);
    run_until(nothing_lives);
    stop();
}

/* A call that ends in two ways: its client resets it, or it is no HTTP, so that we do. */
static size_t put_reset_call(uint8_t *out, size_t n, bool ours)
{
    size_t len = put_raw_call(out, n);
    const uint8_t reset[] = {0, 0, 4, NGHTTP2_RST_STREAM, 0, 0, 0, out[7], out[8], 0, 0, 0, NGHTTP2_CANCEL};

    if (ours) {
        out[9] = 0x88; /* :status in a request */
        return len;
    }
    memcpy(out + len, reset, sizeof reset);
    return len + sizeof reset;
}

/* So many a second; how many before the connection ends. */
static size_t count_resets(size_t n, uint64_t a_second, bool ours)
{
    frames_seen seen = {0};

    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    size_t i = 0;
    while (i < n && !seen.over) {
        for (size_t end = i + 100; i < end; i++, here.ahead_ns += 1000000000 / a_second) {
            uint8_t bytes[128];
            sp_peer_send(fd, bytes, put_reset_call(bytes, i, ours));
        }
        seen = read_frames(fd);
        if (seen.n_goaways > 0)
            assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    close(fd);
    run_until(nothing_lives);
    stop();
    return i;
}

/* A hundred deadlines a second are no flood. */
TEST(resets_have_a_rate)
{
    assert_int_equal(count_resets(4000, 100, false), 4000);
    assert_in_range(count_resets(4000, 10000, false), 1000, 1200);
    assert_in_range(count_resets(4000, 10000, true), 1000, 1200);
}

static void flood_window_updates(h2_peer *p, size_t i)
{
    const uint8_t update[] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    (void)i;
    h2_peer_raw(p, update, sizeof update);
}

static void flood_padding(h2_peer *p, size_t i)
{
    uint8_t data[9 + 256] = {0, 1, 0, 0, NGHTTP2_FLAG_PADDED, 0, 0, 0, 1, 255};

    if (i == 0) {
        h2_peer_call(p, PATH, NULL, "", 0, true);
        h2_peer_turn(p);
    }
    h2_peer_raw(p, data, sizeof data);
}

static void flood_unknown(h2_peer *p, size_t i)
{
    const uint8_t unknown[] = {0, 0, 1, 0xee, 0, 0, 0, 0, 1, 0};
    (void)i;
    h2_peer_raw(p, unknown, sizeof unknown);
}

static void flood_priorities(h2_peer *p, size_t i)
{
    const uint8_t priority[] = {0, 0, 5, 2, 0, 0, 0, (uint8_t)(i >> 7), (uint8_t)(i << 1 | 1), 0, 0, 0, 0, 1};

    h2_peer_raw(p, priority, sizeof priority);
}

/* Trailers, again and again, of a stream that is gone. */
static void flood_trailers(h2_peer *p, size_t i)
{
    const uint8_t reset[] = {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8};
    uint8_t trailers[9 + 1600] = {0, 1600 >> 8, 1600 & 255, 1, 5, 0, 0, 0, 1};

    memset(trailers + 9, 0x90, 1600); /* accept-encoding: gzip, deflate */
    if (i == 0) {
        h2_peer_call(p, PATH, NULL, "", 0, true);
        h2_peer_turn(p);
        h2_peer_raw(p, reset, sizeof reset);
    }
    h2_peer_raw(p, trailers, sizeof trailers);
}

TEST(floods_of_all_that_brings_nothing)
{
    flood(flood_window_updates);
    flood(flood_padding);
    flood(flood_unknown);
    flood(flood_priorities);
    flood(flood_trailers);
}

/* A block of references to one long field: it is not decoded to its end, whoever it is
 * for. Of a field whose name is no name nghttp2 tells nobody by itself. */
TEST(headers_by_reference_are_not_decoded_without_end)
{
    enum { VALUE = 127 + 0x21 + (0x1e << 7), REFERENCES = 1000 }; /* an integer of HPACK: 7f a1 1e */
    static uint8_t frame[9 + 3 + 6 + VALUE + REFERENCES];
    const size_t len = sizeof frame - 9;
    for (int i = 0; i < 2; i++) {
        const uint8_t head[] = {(uint8_t)(len >> 16),
                                (uint8_t)(len >> 8),
                                (uint8_t)len,
                                NGHTTP2_HEADERS,
                                NGHTTP2_FLAG_END_HEADERS,
                                0,
                                0,
                                0,
                                1,
                                0x83,
                                0x86,
                                0x84, /* POST http / */
                                0x40,
                                1,
                                i == 0 ? 'x' : '"',
                                0x7f,
                                0xa1,
                                0x1e};
        start_with(NULL, 0);
        int fd = open_raw();
        read_frames(fd);
        memcpy(frame, head, sizeof head);
        memset(frame + sizeof head, 'v', VALUE);
        memset(frame + sizeof head + VALUE, 0xbe, REFERENCES); /* the newest of the table */
        assert_true(sp_peer_send(fd, frame, sizeof frame));
        frames_seen seen = read_frames(fd);
        assert_int_equal(seen.n_goaways, 1);
        assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
        assert_true(seen.over);
        close(fd);
        run_until(nothing_lives);
        stop();
    }
}

/* Calls whose headers are longer than was announced, and short enough to be refused alone. */
TEST(long_headers_by_reference_are_a_flood)
{
    enum { VALUE = 127 + 0x21 + (0x1e << 7), REFERENCES = 12 };
    static uint8_t frame[9 + 3 + 6 + VALUE + REFERENCES];
    frames_seen seen = {0};
    size_t n = 0;
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    for (; n < 1000 && !seen.over; n++) {
        const size_t len = (n == 0 ? 6 + VALUE : 0) + 3 + REFERENCES;
        const uint8_t head[] = {0,
                                (uint8_t)(len >> 8),
                                (uint8_t)len,
                                NGHTTP2_HEADERS,
                                NGHTTP2_FLAG_END_HEADERS,
                                0,
                                0,
                                (uint8_t)((2 * n + 1) >> 8),
                                (uint8_t)(2 * n + 1),
                                0x83,
                                0x86,
                                0x84,
                                0x40,
                                1,
                                'x',
                                0x7f,
                                0xa1,
                                0x1e};
        size_t at = n == 0 ? sizeof head : sizeof head - 6;
        memcpy(frame, head, sizeof head);
        if (n == 0)
            memset(frame + at, 'v', VALUE), at += VALUE;
        memset(frame + at, 0xbe, REFERENCES);
        sp_peer_send(fd, frame, at + REFERENCES);
        if (n % 10 == 9)
            seen = read_frames(fd);
    }
    assert_in_range(n, 20, 200);
    assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    close(fd);
    run_until(nothing_lives);
    stop();
}

static void flood_pings(h2_peer *p, size_t i)
{
    const uint8_t ping[17] = {0, 0, 8, 6, 0};
    (void)i;
    h2_peer_raw(p, ping, sizeof ping);
}

static void flood_ping_acks(h2_peer *p, size_t i)
{
    const uint8_t ack[17] = {0, 0, 8, 6, 1};
    (void)i;
    h2_peer_raw(p, ack, sizeof ack);
}

static void flood_settings(h2_peer *p, size_t i)
{
    const uint8_t settings[9] = {0, 0, 0, 4, 0};
    (void)i;
    h2_peer_raw(p, settings, sizeof settings);
}

static void flood_empty_data(h2_peer *p, size_t i)
{
    const uint8_t data[9] = {0, 0, 0, 0, 0, 0, 0, 0, 1};

    if (i == 0) {
        h2_peer_call(p, PATH, NULL, "", 0, true);
        h2_peer_turn(p);
    }
    h2_peer_raw(p, data, sizeof data);
}

TEST(floods_of_pings)
{
    flood(flood_pings);
    flood(flood_ping_acks);
}

TEST(floods_of_settings)
{
    flood(flood_settings);
}

TEST(floods_of_empty_data)
{
    flood(flood_empty_data);
}

TEST(a_flood_of_continuations)
{
    static const uint8_t headers[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83}, more[] = {0, 0, 1, 9, 0, 0, 0, 0, 1, 0x86};
    h2_peer *p = start();
    turn();
    h2_peer_raw(p, headers, sizeof headers);
    for (size_t i = 0; i < 1000 && h2_peer_raw(p, more, sizeof more); i++)
        if (i % 100 == 0)
            turn();
    run_until(is_over);
    assert_int_equal(grpc_server_in_flight(here.server), 0);
    stop();
}

/* nghttp2 reads on behind the frame that ends the connection, unless it is told to stop. */
TEST(what_follows_a_flood_in_one_read_is_not_looked_at)
{
    static const uint8_t empty[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const struct {
        uint8_t bytes[17];
        size_t len;
    } last[] = {
        {{0, 0, 4, 2, 0, 0, 0, 0, 1, 1, 2, 3, 4}, 13},          /* PRIORITY of 4 bytes */
        {{0, 0, 3, 3, 0, 0, 0, 0, 1, 1, 2, 3}, 12},             /* RST_STREAM of 3 */
        {{0, 0, 3, 8, 0, 0, 0, 0, 1, 1, 2, 3}, 12},             /* WINDOW_UPDATE of 3 */
        {{0, 0, 7, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7}, 16}, /* PING of 7 */
        {{0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, 14},       /* SETTINGS of 5 */
        {{0, 0, 7, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7}, 16}, /* GOAWAY of 7 */
        {{0, 0, 1, 9, 0, 0, 0, 0, 1, 1}, 10},                   /* CONTINUATION of nothing */
        {{0, 0, 1, 0, 8, 0, 0, 0, 1, 9}, 10},                   /* DATA, padded beyond its end */
        {{0, 0, 3, 1, 4, 0, 0, 0, 5, 0x83, 0x86, 0x84}, 12},    /* HEADERS of another call */
    };
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        uint8_t bytes[1010 * sizeof empty + sizeof last[0].bytes];
        size_t len = 0;
        start_with(NULL, 0);
        int fd = open_raw();
        assert_true(sp_peer_send(fd, bytes, put_raw_call(bytes, 0)));
        read_frames(fd);
        for (size_t n = 0; n < 1010; n++, len += sizeof empty)
            memcpy(bytes + len, empty, sizeof empty);
        memcpy(bytes + len, last[i].bytes, last[i].len);
        assert_true(sp_peer_send(fd, bytes, len + last[i].len));
        frames_seen seen = read_frames(fd);
        assert_int_equal(seen.n_goaways, 1);
        assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
        assert_true(seen.over);
        close(fd);
        run_until(nothing_lives);
        stop();
    }
}

TEST(what_is_no_http2_is_closed)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint8_t byte;
    start_with(NULL, 0);
    int fd = sp_peer_connect(here.port, 0);
    assert_true(sp_peer_send(fd, http, sizeof http - 1));
    for (int i = 0; i < 100; i++)
        turn();
    while (recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
    stop();
}

/* ---- draining ------------------------------------------------------------------------------ */

static bool is_told_twice(void)
{
    int32_t last[H2_PEER_GOAWAYS_MAX];
    uint32_t errors[H2_PEER_GOAWAYS_MAX];

    return h2_peer_goaways(here.peers[0], last, errors) >= 2;
}

TEST(draining_lets_calls_end)
{
    int32_t last[H2_PEER_GOAWAYS_MAX];
    uint32_t errors[H2_PEER_GOAWAYS_MAX];
    h2_peer *p = start();
    size_t first = call_text(p, 'a');
    h2_peer_call(p, STREAMED, NULL, "", 0, true);
    run_until_taken(1);
    grpc_server_drain(here.server);
    size_t late = call_text(p, 'b'); /* sent before it knows */
    run_until(is_told_twice);
    assert_int_equal(h2_peer_goaways(p, last, errors), 2);
    assert_int_equal(last[0], INT32_MAX);
    assert_int_equal(last[1], h2_peer_answer(p, late)->id);
    assert_int_equal(errors[0], NGHTTP2_NO_ERROR);
    assert_int_equal(errors[1], NGHTTP2_NO_ERROR);
    expect_refused(late, "14", "the server is shutting down");
    expect_refused(1, "14", "the server is shutting down");
    succeed(0, MESSAGE_MAX - 10); /* all of it, though the connection ends behind it */
    assert_in_range(run_until_answered(first)->len, MESSAGE_MAX - 10, MESSAGE_MAX + 5);
    expect_header(first, "grpc-status", "0");
    run_until(is_over);
    assert_int_equal(here.n, 1);
    stop();
}

/* ---- streaming methods ----------------------------------------------------------------------- */

static bool has_messages(void)
{
    return here.n_messages >= here.wanted;
}

static void run_until_messages(size_t n)
{
    here.wanted = n;
    run_until(has_messages);
    assert_int_equal(here.n_messages, n);
}

TEST(streams_go_both_ways)
{
    static const char *const fields[] = {"x-asked", "this", NULL};
    const lks_error ok = {0};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, fields, "\0\0\0\0\1a", 6, true);
    run_until_messages(1);
    assert_string_equal(grpc_stream_header(here.streamed, "x-asked"), "this");
    assert_null(grpc_stream_header(here.streamed, "x-other"));
    assert_memory_equal(here.last_message, "a", 1);
    grpc_stream_add_header(here.streamed, "x-first", "1");
    grpc_stream_add_trailer(here.streamed, "x-last", "2");
    grpc_stream_send(here.streamed, "one", 3);
    here.wanted = 8;
    run_until(has_some);
    assert_memory_equal(h2_peer_answer(p, call)->data, "\0\0\0\0\3one", 8);
    expect_header(call, "x-first", "1");
    h2_peer_more(p, call, "\0\0\0\0\2bc\0\0\0\0\0", 12, true);
    run_until_messages(3);
    assert_int_equal(here.last_message_len, 0);
    grpc_stream_send(here.streamed, "", 0);
    grpc_stream_send(here.streamed, "two", 3);
    h2_peer_more(p, call, "", 0, false);
    here.wanted = 8 + 5 + 8;
    run_until(has_some);
    assert_int_equal(here.n_half_closed, 1);
    assert_int_equal(grpc_stream_waiting(here.streamed), 0);
    grpc_stream_finish(here.streamed, &ok);
    assert_int_equal(run_until_answered(call)->len, 21);
    expect_header(call, "x-last", "2");
    expect_header(call, "grpc-status", "0");
    assert_int_equal(here.n_closed, 1);
    stop();
}

TEST(a_stream_that_is_sent_and_finished_at_once)
{
    const lks_error ok = {0};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    grpc_stream_send(here.streamed, "one", 3);
    grpc_stream_finish(here.streamed, &ok);
    grpc_stream_send(here.streamed, "late", 4); /* dropped */
    const h2_answer *a = run_until_answered(call);
    assert_int_equal(a->len, 8);
    assert_int_equal(a->error, NGHTTP2_NO_ERROR);
    expect_header(call, "grpc-status", "0");
    stop();
}

static bool has_closed_streams(void)
{
    return here.n_closed >= here.wanted;
}

TEST(streams_that_are_cancelled_or_cut)
{
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    grpc_stream_send(here.streamed, "one", 3);
    h2_peer_reset(p, call, NGHTTP2_CANCEL);
    here.wanted = 1;
    run_until(has_closed_streams);
    h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(2);
    h2_peer_free(p);
    here.n_peers = 0;
    here.wanted = 2;
    run_until(has_closed_streams);
    assert_int_equal(here.lost, 0);
    stop();
}

TEST(a_stream_whose_client_takes_nothing_is_reset)
{
    static uint8_t big[MESSAGE_MAX];
    start_with(NULL, 0);
    size_t call = h2_peer_call(open_peer(1), STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    for (int i = 0; i < 100; i++)
        grpc_stream_send(here.streamed, big, sizeof big);
    assert_in_range(grpc_stream_waiting(here.streamed), 4 << 20, 5 << 20);
    assert_int_equal(run_until_answered(call)->error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(here.n_closed, 1);
    stop();
}

/* What was handed on counts no longer. */
TEST(a_stream_may_carry_any_number_of_bytes)
{
    char *big = calloc(1, MESSAGE_MAX + 5);
    assert_non_null(big);
    big[2] = MESSAGE_MAX >> 16;
    h2_peer *p = start();
    size_t call = h2_peer_call(p, GUARDED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    size_t held = fake_callers.held;
    for (size_t i = 0; i < 300; i++) { /* 75 MiB */
        h2_peer_more(p, call, big, MESSAGE_MAX + 5, true);
        run_until_messages(2 + i);
    }
    assert_int_equal(fake_callers.held, held);
    assert_int_equal(here.n_closed, 0);
    free(big);
    stop();
}

TEST(streams_that_are_not_allowed)
{
    h2_peer *p = start();
    here.refuses = true;
    expect_refused(h2_peer_call(p, GUARDED, NULL, "", 0, true), "7", "not you");
    assert_int_equal(here.n_opened, 0);
    here.refuses = false;
    h2_peer_call(p, GUARDED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    stop();
}

TEST_MAIN()

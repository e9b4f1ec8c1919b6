/* A channel over gRPC to a scripted server: what each end of a call means. */
#include <sys/socket.h>
#include <unistd.h>

#include "channel_fixture.h"
#include "h2_server.h"
#include "test.h"

enum { BRIEF_MS = 1000, BYTES_MAX = 4096, FIELD_BYTES = 5000 };

static h2_server *peer;

static const char *const plain[] = {":status", "200", "content-type", "application/grpc", NULL};
static const char *const ok[] = {"grpc-status", "0", NULL};

static void serve_with(h2_script script, lks_channel_options options)
{
    peer = h2_server_start(script);
    channel = open_channel(h2_server_url(peer), options);
}

static void serve(h2_step *const *steps)
{
    serve_with((h2_script){.steps = steps}, (lks_channel_options){.message_bytes_max = BYTES_MAX});
}

static int stop(void **state)
{
    lks_channel_close(channel);
    channel = NULL;
    h2_server_stop(peer);
    peer = NULL;
    return 0;
}

static void pong(h2_server *s, h2_request *r)
{
    h2_answer_pong(r);
}

static void hold_it(h2_server *s, h2_request *r)
{
}

/* ---- the end of a stream ---------------------------------------------------------------- */

static uint32_t reset_error;

static void reset_it(h2_server *s, h2_request *r)
{
    nghttp2_submit_rst_stream(r->session, NGHTTP2_FLAG_NONE, r->id, reset_error);
}

/* promise GC2: a refused stream, and one after the last that a GOAWAY names, did not run: NO, and tried again */
TEST(refused_stream_is_retried)
{
    reset_error = NGHTTP2_REFUSED_STREAM;
    serve((h2_step *const[]){reset_it, pong, NULL});
    run_ok(&server_plain, "a");
    assert_null(strstr(h2_server_request(peer, 1)->headers, "grpc-previous-rpc-attempts"));
}

static void go_away(h2_request *r, int32_t last)
{
    nghttp2_submit_goaway(r->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

static void go_away_before_it(h2_server *s, h2_request *r)
{
    go_away(r, 0);
}

TEST(a_call_after_the_last_of_a_goaway_is_tried_on_another_connection)
{
    serve((h2_step *const[]){go_away_before_it, pong, NULL});
    run_ok(&server_plain, "a");
    assert_int_equal(h2_server_request(peer, 1)->connection, 1);
}

static void go_away_after_it(h2_server *s, h2_request *r)
{
    go_away(r, r->id);
}

static void pong_to_both(h2_server *s, h2_request *r)
{
    h2_answer_pong(h2_server_request(s, 0));
    h2_answer_pong(r);
}

/* promise GC3: the calls that a server took before its GOAWAY are answered on the old connection, while others go over
 * a new one */
TEST(a_goaway_lets_calls_end)
{
    struct witness calls[2];

    serve((h2_step *const[]){go_away_after_it, pong_to_both, NULL});
    start(&server_plain, "a", NULL, &calls[0]);
    assert_true(h2_server_await(peer, 1));
    start(&server_plain, "b", NULL, &calls[1]);
    assert_ok(calls, 2);
    assert_int_equal(h2_server_request(peer, 1)->connection, 1);
}

/* A call that is held on an old connection, beside a new one. */
static void hold_on_old(struct witness *held)
{
    static h2_step *const steps[] = {go_away_after_it, pong, NULL};

    serve(steps);
    start(&server_plain, "a", NULL, held);
    assert_true(h2_server_await(peer, 1));
    run_ok(&server_plain, "b");
}

TEST(a_cancel_after_a_goaway)
{
    struct witness held;

    hold_on_old(&held);
    lks_call_cancel(held.call);
    assert_ended(&held, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    run_ok(&server_plain, "c");
}

TEST(a_channel_closes_while_a_call_is_on_an_old_connection)
{
    struct witness held;

    hold_on_old(&held);
    close_channel();
    assert_ended(&held, LKS_CANCELLED, LKS_APPLIED_MAYBE);
}

/* promise GC4: another reset may have had an effect: MAYBE, with gRPC's code for it */
TEST(resets)
{
    static const struct {
        uint32_t error;
        lks_code code;
    } cases[] = {{NGHTTP2_INTERNAL_ERROR, LKS_INTERNAL},
                 {NGHTTP2_CANCEL, LKS_CANCELLED},
                 {NGHTTP2_ENHANCE_YOUR_CALM, LKS_RESOURCE_EXHAUSTED},
                 {NGHTTP2_INADEQUATE_SECURITY, LKS_PERMISSION_DENIED}};

    serve((h2_step *const[]){reset_it, NULL});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset_error = cases[i].error;
        run_to(&server_plain, "a", NULL, cases[i].code, LKS_APPLIED_MAYBE);
    }
}

/* promise GC5: a request that did not leave as a whole did not run: NO */
TEST(a_request_that_flow_control_holds_back)
{
    const lks_call_options brief = {.timeout_ms = BRIEF_MS};
    ping_request request = ping("a");
    struct witness call;

    serve_with(
        (h2_script){.steps = (h2_step *const[]){pong, NULL}, .setting = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100}},
        (lks_channel_options){0});
    run_ok(&server_plain, "connects");
    request.ballast = (ProtobufCBinaryData){1000, calloc(1, 1000)};
    start_request(&server_plain, &request, &brief, &call);
    assert_ended(&call, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_true(h2_server_await_resets(peer, 1));
    free(request.ballast.data);
}

static void fail_early(h2_server *s, h2_request *r)
{
    static const char *const trailers[] = {
        ":status", "200", "content-type", "application/grpc", "grpc-status", "8", "lockstock-applied", "NO", NULL};

    h2_answer_fields(r, trailers, NULL, 0, NULL);
}

TEST(an_answer_before_the_request_is_whole)
{
    ping_request request = ping("a");
    struct witness call;

    serve_with((h2_script){.steps = (h2_step *const[]){fail_early, NULL},
                           .setting = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100},
                           .early = true},
               (lks_channel_options){0});
    request.ballast = (ProtobufCBinaryData){1000, calloc(1, 1000)};
    start_request(&server_plain, &request, NULL, &call);
    assert_ended(&call, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_true(h2_server_await_resets(peer, 1));
    free(request.ballast.data);
}

/* promise GC6: a cancel and a deadline reset the stream */
TEST(a_cancelled_call_is_reset)
{
    const lks_call_options brief = {.timeout_ms = BRIEF_MS, .no_retry = true};
    struct witness call;

    serve((h2_step *const[]){hold_it, NULL});
    start(&server_plain, "a", NULL, &call);
    assert_true(h2_server_await(peer, 1));
    lks_call_cancel(call.call);
    assert_ended(&call, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_true(h2_server_await_resets(peer, 1));
    assert_int_equal(h2_server_request(peer, 0)->error, NGHTTP2_CANCEL);
    run_to(&server_plain, "b", &brief, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_true(h2_server_await_resets(peer, 2));
}

/* ---- answers ----------------------------------------------------------------------------- */

static struct {
    const char *head[34], *trailers[8];
    const void *body;
    size_t len;
} told;

static void tell(h2_server *s, h2_request *r)
{
    h2_answer_fields(r, told.head, told.body, told.len, told.trailers[0] ? told.trailers : NULL);
}

static void expect(lks_code code, const char *text, lks_error *ret)
{
    lks_error error;

    run(&server_plain, "a", NULL, NULL, &error);
    assert_error(&error, code, LKS_APPLIED_MAYBE);
    assert_non_null(strstr(error.message, text));
    if (ret)
        *ret = error;
}

/* promise GC7: the status of any gRPC server: code, decoded message, field, time to retry after */
TEST(a_status_of_another_server)
{
    lks_error error;

    memset(&told, 0, sizeof told);
    serve((h2_step *const[]){tell, NULL});
    memcpy(told.head, plain, sizeof plain);
    told.head[4] = "grpc-status";
    told.head[5] = "5";
    told.head[6] = "grpc-message";
    told.head[7] = "50%25 t%C3%BCr%zz";
    expect(LKS_NOT_FOUND, "50%25 t%C3%BCr%zz", NULL); /* as it is, because it is not well-formed */
    told.head[7] = "50%25 t%C3%BCr";
    expect(LKS_NOT_FOUND, "50% t\xC3\xBCr", NULL);
    told.head[5] = "99";
    expect(LKS_UNKNOWN, "50%", NULL);
    /* google.rpc.Status{code: 3, details: [BadRequest{field "a.b"}, ErrorInfo{NOT_OURS, x.org}, RetryInfo{1.5 s}]} */
    told.head[5] = "3";
    told.head[8] = "grpc-status-details-bin";
    told.head[9] = "CAMaNAopdHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLkJhZFJlcXVlc3QSBwoFCgNhLmIaPQoodHlwZS5nb2"
                   "9nbGVhcGlzLmNvbS9nb29nbGUucnBjLkVycm9ySW5mbxIRCghOT1RfT1VSUxIFeC5vcmcaNgoodHlwZS5nb29nbGVh"
                   "cGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAyrXuAQ";
    expect(LKS_INVALID_ARGUMENT, "50%", &error);
    assert_string_equal(error.field, "a.b");
    assert_int_equal(error.retry_after_ms, 1500);
    told.head[9] = "!!";
    expect(LKS_INVALID_ARGUMENT, "50%", &error);
    assert_string_equal(error.field, "");
}

/* promise GC8: an answer without grpc-status has the code that gRPC gives its HTTP status */
TEST(answers_that_are_not_of_grpc)
{
    static const struct {
        const char *status;
        lks_code code;
    } cases[] = {{"400", LKS_INTERNAL},      {"401", LKS_UNAUTHENTICATED}, {"403", LKS_PERMISSION_DENIED},
                 {"404", LKS_UNIMPLEMENTED}, {"429", LKS_UNAVAILABLE},     {"503", LKS_UNAVAILABLE},
                 {"500", LKS_UNKNOWN}};

    memset(&told, 0, sizeof told);
    serve((h2_step *const[]){tell, NULL});
    told.head[0] = ":status";
    told.body = "<html>";
    told.len = 6;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        told.head[1] = cases[i].status;
        expect(cases[i].code, cases[i].status, NULL);
    }
    told.head[1] = "200";
    expect(LKS_UNKNOWN, "the answer is not gRPC", NULL);
    memcpy(told.head, plain, sizeof plain);
    told.body = "\0\0\0\0";
    told.len = 5;
    expect(LKS_UNKNOWN, "no grpc-status", NULL);
}

/* promise GC9: an OK needs one message, not longer than message_bytes_max, and perhaps compressed */
TEST(messages_of_answers)
{
    static const char gzip[] =
        "\1\0\0\0\x17\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xe3\x62\x4c\x04\x00\x4b\x3c\x78\xd1\x03\x00\x00\x00";
    static char huge[BYTES_MAX + 6] = {0, 0, 0, (BYTES_MAX + 1) >> 8, 1};

    memset(&told, 0, sizeof told);
    serve((h2_step *const[]){tell, NULL});
    memcpy(told.head, plain, sizeof plain);
    memcpy(told.trailers, ok, sizeof ok);
    told.body = "\0\0\0\0\0\0\0\0\0";
    told.len = 10;
    expect(LKS_INTERNAL, "two messages", NULL);
    told.len = 3;
    expect(LKS_INTERNAL, "no message", NULL);
    told.body = huge;
    told.len = sizeof huge;
    expect(LKS_RESOURCE_EXHAUSTED, "longer than the limit", NULL);
    told.body = gzip;
    told.len = sizeof gzip - 1;
    expect(LKS_INTERNAL, "grpc-encoding does not say how", NULL);
    told.head[4] = "grpc-encoding";
    told.head[5] = "gzip";
    run_ok(&server_plain, "a");
}

/* promise GC15: headers of an answer hold 64 KiB at most */
TEST(too_many_headers)
{
    static char field[FIELD_BYTES + 1];

    memset(field, 'x', FIELD_BYTES);
    memset(&told, 0, sizeof told);
    serve((h2_step *const[]){tell, NULL});
    memcpy(told.head, plain, sizeof plain);
    for (size_t i = 4; i < 32; i += 2) {
        told.head[i] = "word";
        told.head[i + 1] = field;
    }
    expect(LKS_RESOURCE_EXHAUSTED, "too long", NULL);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* promise GC10: metadata that gRPC cannot carry refuses the call by name; keys with -bin carry bytes */
TEST(metadata)
{
    static const struct {
        lks_metadata entry;
        const char *text;
    } bad[] = {{{"te", "x", 1}, "te is"},
               {{"grpc-timeout", "1S", 2}, "grpc-timeout is"},
               {{"word", "\xC3\xBC", 2}, "word is"}};
    const lks_metadata good[] = {{"blob-bin", "\0\xFF", 2}, {"word", "a b", 3}};
    lks_call_options options = {.n_metadata = 1};
    lks_error error;

    serve((h2_step *const[]){pong, NULL});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.metadata = &bad[i].entry;
        run(&server_plain, "a", &options, NULL, &error);
        assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
        assert_non_null(strstr(error.message, bad[i].text));
    }
    options = (lks_call_options){.metadata = good, .n_metadata = 2};
    run_to(&server_plain, "a", &options, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_non_null(strstr(h2_server_request(peer, 0)->headers, "blob-bin: AP8\n"));
    assert_non_null(strstr(h2_server_request(peer, 0)->headers, "word: a b\n"));
}

/* promise GC11: a connection has no more calls than the server's MAX_CONCURRENT_STREAMS */
TEST(the_server_limits_the_calls_of_a_connection)
{
    struct witness calls[3];

    serve_with((h2_script){.steps = (h2_step *const[]){hold_it, pong, NULL},
                           .setting = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}},
               (lks_channel_options){0});
    start_many(&server_plain, "a", calls, 3);
    assert_true(h2_server_await(peer, 1));
    lks_call_cancel(calls[0].call);
    assert_ended(&calls[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ok(&calls[1], 2);
}

static void answer_calls_that_do_not_wait(h2_server *s, h2_request *r)
{
    if (memmem(r->body, r->len, "prompt", 6))
        h2_answer_pong(r);
}

/* promise GC14: calls that wait leave a quarter of the server's MAX_CONCURRENT_STREAMS to the others */
TEST(waiting_calls_leave_streams_to_the_others)
{
    struct witness calls[4];

    serve_with((h2_script){.steps = (h2_step *const[]){answer_calls_that_do_not_wait, NULL},
                           .setting = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 4}},
               (lks_channel_options){0});
    for (size_t i = 0; i < 4; i++)
        start_waiting(&server_plain, "waits", &calls[i]);
    assert_true(h2_server_await(peer, 3));
    run_ok(&server_plain, "prompt");
    close_channel();
    for (size_t i = 0; i < 4; i++)
        lks_call_free(calls[i].call);
}

static void ping_first(h2_server *s, h2_request *r)
{
    nghttp2_submit_ping(r->session, NGHTTP2_FLAG_NONE, NULL);
}

/* promise GC17: a server's pings are answered */
TEST(a_ping_comes_back)
{
    serve((h2_step *const[]){ping_first, NULL});
    run_ok(&server_plain, "a");
}

static void break_http(h2_server *s, h2_request *r)
{
    nghttp2_session_terminate_session(r->session, NGHTTP2_PROTOCOL_ERROR);
}

TEST(a_connection_that_ends_loses_its_calls)
{
    serve((h2_step *const[]){break_http, pong, NULL});
    run_to(&server_read, "a", NULL, LKS_OK, LKS_APPLIED_MAYBE);
}

/* ---- keepalive ---------------------------------------------------------------------------- */

/* promise GC21: while calls are under way a silent server is pinged, and left when it does not answer */
TEST(a_server_that_answers_pings_is_waited_for)
{
    const lks_call_options once = {.no_retry = true};
    lks_error error;

    serve_with((h2_script){.steps = (h2_step *const[]){hold_it, NULL}, .pings = 3},
               (lks_channel_options){.keepalive_ms = 1000, .keepalive_timeout_ms = 1000});
    assert_int_equal(run(&server_plain, "a", &once, NULL, &error), LKS_OK);
}

/* promise GC21 */
TEST(connection_without_ping_answers_is_closed)
{
    static const uint8_t settings[9] = {[3] = NGHTTP2_SETTINGS};
    const lks_call_options once = {.no_retry = true};
    struct witness call;
    char url[64];
    uint16_t port;
    int listener = ports_bind(&port);

    assert_int_equal(listen(listener, 8), 0);
    snprintf(url, sizeof url, "grpc://127.0.0.1:%u", port);
    channel = open_channel(url, (lks_channel_options){.keepalive_ms = 1000, .keepalive_timeout_ms = 1000});
    start(&server_plain, "a", &once, &call);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(write(fd, settings, sizeof settings), sizeof settings);
    assert_ended(&call, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    close(fd);
    close(listener);
}

TEST_MAIN(.teardown = stop)

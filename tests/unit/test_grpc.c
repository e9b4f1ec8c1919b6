/* gRPC: answers, and the ends of a call. */
#include "grpc_scene.h"

/* ---- unary calls ---------------------------------------------------------------------- */

/* promise F5: a duplicate `authorization` or `lockstock-namespace` is INVALID_ARGUMENT, over SP and gRPC */
TEST(duplicate_header_is_reported)
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

/* promise GD22 */
/* promise G1: a unary call is one complete message, and its answer is one with status 0 */
TEST(a_call_and_its_answer)
{
    static const char *const fields[] = {"grpc-timeout",
                                         "1500m",
                                         "lockstock-namespace",
                                         "shop",
                                         "authorization",
                                         "Bearer x",
                                         "grpc-previous-rpc-attempts",
                                         "1",
                                         NULL};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, PATH, fields, "\0\0\0\0\3abc", 8, false);
    run_until_taken(1);
    const sink_call *got = &here.taken[0].call;
    assert_string_equal(got->path, PATH);
    assert_int_equal(got->len, 3);
    assert_memory_equal(here.taken[0].payload, "abc", 3);
    assert_int_equal(got->timeout_ms, 1500);
    assert_true(got->unanswered_before);
    assert_true(got->received_ns > 0 && !got->message);
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

/* promise G2: an error is trailers only, with `lockstock-applied` and details */
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
        bool has_details = error.field[0] || error.reason != LKS_REASON_NONE || error.retry_after_ms > 0;
        assert_true((h2_peer_header(p, call, "grpc-status-details-bin")[0] != '\0') == has_details);
        assert_int_equal(a->blocks, 1);
        assert_int_equal(a->len, 0);
    }
    stop();
}

/* promise G1 */
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

/* promise G1 */
/* promise G3: a request that is not gRPC gets 405 or 415; an unknown method is refused at the headers for callers
 * with access; a client that still sends is told to stop after the answer */
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
    expect_refused(h2_peer_call(p, PATH, NULL, "", 0, false), "12", "a unary call must have exactly one message");
    expect_refused(h2_peer_call(p, PATH, NULL, EMPTY EMPTY, 10, false), "12",
                   "a unary call must have exactly one message");
    expect_refused(h2_peer_call(p, PATH, NULL, "\0\0\0\0\5ab", 7, false), "13", "the last message is incomplete");
    expect_refused(h2_peer_call(p, PATH, NULL, "\0\0\0", 3, false), "13", "the last message is incomplete");
    expect_refused(h2_peer_call(p, PATH, NULL, "\1\0\0\0\0", 5, false), "13",
                   "the message is compressed, but grpc-encoding does not say how");
    /* Refused before the client has sent everything: it is asked to stop, after the answer. */
    expect_refused(h2_peer_call(p, PATH, NULL, too_long, 5, true), "8",
                   "the message is longer than the limit, 262144 bytes");
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
    run_until(no_call_is_open);
    stop();
}

/* A caller without access does not learn of methods, and its request is not unpacked. */
/* promise G3 */
TEST(caller_without_access_is_refused_at_the_headers)
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
/* promise G11: messages arrive in any pieces; messages over the limit take no memory, compressed or not, and empty
 * blocks take no time */
TEST(open_methods_take_short_messages)
{
    static const char prefix[] = {0, 0, 0, 16, 1};
    h2_peer *p = start();
    expect_refused(h2_peer_call(p, STREAMED, NULL, prefix, 5, true), "8",
                   "the message is longer than the limit, 4096 bytes");
    stop();
}

/* promise G4 */
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

/* promise G4 */
/* promise G14 */
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

/* A client that ignores the limit: the call is refused like one that was never seen. */
/* promise G4 */
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

/* A connection with queued calls is not read until none is queued. */
/* promise G14: waiting calls have streams of their own, so that the call that ends their wait finds one; a connection
 * with queued calls is not read further */
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
    pass_ms(100000); /* an unread peer cannot be late */
    fake_caller_queues(c, false);
    run_until_taken(3);
    turns(20);
    assert_false(h2_peer_answer(p, late)->closed);
    fake_caller_queues(c, true); /* and again */
    call_text(p, 'd');
    run_until_taken(4);
    call_text(p, 'e');
    turns(50);
    assert_int_equal(here.n, 4);
    fake_caller_queues(c, false);
    run_until_taken(5);
    stop();
}

/* ---- lost calls ------------------------------------------------------------------------ */

/* promise G5: a call that is cancelled, or whose connection is lost, is lost alone */
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
    succeed(0, 1); /* its client has gone */
    succeed(1, 1);
    run_until_answered(1);
    expect_header(1, "grpc-status", "0");
    stop();
}

/* ---- draining ------------------------------------------------------------------------------ */

static bool got_two_goaways(void)
{
    return h2_peer_goaways(here.peers[0])->n >= 2;
}

/* promise G8: a draining server sends GOAWAY twice, refuses new calls and answers the calls it has */
TEST(draining_lets_calls_end)
{
    h2_peer *p = start();
    const h2_goaways *came = h2_peer_goaways(p);
    size_t first = call_text(p, 'a');
    h2_peer_call(p, STREAMED, NULL, "", 0, true);
    run_until_taken(1);
    grpc_server_drain(here.server);
    size_t late = call_text(p, 'b'); /* sent before it knows */
    run_until(got_two_goaways);
    assert_int_equal(came->n, 2);
    assert_int_equal(came->last[0], INT32_MAX);
    assert_int_equal(came->last[1], h2_peer_answer(p, late)->id);
    assert_int_equal(came->error[0], NGHTTP2_NO_ERROR);
    assert_int_equal(came->error[1], NGHTTP2_NO_ERROR);
    expect_refused(late, "14", "the server is shutting down");
    expect_refused(1, "14", "the server is shutting down");
    succeed(0, MESSAGE_MAX - 10); /* all of it, though the connection ends behind it */
    assert_in_range(run_until_answered(first)->len, MESSAGE_MAX - 10, MESSAGE_MAX + 5);
    expect_header(first, "grpc-status", "0");
    run_until(is_over);
    assert_int_equal(here.n, 1);
    stop();
}

TEST_MAIN()

/* The REP context pool, asked by hand-made peers. */

#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/frame.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "support/rep_fixture.h"
#include "support/sp_peer.h"
#include "test.h"

static rep_fixture *rep;

static void start(lks_rpc_nng_rep_options options)
{
    rep = rep_fixture_start(options);
    assert_non_null(rep);
}

static int stop(void **state)
{
    rep_fixture_free(rep);
    rep = NULL;
    return 0;
}

static int open_peer(void)
{
    int fd = sp_peer_open(rep_fixture_port(rep));
    assert_true(fd >= 0);
    return fd;
}

static void send_message(int fd, uint32_t id, const char *text)
{
    size_t len;
    uint8_t *bytes = sp_peer_message(id, text, strlen(text), &len);
    assert_true(sp_peer_send(fd, bytes, len));
    free(bytes);
}

static void expect_message(int fd, uint32_t id, const char *text)
{
    uint32_t got_id;
    size_t len;
    uint8_t *body = sp_peer_receive(fd, &got_id, &len);
    assert_non_null(body);
    assert_int_equal(got_id & 0x7fffffff, id);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(body, text, len);
    free(body);
}

/* The next message refuses a whole frame. */
static void expect_refusal(int fd, uint32_t id, lks_code code)
{
    uint32_t got_id;
    size_t len;
    uint8_t *body = sp_peer_receive(fd, &got_id, &len);
    assert_non_null(body);
    assert_int_equal(got_id & 0x7fffffff, id);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    Lockstock__Rpc__V1__Reply *reply;
    lks_error error;
    assert_int_equal(lks_rpc_reply_decode(body, len, 3, arena, &reply, &error), LKS_OK);
    assert_int_equal(lks_rpc_result_error(reply->results[0], &error), code);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_true((code == LKS_RESOURCE_EXHAUSTED) == (error.retry_after_ms > 0));
    lks_rpc_arena_free(arena);
    free(body);
}

#define ONE_CALL "\x12\x03\x0a\x01m"

static void expect_refusals(int fd, uint32_t id, size_t n_calls, lks_code code)
{
    uint32_t got_id;
    size_t len;
    uint8_t *body = sp_peer_receive(fd, &got_id, &len);
    Lockstock__Rpc__V1__Reply *reply = body ? lockstock__rpc__v1__reply__unpack(NULL, len, body) : NULL;
    assert_non_null(reply);
    assert_int_equal(got_id & 0x7fffffff, id);
    assert_int_equal(reply->n_results, n_calls);
    for (size_t i = 0; i < n_calls; i++)
        assert_int_equal(reply->results[i]->code, code);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
    free(body);
}

static lks_rpc_nng_request *take(void)
{
    lks_rpc_nng_request *request = rep_fixture_take(rep);
    assert_non_null(request);
    return request;
}

TEST(answers_reach_their_requests_in_any_order)
{
    start((lks_rpc_nng_rep_options){0});
    int one = open_peer(), two = open_peer();
    send_message(one, 1, "first");
    lks_rpc_nng_request *first = take();
    send_message(one, 2, "second");
    lks_rpc_nng_request *second = take();
    send_message(two, 1, "third");
    lks_rpc_nng_request *third = take();
    assert_int_equal(lks_rpc_nng_request_peer(first), lks_rpc_nng_request_peer(second));
    assert_int_not_equal(lks_rpc_nng_request_peer(first), lks_rpc_nng_request_peer(third));
    assert_int_equal(lks_rpc_nng_rep_in_flight(rep_fixture_rep(rep)), 3);
    rep_fixture_answer(third);
    rep_fixture_answer(second);
    expect_message(two, 1, "third");
    expect_message(one, 2, "second");
    rep_fixture_answer(first);
    expect_message(one, 1, "first");
    close(one);
    close(two);
}

/* A request without an answer holds a context; there must be another for the next. */
TEST(calls_that_wait_do_not_block_others)
{
    enum { N = 1000 };
    start((lks_rpc_nng_rep_options){.receiving = 16, .peer_in_flight_max = N + 1});
    int fd = open_peer();
    for (uint32_t i = 0; i < N; i++)
        send_message(fd, i, "wait");
    assert_true(rep_fixture_wait_count(rep, N));
    send_message(fd, N, "release");
    for (uint32_t i = 0; i < N; i++)
        lks_rpc_nng_request_drop(take());
    rep_fixture_answer(take());
    expect_message(fd, N, "release");
    close(fd);
}

TEST(beyond_the_limit_messages_are_refused)
{
    start((lks_rpc_nng_rep_options){.in_flight_max = 3});
    int fd = open_peer(), other = open_peer();
    lks_rpc_nng_request *held[3];
    for (uint32_t i = 0; i < 3; i++) {
        send_message(fd, i, "x");
        held[i] = take();
    }
    for (uint32_t i = 0; i < 100; i++) {
        send_message(other, i, "y");
        expect_refusal(other, i, LKS_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(rep_fixture_count(rep), 3);
    lks_rpc_nng_request_drop(held[0]);
    send_message(other, 200, "z");
    rep_fixture_answer(take());
    expect_message(other, 200, "z");
    rep_fixture_answer(held[1]);
    rep_fixture_answer(held[2]);
    close(fd);
    close(other);
}

TEST(one_connection_cannot_take_all_there_is)
{
    start((lks_rpc_nng_rep_options){.in_flight_max = 100, .peer_in_flight_max = 4});
    int fd = open_peer(), other = open_peer();
    for (uint32_t i = 0; i < 4; i++)
        send_message(fd, i, "x");
    assert_true(rep_fixture_wait_count(rep, 4));
    send_message(fd, 4, "x");
    expect_refusal(fd, 4, LKS_RESOURCE_EXHAUSTED);
    send_message(other, 1, "y");
    assert_true(rep_fixture_wait_count(rep, 5));
    for (uint32_t i = 0; i < 4; i++)
        lks_rpc_nng_request_drop(take());
    rep_fixture_answer(take());
    expect_message(other, 1, "y");
    send_message(fd, 9, "x");
    rep_fixture_answer(take());
    expect_message(fd, 9, "x");
    close(fd);
    close(other);
}

/* Those who do not read share what there is with one who comes late. */
TEST(what_is_left_is_for_everyone)
{
    enum { ROOM = 64, SHARE = 32 };
    start((lks_rpc_nng_rep_options){.in_flight_max = ROOM, .peer_in_flight_max = ROOM});
    int fd = open_peer(), other = open_peer();
    for (uint32_t i = 0; i < SHARE; i++)
        send_message(fd, i, "x");
    assert_true(rep_fixture_wait_count(rep, SHARE));
    send_message(fd, SHARE, "x");
    expect_refusal(fd, SHARE, LKS_RESOURCE_EXHAUSTED);
    send_message(other, 1, "y");
    assert_true(rep_fixture_wait_count(rep, SHARE + 1));
    for (uint32_t i = 0; i < SHARE; i++)
        lks_rpc_nng_request_drop(take());
    rep_fixture_answer(take());
    expect_message(other, 1, "y");
    close(fd);
    close(other);
}

TEST(one_connection_too_many_is_closed)
{
    start((lks_rpc_nng_rep_options){.connections_max = 2});
    rep_fixture_echo(rep, 0);
    int one = open_peer(), two = open_peer();
    send_message(one, 1, "a");
    expect_message(one, 1, "a");
    send_message(two, 1, "b");
    expect_message(two, 1, "b");
    int three = open_peer();
    assert_true(sp_peer_closed(three));
    close(three);
    close(one);
    /* nng takes its time to notice. */
    for (bool served = false; !served;) {
        int again = open_peer();
        uint32_t id;
        size_t len;
        send_message(again, 7, "c");
        uint8_t *body = sp_peer_receive(again, &id, &len);
        served = body;
        free(body);
        close(again);
    }
    close(two);
}

TEST(a_message_too_long_closes_its_connection_only)
{
    enum { MAX = 1000 };
    char text[MAX + 2];
    start((lks_rpc_nng_rep_options){.message_bytes_max = MAX});
    rep_fixture_echo(rep, 0);
    int fd = open_peer(), other = open_peer();
    memset(text, 'x', sizeof text);
    text[MAX] = '\0';
    send_message(fd, 1, text);
    expect_message(fd, 1, text);
    text[MAX] = 'x';
    text[MAX + 1] = '\0';
    send_message(fd, 2, text);
    assert_true(sp_peer_closed(fd));
    send_message(other, 1, "still here");
    expect_message(other, 1, "still here");
    close(fd);
    close(other);
}

TEST(a_request_may_end_in_other_ways_than_an_answer)
{
    start((lks_rpc_nng_rep_options){0});
    int fd = open_peer(), bad = open_peer();
    send_message(fd, 1, "dropped");
    lks_rpc_nng_request_drop(take());
    send_message(fd, 2, "refused");
    lks_error error;
    lks_error_set(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "no");
    lks_rpc_nng_request_refuse(take(), &error);
    expect_refusal(fd, 2, LKS_UNIMPLEMENTED);
    send_message(bad, 3, "no frame");
    lks_rpc_nng_request_close_peer(take());
    assert_true(sp_peer_closed(bad));
    send_message(fd, 4, "answered");
    rep_fixture_answer(take());
    expect_message(fd, 4, "answered");
    /* The last answer counts only. */
    send_message(fd, 5, "twice");
    lks_rpc_nng_request *request = take();
    memset(lks_rpc_nng_request_answer(request, 100), 'x', 100);
    rep_fixture_answer(request);
    expect_message(fd, 5, "twice");
    close(fd);
    close(bad);
}

/* Until its connection is closed, nothing of a doomed peer reaches the server. */
TEST(a_doomed_peer_is_not_served_any_more)
{
    start((lks_rpc_nng_rep_options){0});
    int bad = open_peer(), fd = open_peer();
    send_message(bad, 1, "no frame");
    lks_rpc_nng_request *first = take();
    for (uint32_t i = 2; i < 50; i++)
        send_message(bad, i, "more of it");
    assert_true(rep_fixture_wait_count(rep, 49));
    lks_rpc_nng_request_close_peer(first);
    send_message(bad, 50, "after");
    assert_true(sp_peer_closed(bad));
    send_message(fd, 1, "x");
    assert_true(rep_fixture_wait_count(rep, 50));
    assert_int_equal(rep_fixture_count(rep), 50);
    close(bad);
    close(fd);
}

TEST(a_pool_that_stops_refuses_and_still_answers)
{
    start((lks_rpc_nng_rep_options){0});
    int fd = open_peer();
    send_message(fd, 1, "running");
    lks_rpc_nng_request *running = take();
    lks_rpc_nng_rep_stop_receiving(rep_fixture_rep(rep));
    send_message(fd, 2, "too late");
    expect_refusal(fd, 2, LKS_UNAVAILABLE);
    send_message(fd, 3, ONE_CALL ONE_CALL ONE_CALL);
    expect_refusals(fd, 3, 3, LKS_UNAVAILABLE);
    int late = open_peer();
    assert_true(sp_peer_closed(late));
    close(late);
    rep_fixture_answer(running);
    expect_message(fd, 1, "running");
    assert_int_equal(rep_fixture_count(rep), 1);
    close(fd);
}

TEST(closing_sends_what_is_being_answered)
{
    start((lks_rpc_nng_rep_options){0});
    int fd = open_peer();
    for (uint32_t i = 0; i < 100; i++)
        send_message(fd, i, "x");
    assert_true(rep_fixture_wait_count(rep, 100));
    for (uint32_t i = 0; i < 100; i++)
        rep_fixture_answer(take());
    stop(NULL);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t id;
        size_t len;
        uint8_t *body = sp_peer_receive(fd, &id, &len);
        assert_non_null(body);
        free(body);
    }
    assert_true(sp_peer_closed(fd));
    close(fd);
}

TEST(addresses_that_cannot_be_served_are_told)
{
    char url[64];
    lks_error error;
    uint16_t port = 0;
    start((lks_rpc_nng_rep_options){0});
    lks_rpc_nng_rep *pool = rep_fixture_rep(rep);
    static const char *const bad[] = {"ipc:///tmp/x", "inproc://x", "127.0.0.1:0", "", "tcp://127.0.0.1:99999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lks_code code = lks_rpc_nng_rep_listen(pool, bad[i], &port, &error);
        if (code != LKS_INVALID_ARGUMENT && code != LKS_UNAVAILABLE)
            fail_msg("%s: %s %s", bad[i], lks_code_name(code), error.message);
        assert_true(i == 4 || code == LKS_INVALID_ARGUMENT);
    }
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", rep_fixture_port(rep));
    assert_int_equal(lks_rpc_nng_rep_listen(pool, url, &port, &error), LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, url));
    /* It is not spoilt by any of these. */
    assert_int_equal(lks_rpc_nng_rep_listen(pool, "tcp://127.0.0.1:0", &port, &error), LKS_OK);
    assert_int_not_equal(port, rep_fixture_port(rep));
    rep_fixture_echo(rep, 0);
    int fd = sp_peer_open(port);
    assert_true(fd >= 0);
    send_message(fd, 1, "second address");
    expect_message(fd, 1, "second address");
    close(fd);
}

/* nng cannot choose a port for ws: one that was free a moment ago must do. */
static unsigned short listen_over_websocket(void)
{
    lks_error error;
    uint16_t port = 0;
    lks_code code = LKS_UNAVAILABLE;
    int wanted = 0;
    char url[64];
    for (int i = 0; i < 100 && code == LKS_UNAVAILABLE; i++) {
        wanted = 20000 + (getpid() * 7 + i * 131) % 20000;
        snprintf(url, sizeof url, "ws://127.0.0.1:%d/lockstock", wanted);
        code = lks_rpc_nng_rep_listen(rep_fixture_rep(rep), url, &port, &error);
    }
    assert_int_equal(code, LKS_OK);
    return (unsigned short)wanted;
}

TEST(nng_itself_is_served_over_websocket_too)
{
    nng_socket req;
    char url[64];
    start((lks_rpc_nng_rep_options){.message_bytes_max = 1000});
    rep_fixture_echo(rep, 0);
    snprintf(url, sizeof url, "ws://127.0.0.1:%d/lockstock", listen_over_websocket());
    assert_int_equal(nng_req0_open(&req), 0);
    assert_int_equal(nng_socket_set_ms(req, NNG_OPT_RECVTIMEO, 30000), 0);
    assert_int_equal(nng_dial(req, url, NULL, 0), 0);
    char *body;
    size_t len;
    assert_int_equal(nng_send(req, "hello", 5, 0), 0);
    assert_int_equal(nng_recv(req, &body, &len, NNG_FLAG_ALLOC), 0);
    assert_int_equal(len, 5);
    assert_memory_equal(body, "hello", 5);
    nng_free(body, len);
    nng_close(req);
}

/* nng shakes hands with whoever asks, also a browser; what the page then says is not heard. */
TEST(a_web_page_is_not_heard)
{
#define BEGINNING "GET /lockstock HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s"
#define REST                                                                                       \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n"
    static const char *const origins[] = {"Origin: http://evil.example\r\n", "origin: null\r\n", ""};
    static const uint8_t message[] = {0x82, 0x85, 0, 0, 0, 0, 0x80, 0, 0, 1, 'a'}; /* id, "a"; a mask of zeros */
    char bytes[512];
    start((lks_rpc_nng_rep_options){.message_bytes_max = 1000});
    unsigned short port = listen_over_websocket();
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        int fd = sp_peer_connect(port, 0);
        int len = snprintf(bytes, sizeof bytes, BEGINNING REST, port, origins[i]);
        assert_true(fd >= 0 && sp_peer_send(fd, bytes, (size_t)len));
        (void)sp_peer_send(fd, message, sizeof message); /* it may be closed before */
        if (origins[i][0] != '\0')
            while (recv(fd, bytes, sizeof bytes, 0) > 0)
                ;
        else
            assert_true(rep_fixture_wait_count(rep, 1)); /* who is no browser */
        assert_int_equal(rep_fixture_count(rep), origins[i][0] == '\0');
        close(fd);
    }
}

TEST_MAIN(.teardown = stop)

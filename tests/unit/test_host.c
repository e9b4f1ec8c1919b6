/* A host of typed services, asked by a hand-made peer. */

#include <pthread.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>

#include "base/clock.h"
#include "method.pb-c.h"
#include "shop.h"
#include "support/process.h"
#include "support/sp_peer.h"
#include "test.h"

typedef Lockstock__Test__Order order;
typedef Lockstock__Rpc__V1__Call wire_call;
typedef Lockstock__Rpc__V1__Frame wire_frame;
typedef Lockstock__Rpc__V1__Reply wire_reply;
typedef Lockstock__Rpc__V1__Result wire_result;

static lks_host *host;
static uint16_t port;
static int fd = -1;

/* ---- the peer ---------------------------------------------------------------- */

/* Of the scheme that LOCKSTOCK_TEST_SCHEME names, or tcp. */
static const char *url(void)
{
    const char *scheme = getenv("LOCKSTOCK_TEST_SCHEME");

    return scheme && strcmp(scheme, "nng+tcp") == 0 ? "nng+tcp://127.0.0.1:0" : "tcp://127.0.0.1:0";
}

static void start(lks_host_options options)
{
    lks_error error;
    shop_close();
    assert_int_equal(lks_host_open(&options, &host, &error), LKS_OK);
    assert_int_equal(lks_host_add(host, &shop_service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(host, url(), &port, &error), LKS_OK);
    fd = sp_peer_open(port);
    assert_true(fd >= 0);
}

static int stop(void **state)
{
    shop_open();
    lks_host_close(host, 1000);
    host = NULL;
    close(fd);
    return 0;
}

static void send_frame(uint32_t id, wire_call *const *calls, size_t n)
{
    wire_frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;
    frame.n_calls = n;
    frame.calls = (wire_call **)calls;
    size_t len = lockstock__rpc__v1__frame__get_packed_size(&frame), message_len;
    uint8_t *bytes = malloc(len);
    lockstock__rpc__v1__frame__pack(&frame, bytes);
    uint8_t *message = sp_peer_message(id, bytes, len, &message_len);
    assert_true(sp_peer_send(fd, message, message_len));
    free(message);
    free(bytes);
}

static wire_call call_of(const char *path, const char *payload, size_t len)
{
    wire_call call = LOCKSTOCK__RPC__V1__CALL__INIT;
    call.method = (char *)path;
    call.payload = (ProtobufCBinaryData){.len = len, .data = (uint8_t *)payload};
    return call;
}

static void send_call(uint32_t id, const lks_rpc_method *method, uint32_t timeout_ms)
{
    wire_call call = call_of(method->path, "\x0a\x01x", 3);
    wire_call *calls[] = {&call};
    call.timeout_ms = timeout_ms;
    send_frame(id, calls, 1);
}

/* To be freed with free_reply. *id is the request it answers. */
static wire_reply *receive(uint32_t *id)
{
    size_t len;
    uint8_t *body = sp_peer_receive(fd, id, &len);
    assert_non_null(body);
    *id &= 0x7fffffff;
    wire_reply *reply = lockstock__rpc__v1__reply__unpack(NULL, len, body);
    assert_non_null(reply);
    free(body);
    return reply;
}

static void free_reply(wire_reply *reply)
{
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

static void expect_failure(const wire_result *result, lks_code code, lks_applied applied, const char *message)
{
    assert_string_equal(result->message, message);
    assert_string_equal(lks_code_name((lks_code)result->code), lks_code_name(code));
    assert_string_equal(lks_applied_name((lks_applied)result->applied), lks_applied_name(applied));
    assert_int_equal(result->payload.len, 0);
}

static order *response_of(const wire_result *result)
{
    assert_int_equal(result->code, LKS_OK);
    order *response = lockstock__test__order__unpack(NULL, result->payload.len, result->payload.data);
    assert_non_null(response);
    return response;
}

/* ---- tests ------------------------------------------------------------------- */

TEST(a_handler_knows_its_call)
{
    Lockstock__Rpc__V1__Metadata item = LOCKSTOCK__RPC__V1__METADATA__INIT, *items[] = {&item};
    wire_call call = call_of(shop_buy_method.path, "\x0a\x04pear", 6), *calls[] = {&call};
    uint32_t id;
    start((lks_host_options){.timeout_ms = 60000});
    item.key = "tenant";
    item.value = (ProtobufCBinaryData){.len = 4, .data = (uint8_t *)"acme"};
    call.n_metadata = 1;
    call.metadata = items;
    call.timeout_ms = 40000;
    send_frame(1, calls, 1);
    wire_reply *reply = receive(&id);
    order *response = response_of(reply->results[0]);
    assert_string_equal(response->id, "pear of /lockstock.test.Shop/Buy, tenant=acme");
    assert_in_range(response->wait_ms, 1, 40000);
    assert_int_equal(the_shop.bought, 1);
    lockstock__test__order__free_unpacked(response, NULL);
    free_reply(reply);
    /* A time of its own is cut to what the host allows, and none is that. */
    for (uint32_t i = 0; i < 2; i++) {
        send_call(2, &shop_buy_method, i == 0 ? 0 : 4000000);
        reply = receive(&id);
        response = response_of(reply->results[0]);
        assert_in_range(response->wait_ms, 1, 60000);
        lockstock__test__order__free_unpacked(response, NULL);
        free_reply(reply);
    }
}

TEST(each_call_of_a_frame_has_its_own_result)
{
    wire_call some[] = {
        call_of(shop_buy_method.path, "\x0a\x01x", 3),    call_of("/lockstock.test.Shop/Steal", "", 0),
        call_of(shop_buy_method.path, "\x0a\x01\xff", 3), call_of(shop_refuse_method.path, "\x0a\x01x", 3),
        call_of(shop_refuse_method.path, "", 0),          call_of(shop_buy_method.path, "\x0a\x01y", 3),
    };
    enum { N = sizeof some / sizeof *some };
    wire_call *calls[N];
    uint32_t id;
    start((lks_host_options){0});
    for (size_t i = 0; i < N; i++)
        calls[i] = &some[i];
    send_frame(7, calls, N);
    wire_reply *reply = receive(&id);
    assert_int_equal(id, 7);
    assert_int_equal(reply->n_results, N);
    assert_int_equal(reply->results[0]->code, LKS_OK);
    expect_failure(reply->results[1], LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    expect_failure(reply->results[2], LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "id: not valid UTF-8");
    expect_failure(reply->results[3], LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "id: sold");
    expect_failure(reply->results[4], LKS_ABORTED, LKS_APPLIED_MAYBE, "");
    assert_int_equal(reply->results[5]->code, LKS_OK);
    assert_int_equal(the_shop.bought, 2);
    free_reply(reply);
}

TEST(a_call_that_is_overdue_is_not_run)
{
    uint32_t id;
    start((lks_host_options){.threads = 1, .threads_max = 1});
    send_call(1, &shop_block_method, 0);
    shop_await(1);
    send_call(2, &shop_buy_method, 1);
    send_call(3, &shop_buy_method, 0);
    for (uint64_t end = clock_now_ns() + 100000000; clock_now_ns() < end;)
        process_pause();
    shop_open();
    for (int i = 0; i < 3; i++) {
        wire_reply *reply = receive(&id);
        if (id == 2)
            expect_failure(reply->results[0], LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO,
                           "the deadline passed before the call ran");
        else
            assert_int_equal(reply->results[0]->code, LKS_OK);
        free_reply(reply);
    }
    assert_int_equal(the_shop.bought, 1);
}

/* A response that is too long is replaced by an error that says whether its call took effect. */
TEST(a_response_too_long_is_told_truly)
{
    static const char big[] = "\x10\x90\x4e"; /* fence: 10000 */
    wire_call first = call_of(shop_buy_method.path, "", 0), write = call_of(shop_fill_method.path, big, 3);
    wire_call *calls[] = {&first, &write};
    uint32_t id;
    start((lks_host_options){.message_bytes_max = 8000});
    send_frame(1, calls, 2);
    wire_reply *reply = receive(&id);
    assert_int_equal(reply->results[0]->code, LKS_OK);
    expect_failure(reply->results[1], LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, "the response is longer than allowed");
    assert_int_equal(the_shop.bought, 1);
    free_reply(reply);
}

/* A string may be as long as a message, whatever lockstockd takes for itself. */
/* promise CH8: a host's string may be as long as a message; an unknown enum value is refused, or passed to handlers
 * that accept it */
TEST(a_string_may_be_as_long_as_a_message)
{
    enum { LONG = 2 << 20, SMALL = 100 };
    char *text = malloc(LONG + 1);
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    uint32_t id;
    memset(text, 'x', LONG);
    text[LONG] = '\0';
    request.id = text;
    size_t len = lockstock__test__order__get_packed_size(&request);
    uint8_t *payload = malloc(len);
    lockstock__test__order__pack(&request, payload);
    wire_call call = call_of(shop_buy_method.path, (const char *)payload, len);
    wire_call *calls[] = {&call};
    start((lks_host_options){.message_bytes_max = 3 * LONG});
    send_frame(1, calls, 1);
    wire_reply *reply = receive(&id);
    order *response = response_of(reply->results[0]);
    assert_int_equal(response->fence, LONG);
    lockstock__test__order__free_unpacked(response, NULL);
    free_reply(reply);
    free(payload);
    free(text);
}

/* promise CH8 */
TEST(an_unknown_value_is_refused_or_reaches_its_handler)
{
    uint32_t id;
    for (int open = 0; open < 2; open++) {
        wire_call call = call_of(shop_buy_method.path, "\x58\x09", 2); /* colour: 9 */
        wire_call *calls[] = {&call};
        start((lks_host_options){.open_enums = open != 0});
        send_frame(1, calls, 1);
        wire_reply *reply = receive(&id);
        if (open) {
            order *response = response_of(reply->results[0]);
            assert_int_equal(response->colour, 9);
            lockstock__test__order__free_unpacked(response, NULL);
        } else {
            expect_failure(reply->results[0], LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "colour: not a value of the enum");
            assert_int_equal(the_shop.bought, 0);
        }
        free_reply(reply);
        if (!open)
            stop(state);
    }
}

TEST(what_is_no_frame_closes_its_connection)
{
    size_t len;
    uint32_t id;
    start((lks_host_options){0});
    /* Of another version: answered. */
    uint8_t *message = sp_peer_message(5, "\x08\x01", 2, &len);
    assert_true(sp_peer_send(fd, message, len));
    wire_reply *reply = receive(&id);
    assert_int_equal(reply->n_results, 1);
    assert_int_equal(reply->results[0]->code, LKS_UNIMPLEMENTED);
    free_reply(reply);
    free(message);
    message = sp_peer_message(6, "GET / HTTP/1.1", 14, &len);
    assert_true(sp_peer_send(fd, message, len));
    assert_true(sp_peer_closed(fd));
    free(message);
}

TEST(handlers_run_side_by_side)
{
    start((lks_host_options){.threads = 3});
    for (uint32_t i = 0; i < 3; i++)
        send_call(i, &shop_block_method, 0);
    shop_await(3);
    shop_open();
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t id;
        free_reply(receive(&id));
    }
}

/* promise CH20 */
TEST(calls_of_a_frame_run_side_by_side)
{
    enum { N = 3 };
    wire_call call = call_of(shop_block_method.path, "", 0);
    wire_call *calls[N] = {&call, &call, &call};
    uint32_t id;
    start((lks_host_options){.threads = N});
    send_frame(1, calls, N);
    shop_await(N);
    shop_open();
    wire_reply *reply = receive(&id);
    assert_int_equal(reply->n_results, N);
    free_reply(reply);
}

TEST(beyond_the_limit_calls_are_refused)
{
    uint32_t id;
    start((lks_host_options){.threads = 1, .threads_max = 1, .in_flight_max = 3});
    send_call(0, &shop_block_method, 0);
    shop_await(1);
    send_call(1, &shop_buy_method, 0);
    send_call(2, &shop_buy_method, 0);
    send_call(3, &shop_buy_method, 0);
    /* Messages of one connection may overtake each other, so it is any of the three. */
    wire_reply *reply = receive(&id);
    assert_in_range(id, 1, 3);
    assert_int_equal(reply->results[0]->code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(reply->results[0]->applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO);
    free_reply(reply);
    shop_open();
    for (uint32_t i = 0; i < 3; i++)
        free_reply(receive(&id));
    assert_int_equal(the_shop.bought, 2);
}

typedef struct closing {
    pthread_t thread;
    lks_host *host;
    uint32_t drain_ms;
} closing;

static void *close_main(void *arg)
{
    closing *c = arg;
    lks_host_close(c->host, c->drain_ms);
    return NULL;
}

/* Closes the host in a thread of its own, which the caller joins. */
static void start_closing(closing *c, uint32_t drain_ms)
{
    *c = (closing){.host = host, .drain_ms = drain_ms};
    host = NULL;
    assert_int_equal(pthread_create(&c->thread, NULL, close_main, c), 0);
}

/* One call that runs and one that waits: that a third was refused shows it. */
static void start_with_a_call_that_waits(void)
{
    uint32_t id;
    start((lks_host_options){.threads = 1, .threads_max = 1, .in_flight_max = 2});
    send_call(0, &shop_block_method, 0);
    shop_await(1);
    send_call(1, &shop_buy_method, 0);
    send_call(2, &shop_buy_method, 0);
    wire_reply *reply = receive(&id);
    assert_int_equal(reply->results[0]->code, LKS_RESOURCE_EXHAUSTED);
    free_reply(reply);
}

TEST(closing_lets_what_waits_run)
{
    closing c;
    uint32_t id;
    start_with_a_call_that_waits();
    start_closing(&c, 60000);
    shop_open();
    for (int i = 0; i < 2; i++) {
        wire_reply *reply = receive(&id);
        assert_int_equal(reply->results[0]->code, LKS_OK);
        free_reply(reply);
    }
    assert_true(sp_peer_closed(fd));
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    assert_int_equal(the_shop.bought, 1);
}

TEST(closing_at_once_refuses_what_waits)
{
    closing c;
    uint32_t id;
    start_with_a_call_that_waits();
    start_closing(&c, 0);
    wire_reply *reply = receive(&id);
    expect_failure(reply->results[0], LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    free_reply(reply);
    /* What runs already is waited for and answered. */
    shop_open();
    reply = receive(&id);
    assert_int_equal(id, 0);
    assert_int_equal(reply->results[0]->code, LKS_OK);
    free_reply(reply);
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    assert_int_equal(the_shop.bought, 0);
}

TEST(a_host_is_filled_before_it_listens)
{
    lks_error error;
    assert_int_equal(lks_host_open(NULL, &host, &error), LKS_OK);
    assert_int_equal(lks_host_add(host, &shop_service, &error), LKS_OK);
    assert_int_equal(lks_host_add(host, &shop_service, &error), LKS_ALREADY_EXISTS);
    assert_non_null(strstr(error.message, "/lockstock.test.Shop/"));
    static const char *const bad[] = {"nng+ipc:///tmp/x", "nng+", "ftp://127.0.0.1:0", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lks_host_listen(host, bad[i], NULL, &error), LKS_INVALID_ARGUMENT);
    assert_int_equal(lks_host_listen(host, "nng+tcp://127.0.0.1:0", NULL, &error), LKS_OK);
    assert_int_equal(lks_host_listen(host, "nng+tcp://127.0.0.1:0", &port, &error), LKS_OK);
    assert_int_equal(lks_host_add(host, &shop_service, &error), LKS_FAILED_PRECONDITION);
    fd = sp_peer_open(port);
    assert_true(fd >= 0);
    send_call(1, &shop_buy_method, 0);
    uint32_t id;
    free_reply(receive(&id));
    lks_host_close(NULL, 0);
}

TEST_MAIN(.teardown = stop)

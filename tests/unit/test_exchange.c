/* From bytes to a request, and from a response to a reply within its limit. */
/* promise W7 */

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>

#include "method.pb-c.h"
#include "test.h"
#include "arena_fixture.h"

typedef Lockstock__Test__Order order;
typedef Lockstock__Rpc__V1__Reply wire_reply;
typedef Lockstock__Rpc__V1__Result wire_result;

static const lks_rpc_method write_method = {
    .path = "/lockstock.test.Shop/Buy",
    .request = &lockstock__test__order__descriptor,
    .response = &lockstock__test__order__descriptor,
    .effect = LKS_RPC_EFFECT_WRITE,
};
static const lks_rpc_method read_method = {
    .path = "/lockstock.test.Shop/Look",
    .request = &lockstock__test__order__descriptor,
    .response = &lockstock__test__order__descriptor,
    .effect = LKS_RPC_EFFECT_READ,
};

TEST_WITH(a_method_is_found_by_its_path, NULL, NULL)
{
    lks_rpc_method other = {.path = "/lockstock.test.Shop/Buyer"};
    lks_rpc_route routes[] = {{&other, "other"}, {&read_method, "read"}, {&write_method, "write"}};
    lks_error error;
    assert_int_equal(lks_rpc_routes_sort(routes, 3, &error), LKS_OK);
    assert_string_equal(lks_rpc_route_find(routes, 3, write_method.path)->target, "write");
    assert_string_equal(lks_rpc_route_find(routes, 3, read_method.path)->target, "read");
    assert_string_equal(lks_rpc_route_find(routes, 3, other.path)->target, "other");
    assert_null(lks_rpc_route_find(routes, 3, ""));
    assert_null(lks_rpc_route_find(routes, 3, "/lockstock.test.Shop/Bu"));
    assert_null(lks_rpc_route_find(NULL, 0, write_method.path));
}

TEST_WITH(a_path_is_served_once, NULL, NULL)
{
    lks_rpc_route routes[] = {{&write_method, "a"}, {&read_method, "b"}, {&write_method, "c"}};
    lks_error error;
    assert_int_equal(lks_rpc_routes_sort(routes, 3, &error), LKS_ALREADY_EXISTS);
    assert_string_equal(error.message, "/lockstock.test.Shop/Buy: served twice");
}

/* promise W1: malformed or truncated Protobuf: INVALID_ARGUMENT, naming the field */
TEST(a_request_is_scanned_before_it_is_unpacked)
{
    ProtobufCMessage *request = NULL;
    lks_error error;
    assert_int_equal(lks_rpc_request_unpack(&write_method, "\x0a\x01x\x10\x07", 5, arena, &request, &error), LKS_OK);
    assert_string_equal(((order *)request)->id, "x");
    assert_int_equal(((order *)request)->fence, 7);
    request = NULL;
    assert_int_equal(lks_rpc_request_unpack(&write_method, "\x32\x03\x0a\x01\xff", 5, arena, &request, &error),
                     LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "items[0].name: not valid UTF-8");
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_null(request);
    assert_int_equal(lks_rpc_request_unpack(&write_method, NULL, 0, arena, &request, &error), LKS_OK);
    assert_string_equal(((order *)request)->id, "");
}

TEST(a_failure_keeps_its_text)
{
    wire_result result;
    lks_error *error = malloc(sizeof *error);
    lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, "version: not %d", 3);
    lks_rpc_result_fail(error, arena, &result);
    free(error);
    assert_int_equal(result.code, LKS_ABORTED);
    assert_int_equal(result.applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO);
    assert_string_equal(result.message, "version: not 3");
}

/* n results of `bytes` payload each. */
static wire_reply *reply_of(size_t n, size_t bytes)
{
    wire_reply *reply = lks_rpc_reply_new(n, arena);
    uint8_t *payload = lks_rpc_arena_alloc(arena, bytes);
    assert_non_null(reply);
    for (size_t i = 0; i < n; i++)
        reply->results[i]->payload = (ProtobufCBinaryData){.len = bytes, .data = payload};
    return reply;
}

/* Only the too long result is refused, with the correct `applied`. */
TEST(a_result_that_does_not_fit_is_refused_alone)
{
    const lks_rpc_method *methods[] = {&write_method, &read_method, &write_method};
    wire_reply *reply = reply_of(3, 10);
    reply->results[0]->payload = reply->results[1]->payload =
        (ProtobufCBinaryData){.len = 2000, .data = lks_rpc_arena_alloc(arena, 2000)};
    size_t len = lks_rpc_reply_fit(reply, methods, 1000);
    assert_true(len <= 1000);
    assert_int_equal(reply->results[0]->code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(reply->results[0]->applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_YES);
    assert_int_equal(reply->results[0]->payload.len, 0);
    assert_int_equal(reply->results[1]->code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(reply->results[1]->applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO);
    assert_int_equal(reply->results[2]->code, LKS_OK);
    assert_int_equal(reply->results[2]->payload.len, 10);
}

/* promise W12 */
TEST(a_reply_of_many_stays_within_its_limit)
{
    enum { N = 256, MAX = N * 64 };
    const lks_rpc_method *methods[N];
    for (size_t i = 0; i < N; i++)
        methods[i] = &write_method;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        wire_reply *reply = reply_of(N, bytes);
        assert_true(lks_rpc_reply_fit(reply, methods, MAX) <= MAX);
        lks_rpc_arena_reset(arena);
    }
    /* Failures with long texts, of unknown methods. */
    lks_error error;
    lks_error_set(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "%255s", "x");
    memset(methods, 0, sizeof methods);
    wire_reply *reply = reply_of(N, 0);
    for (size_t i = 0; i < N; i++)
        lks_rpc_result_fail(&error, arena, reply->results[i]);
    assert_true(lks_rpc_reply_fit(reply, methods, MAX) <= MAX);
    assert_int_equal(reply->results[N - 1]->code, LKS_UNIMPLEMENTED);
    assert_int_equal(reply->results[N - 1]->applied, LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO);
}

TEST_MAIN(.setup = make, .teardown = drop)

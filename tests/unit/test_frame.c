/* Frames and replies: those that are refused as a whole, and what a result says. */

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>

#include "test.h"
#include "arena_fixture.h"

typedef Lockstock__Rpc__V1__Call wire_call;
typedef Lockstock__Rpc__V1__Frame wire_frame;
typedef Lockstock__Rpc__V1__Reply wire_reply;
typedef Lockstock__Rpc__V1__Result wire_result;

static lks_code decode(const void *bytes, size_t len, uint32_t calls_max, wire_frame **frame, lks_error *error)
{
    memset(error, 0xff, sizeof *error);
    *frame = NULL;
    return lks_rpc_frame_decode(bytes, len, calls_max, arena, frame, error);
}

static uint8_t *pack(const ProtobufCMessage *message, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = lks_rpc_arena_alloc(arena, *len);
    assert_non_null(bytes);
    protobuf_c_message_pack(message, bytes);
    return bytes;
}

/* A packed frame of n calls without content. */
static uint8_t *frame_of(size_t n, size_t *len)
{
    wire_frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;
    wire_call call = LOCKSTOCK__RPC__V1__CALL__INIT;
    wire_call **calls = lks_rpc_arena_alloc(arena, n * sizeof *calls);
    call.method = "/a.B/C";
    for (size_t i = 0; i < n; i++)
        calls[i] = &call;
    frame.n_calls = n;
    frame.calls = calls;
    return pack(&frame.base, len);
}

/* promise W10 */
TEST(a_frame_has_1_to_256_calls)
{
    wire_frame *back;
    lks_error error;
    size_t len;
    assert_int_equal(decode("", 0, 0, &back, &error), LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "calls: none");
    assert_null(back);
    uint8_t *bytes = frame_of(256, &len);
    assert_int_equal(decode(bytes, len, 0, &back, &error), LKS_OK);
    assert_int_equal(back->n_calls, 256);
    bytes = frame_of(257, &len);
    assert_int_equal(decode(bytes, len, 0, &back, &error), LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "calls: more than 256");
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_null(back);
    bytes = frame_of(3, &len);
    assert_int_equal(decode(bytes, len, 2, &back, &error), LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "calls: more than 2");
}

/* A frame of nothing but calls is stopped before they cost anything. */
/* promise W6 */
TEST(a_flood_of_calls_is_not_unpacked)
{
    enum { N = 100000 };
    uint8_t *bytes = malloc(2 * N);
    wire_frame *back;
    lks_error error;
    for (size_t i = 0; i < N; i++)
        memcpy(bytes + 2 * i, "\x12\x00", 2);
    assert_int_equal(decode(bytes, 2 * N, 0, &back, &error), LKS_DATA_LOSS);
    assert_string_equal(error.message, "not a frame: calls[8448]: too many elements in the whole message");
    free(bytes);
}

TEST(invalid_frame_is_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"GET / HTTP/1.1\r\n", 16},
        {"\x12\x05\x0a\x03/a", 6},
        {"\x12\x03\x0a\x01\xff", 5},
        {"\x12", 1},
        {"\x12\x05\x0a\x03"
         "a\0b",
         7},
        {"\x0b", 1},
        {"\x12\x06\x22\x04\x0a\x02"
         "a",
         7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wire_frame *back;
        lks_error error;
        assert_int_equal(decode(cases[i].bytes, cases[i].len, 0, &back, &error), LKS_DATA_LOSS);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_null(back);
    }
}

static uint8_t *reply_of(size_t n, uint32_t code, size_t *len)
{
    wire_reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;
    wire_result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    wire_result **results = lks_rpc_arena_alloc(arena, n * sizeof *results);
    result.code = code;
    for (size_t i = 0; i < n; i++)
        results[i] = &result;
    reply.n_results = n;
    reply.results = results;
    return pack(&reply.base, len);
}

TEST(a_reply_answers_every_call)
{
    wire_reply *reply = NULL;
    lks_error error;
    size_t len;
    uint8_t *bytes = reply_of(3, LKS_OK, &len);
    assert_int_equal(lks_rpc_reply_decode(bytes, len, 3, arena, &reply, &error), LKS_OK);
    assert_int_equal(reply->n_results, 3);
    reply = NULL;
    assert_int_equal(lks_rpc_reply_decode(bytes, len, 2, arena, &reply, &error), LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_null(reply);
    assert_int_equal(lks_rpc_reply_decode("", 0, 1, arena, &reply, &error), LKS_INTERNAL);
    assert_int_equal(lks_rpc_reply_decode("\x0a\x05", 2, 1, arena, &reply, &error), LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_null(reply);
}

TEST(one_refusal_answers_a_whole_frame_but_one_success_does_not)
{
    wire_reply *reply = NULL;
    lks_error error;
    size_t len;
    uint8_t *bytes = reply_of(1, LKS_RESOURCE_EXHAUSTED, &len);
    assert_int_equal(lks_rpc_reply_decode(bytes, len, 5, arena, &reply, &error), LKS_OK);
    assert_int_equal(reply->n_results, 1);
    bytes = reply_of(1, LKS_OK, &len);
    assert_int_equal(lks_rpc_reply_decode(bytes, len, 5, arena, &reply, &error), LKS_INTERNAL);
}

TEST_WITH(an_error_becomes_a_result_and_back, NULL, NULL)
{
    lks_error error = {
        .code = LKS_RESOURCE_EXHAUSTED, .applied = LKS_APPLIED_NO, .retry_after_ms = 70, .message = "full"};
    lks_error back;
    wire_result result;
    lks_rpc_result_of(&error, &result);
    assert_int_equal(lks_rpc_result_error(&result, &back), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(back.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(back.origin, LKS_ORIGIN_PEER);
    assert_int_equal(back.applied, LKS_APPLIED_NO);
    assert_int_equal(back.retry_after_ms, 70);
    assert_string_equal(back.message, "full");
    assert_int_equal(lks_rpc_result_error(&result, NULL), LKS_RESOURCE_EXHAUSTED);
}

/* Through the bytes of a reply. */
static void send_error(const lks_error *error, lks_error *back)
{
    wire_reply *reply = lks_rpc_reply_new(1, arena);
    lks_rpc_result_fail(error, arena, reply->results[0]);
    size_t len = lockstock__rpc__v1__reply__get_packed_size(reply);
    uint8_t *bytes = lks_rpc_arena_alloc(arena, len);
    lockstock__rpc__v1__reply__pack(reply, bytes);
    assert_int_equal(lks_rpc_reply_decode(bytes, len, 1, arena, &reply, NULL), LKS_OK);
    lks_rpc_result_error(reply->results[0], back);
}

/* promise W19 */
TEST(field_and_reason_travel)
{
#define ROW(name, number, word, help) LKS_REASON_##name,
    static const lks_reason reasons[] = {LKS_REASON_NONE, LKS_REASONS(ROW)};
#undef ROW
    lks_error error, back;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        lks_error_set_reason(&error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, reasons[i], "lines[%zu].sku: no", i);
        error.reason = reasons[i];
        send_error(&error, &back);
        assert_int_equal(back.reason, reasons[i]);
        assert_string_equal(back.field, error.field);
        assert_string_equal(back.message, error.message);
    }
}

/* For an older peer without these fields nothing is assumed; unknown values of a newer peer are accepted. */
/* promise W19: a failure has a reason of the table and the wrong field, over SP and gRPC; a peer of another version
 * may send less */
TEST(a_peer_of_another_version_says_less)
{
    char longest[2 * LKS_ERROR_FIELD_MAX];
    wire_result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    lks_error error;
    result.code = LKS_INVALID_ARGUMENT;
    result.message = (char *)"name: must not be empty";
    lks_rpc_result_error(&result, &error);
    assert_string_equal(error.field, "");
    assert_int_equal(error.reason, LKS_REASON_NONE);
    memset(longest, 'f', sizeof longest);
    longest[LKS_ERROR_FIELD_MAX - 1] = '\0';
    result.field = longest;
    result.reason = (char *)"store_on_fire";
    lks_rpc_result_error(&result, &error);
    assert_string_equal(error.field, longest);
    assert_int_equal(error.reason, LKS_REASON_NONE);
    longest[LKS_ERROR_FIELD_MAX - 1] = 'f';
    longest[LKS_ERROR_FIELD_MAX] = '\0';
    lks_rpc_result_error(&result, &error);
    assert_string_equal(error.field, "");
}

/* promise W16 */
TEST_WITH(missing_or_unknown_result_fields_read_as_maybe, NULL, NULL)
{
    wire_result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    lks_error error;
    result.code = LKS_INTERNAL;
    assert_int_equal(lks_rpc_result_error(&result, &error), LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    result.applied = (Lockstock__Rpc__V1__Applied)77;
    lks_rpc_result_error(&result, &error);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    result.code = 99;
    result.applied = LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO;
    assert_int_equal(lks_rpc_result_error(&result, &error), LKS_UNKNOWN);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    result.code = LKS_OK;
    assert_int_equal(lks_rpc_result_error(&result, &error), LKS_OK);
    assert_int_equal(error.code, LKS_OK);
}

TEST_MAIN(.setup = make, .teardown = drop)

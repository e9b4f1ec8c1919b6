/* Messages of calls over a sink of the test's own: one reply a message, when
 * its last call is done, results in the order of the calls. */

#include <lockstock/rpc/frame.h>
#include <lockstock/v1/stock.lks.h>

#include "net/sp/frames.h"
#include "support/fake_sink.h"
#include "test.h"

enum { CALLS_MAX = 300, REPLY_BYTES_MAX = 4096 };

/* ---- a sink that keeps calls until the test answers them -------------- */

typedef struct keeper {
    struct started {
        sink_call call; /* path and namespace: copies */
        char path[32], ns[32];
        lks_rpc_arena *arena;
        sink_done *done;
        void *arg;
    } started[CALLS_MAX];
    size_t n;
    bool answer_at_once;
    size_t answer_len; /* not 0: each call is answered at once, with a text of that length */
} keeper;

static void answer_unavailable(struct started *s)
{
    lks_error error;
    lks_error_set(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "away");
    s->done(s->arg, NULL, NULL, &error, NULL);
}

static void answer_item(struct started *s, size_t len)
{
    char text[REPLY_BYTES_MAX];
    lks_item item = LKS_ITEM_INIT;
    lks_put_item_response response = LKS_PUT_ITEM_RESPONSE_INIT;
    const lks_error ok = {0};

    memset(text, 's', len);
    text[len] = '\0';
    item.sku = text;
    response.item = &item;
    s->done(s->arg, &lks_stock_put_item_method, &response.base, &ok, NULL);
}

static void take(void *to, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    keeper *d = to;
    struct started *s = &d->started[d->n++];
    *s = (struct started){.call = *call, .arena = arena, .done = done, .arg = arg};
    snprintf(s->path, sizeof s->path, "%s", call->path);
    memcpy(s->ns, call->who.ns.len > 0 ? call->who.ns.data : "", call->who.ns.len);
    s->call.path = s->path;
    s->call.who.ns.data = s->ns;
    if (d->answer_at_once)
        answer_unavailable(s);
    if (d->answer_len > 0)
        answer_item(s, d->answer_len);
}

/* ---- a port that keeps the reply ---------------------------------------------- */

typedef struct fixture {
    keeper keeper;
    sink sink;
    frames *frames;
    budget_share *bytes;
    frames_sender sender;
    uint8_t reply[2 * LKS_RPC_MESSAGE_BYTES_MAX];
    size_t reply_len;
    int replies;
    int closed;
} fixture;

static void *port_answer(void *message, size_t len)
{
    fixture *f = message;
    f->reply_len = len;
    return len <= sizeof f->reply ? f->reply : NULL;
}

static void port_reply(void *message)
{
    ((fixture *)message)->replies++;
}

static void port_close_peer(void *message)
{
    ((fixture *)message)->closed++;
}

static const frames_port port = {.answer = port_answer, .reply = port_reply, .close_peer = port_close_peer};

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    lks_error error;
    fake_callers_reset(NULL);
    f->bytes = budget_open(NULL);
    f->sink = fake_sink;
    f->sink.take = take;
    f->sink.arg = &f->keeper;
    f->sender.bytes = f->bytes;
    f->sender.caller = f->sink.open(NULL, &(sink_connection){.bytes = f->bytes});
    if (frames_new(&f->sink, REPLY_BYTES_MAX, &f->frames, &error) != LKS_OK)
        return -1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    frames_free(f->frames);
    f->sink.lost(f->sender.caller);
    budget_close(f->bytes);
    free(f);
    return fake_callers.held == 0 && fake_callers.shares_closed == 1 ? 0 : -1;
}

/* Sends a frame of n calls, the first of them with the same entry of metadata `copies` times; the
 * message's bytes stay until the test ends. */
static void send_frame_with(fixture *f, uint32_t version, size_t n, size_t copies)
{
    static uint8_t bytes[64 * CALLS_MAX];
    static Lockstock__Rpc__V1__Call calls[CALLS_MAX];
    static Lockstock__Rpc__V1__Call *pointers[CALLS_MAX];
    Lockstock__Rpc__V1__Metadata item = LOCKSTOCK__RPC__V1__METADATA__INIT;
    Lockstock__Rpc__V1__Metadata *items[] = {&item, &item};
    Lockstock__Rpc__V1__Frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;

    item.key = (char *)"lockstock-namespace";
    item.value = (ProtobufCBinaryData){.data = (uint8_t *)"shop", .len = 4};
    for (size_t i = 0; i < n; i++) {
        lockstock__rpc__v1__call__init(&calls[i]);
        calls[i].method = (char *)"/m";
        calls[i].timeout_ms = (uint32_t)i;
        calls[i].unanswered_before = i == 1;
        pointers[i] = &calls[i];
    }
    if (n > 0) {
        calls[0].metadata = items;
        calls[0].n_metadata = copies;
    }
    frame.version = version;
    frame.calls = pointers;
    frame.n_calls = n;
    assert_true(lockstock__rpc__v1__frame__get_packed_size(&frame) <= sizeof bytes);
    size_t len = lockstock__rpc__v1__frame__pack(&frame, bytes);
    frames_take(f->frames, &port, f, bytes, len, &f->sender, 12345);
    memset(bytes, 0xEE, sizeof bytes); /* it may not be looked at any more */
}

static void send_frame(fixture *f, uint32_t version, size_t n)
{
    send_frame_with(f, version, n, 1);
}

static Lockstock__Rpc__V1__Reply *reply_of(fixture *f)
{
    Lockstock__Rpc__V1__Reply *reply;
    assert_int_equal(f->replies, 1);
    assert_int_equal(f->closed, 0);
    reply = lockstock__rpc__v1__reply__unpack(NULL, f->reply_len, f->reply);
    assert_non_null(reply);
    return reply;
}

static void expect_refused_whole(fixture *f, lks_code code)
{
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(reply->n_results, 1);
    assert_int_equal(reply->results[0]->code, code);
    assert_int_equal(reply->results[0]->applied, LKS_APPLIED_NO);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
    assert_int_equal(f->keeper.n, 0);
}

/* ---- tests -------------------------------------------------------------------- */

/* promise F5 */
TEST(duplicate_metadata_is_reported)
{
    fixture *f = *state;
    send_frame_with(f, 0, 1, 2);
    assert_string_equal(f->keeper.started[0].call.who.twice, "lockstock-namespace");
    answer_unavailable(&f->keeper.started[0]);
}

/* promise GD22 */
TEST(a_call_is_handed_on_as_it_came)
{
    fixture *f = *state;
    send_frame(f, 0, 2);
    assert_int_equal(f->keeper.n, 2);
    const sink_call *first = &f->keeper.started[0].call;
    const sink_call *second = &f->keeper.started[1].call;
    assert_string_equal(first->path, "/m");
    assert_ptr_equal(first->caller, f->sender.caller);
    assert_int_equal(first->received_ns, 12345);
    assert_non_null(first->message);
    assert_ptr_equal(first->message, second->message);
    assert_int_equal(first->who.ns.len, 4);
    assert_memory_equal(first->who.ns.data, "shop", 4);
    assert_int_equal(second->who.ns.len, 0);
    assert_null(first->who.twice);
    assert_int_equal(second->timeout_ms, 1);
    assert_false(first->unanswered_before);
    assert_true(second->unanswered_before);
    answer_unavailable(&f->keeper.started[0]);
    answer_unavailable(&f->keeper.started[1]);
}

TEST(single_call_of_a_frame_is_marked_as_single)
{
    fixture *f = *state;
    send_frame(f, 0, 1);
    assert_null(f->keeper.started[0].call.message);
    answer_unavailable(&f->keeper.started[0]);
}

/* promise W12: a call of a frame affects no other; a response that does not fit is refused alone */
TEST(the_reply_comes_with_the_last_call_in_the_order_of_the_calls)
{
    fixture *f = *state;
    lks_error error;

    send_frame(f, 0, 3);
    for (int i = 2; i >= 0; i--) {
        struct started *s = &f->keeper.started[i];
        assert_int_equal(f->replies, 0);
        lks_error_set(&error, (lks_code)(LKS_INVALID_ARGUMENT + i), LKS_APPLIED_NO, "call %d", i);
        s->done(s->arg, NULL, NULL, &error, NULL);
    }
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(reply->n_results, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(reply->results[i]->code, LKS_INVALID_ARGUMENT + i);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

TEST(calls_answered_at_once_make_one_reply)
{
    fixture *f = *state;
    f->keeper.answer_at_once = true;
    send_frame(f, 0, 256);
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(reply->n_results, 256);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

/* promise W10: input that is no frame closes the connection; a frame that cannot be served is refused as a whole */
TEST(a_frame_that_cannot_be_served_is_refused_as_a_whole)
{
    static const struct {
        uint32_t version;
        size_t n;
        lks_code code;
    } rows[] = {{1, 1, LKS_UNIMPLEMENTED}, {0, 0, LKS_INVALID_ARGUMENT}, {0, CALLS_MAX, LKS_INVALID_ARGUMENT}};
    fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        f->replies = 0;
        send_frame(f, rows[i].version, rows[i].n);
        expect_refused_whole(f, rows[i].code);
    }
}

/* promise W10 */
TEST(invalid_frame_closes_its_connection)
{
    fixture *f = *state;
    frames_take(f->frames, &port, f, "\x12\x7fgarbage", 9, &f->sender, 0);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->replies, 0);
    assert_int_equal(f->keeper.n, 0);
}

/* Each call has its own answer: a caller that matches them must not hang. */
/* promise W15: SIGTERM: running calls finish within the drain limit, others are refused with UNAVAILABLE and NO, exit
 * 0; clients that do not read answers delay it by two seconds in all */
/* promise K7: a draining server answers each call of a frame */
TEST(a_draining_server_answers_each_call)
{
    fixture *f = *state;
    frames_drain(f->frames);
    send_frame(f, 0, 3);
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(f->keeper.n, 0);
    assert_int_equal(reply->n_results, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(reply->results[i]->code, LKS_UNAVAILABLE);
        assert_int_equal(reply->results[i]->applied, LKS_APPLIED_NO);
    }
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

static void expect_no_room(fixture *f, size_t n)
{
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(f->keeper.n, 0);
    assert_int_equal(reply->n_results, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(reply->results[i]->code, LKS_RESOURCE_EXHAUSTED);
        assert_string_equal(reply->results[i]->reason, "too_many_calls");
        assert_int_equal(reply->results[i]->applied, LKS_APPLIED_NO);
        assert_true(reply->results[i]->retry_after_ms > 0);
    }
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

/* promise K8: held bytes are bounded by connection, principal and server, and leave room for one more message */
TEST(a_message_beyond_its_connections_bytes_is_refused)
{
    fixture *f = *state;
    fake_budget_is_full(true);
    send_frame(f, 0, 2);
    expect_no_room(f, 2);
}

/* promise CN4 */
TEST(each_call_of_a_skipped_message_is_refused)
{
    fixture *f = *state;
    frames_refuse(f->frames, &port, f, 3);
    expect_no_room(f, 3);
}

/* A small one has its place in the room to run or to wait: so that many can wait. */
/* promise K8 */
TEST(bytes_of_a_long_message_count_until_it_is_answered)
{
    fixture *f = *state;
    send_frame(f, 0, 1);
    assert_int_equal(fake_callers.held, 0);
    answer_unavailable(&f->keeper.started[0]);
    send_frame(f, 0, 256);
    assert_true(fake_callers.held > 0);
    for (size_t i = 1; i <= 256; i++)
        answer_unavailable(&f->keeper.started[i]);
    assert_int_equal(fake_callers.held, 0);
}

/* The share of a lost connection exists exactly as long as it holds bytes. */
TEST(a_small_call_outlives_its_connections_share)
{
    fixture *f = *state;
    send_frame(f, 0, 1);
    budget_close(f->bytes);
    assert_int_equal(fake_callers.shares_closed, 1);
    answer_unavailable(&f->keeper.started[0]);
    assert_int_equal(f->replies, 1);
    f->bytes = NULL;
}

/* Else a small frame could ask for as much work as it has room for calls. */
/* promise K9 */
TEST(calls_whose_answers_cannot_fit_are_not_begun)
{
    fixture *f = *state;
    f->keeper.answer_len = REPLY_BYTES_MAX / 2;
    send_frame(f, 0, 10);
    assert_true(f->keeper.n <= 3);
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_int_equal(reply->n_results, 10);
    assert_int_equal(reply->results[9]->code, LKS_RESOURCE_EXHAUSTED);
    assert_string_equal(reply->results[9]->reason, "too_large");
    assert_int_equal(reply->results[9]->applied, LKS_APPLIED_NO);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

/* A client that gathers calls of several callers does not know how long their answers are together. */
/* promise CH20: calls of a frame run concurrently, at lockstockd and at a host; the reply to several is at most 1 MiB */
TEST(reply_to_several_calls_has_at_most_one_mib)
{
    enum { N = 256, ANSWER = REPLY_BYTES_MAX - 8 };
    fixture *f = *state;
    frames_free(f->frames);
    assert_int_equal(frames_new(&f->sink, 4 * LKS_RPC_MESSAGE_BYTES_MAX, &f->frames, NULL), LKS_OK);
    f->keeper.answer_len = ANSWER;
    send_frame_with(f, 0, N, 1);
    Lockstock__Rpc__V1__Reply *reply = reply_of(f);
    assert_true(f->reply_len <= LKS_RPC_MESSAGE_BYTES_MAX);
    assert_int_equal(reply->results[N - 1]->code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(reply->results[N - 1]->retry_after_ms, 0);
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

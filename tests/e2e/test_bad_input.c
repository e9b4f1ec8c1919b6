/* Bad input, end to end: each request is answered by its code and the field's
 * name, applied NO, and nothing has changed. Requests travel as hand-made bytes,
 * so that what no stub would send is sent too. */
/* promise W1 */

#include <unistd.h>

#include <lockstock/status.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "support/server_fixture.h"
#include "support/sp_peer.h"
#include "test.h"

#define STOCK "/lockstock.v1.StockService/"
#define LOCK "/lockstock.v1.LockService/"
#define MAX_QUANTITY INT64_C(9007199254740991) /* 2^53 - 1 */

static server_fixture *server;
static int peer = -1;
static char long_name[130]; /* 129 bytes */

typedef Lockstock__Rpc__V1__Reply reply_message;
typedef Lockstock__Rpc__V1__Result result_message;

static reply_message *call_bytes(const char *method, const void *payload, size_t len)
{
    reply_message *reply = sp_peer_call(peer, method, payload, len);

    if (!reply)
        fail_msg("no reply to %s", method);
    assert_int_equal(reply->n_results, 1);
    return reply;
}

static reply_message *call(const char *method, const void *request)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t *payload = malloc(len + 1);

    assert_non_null(payload);
    protobuf_c_message_pack(request, payload);
    reply_message *reply = call_bytes(method, payload, len);
    free(payload);
    return reply;
}

static void free_reply(reply_message *reply)
{
    lockstock__rpc__v1__reply__free_unpacked(reply, NULL);
}

/* The whole of the item, its order and the ledger, as one text. */
static void describe_state(char *text, size_t size)
{
    lks_get_item_request item = LKS_GET_ITEM_REQUEST_INIT;
    lks_read_ledger_request ledger = LKS_READ_LEDGER_REQUEST_INIT;
    size_t n = 0;

    item.group = item.sku = ledger.group = "pear";
    struct {
        const char *method;
        const void *request;
    } reads[] = {{STOCK "GetItem", &item}, {STOCK "ReadLedger", &ledger}};
    for (size_t i = 0; i < 2; i++) {
        reply_message *reply = call(reads[i].method, reads[i].request);
        assert_int_equal(reply->results[0]->code, LKS_OK);
        for (size_t k = 0; k < reply->results[0]->payload.len && n + 3 < size; k++)
            n += (size_t)snprintf(text + n, size - n, "%02x", reply->results[0]->payload.data[k]);
        free_reply(reply);
    }
}

static void assert_refused(const char *what, reply_message *reply, lks_code code, const char *field)
{
    const result_message *result = reply->results[0];

    const char *named = code == LKS_UNIMPLEMENTED ? "" : field;
    lks_error implied;

    lks_error_set(&implied, code, LKS_APPLIED_NO, "%s", result->message);
    if (result->code != (uint32_t)code || strncmp(result->message, field, strlen(field)) != 0 ||
        result->applied != LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO ||
        strncmp(result->field, named, strlen(named)) != 0 ||
        strcmp(result->reason, lks_reason_name(implied.reason)) != 0) {
        fail_msg("%s: got %s, applied %s, \"%s\", field %s, reason %s; expected %s, NO, \"%s...\"", what,
                 lks_code_name((lks_code)result->code), lks_applied_name((lks_applied)result->applied), result->message,
                 result->field, result->reason, lks_code_name(code), field);
    }
    free_reply(reply);
}

static int start(void **state)
{
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;

    memset(long_name, 'x', sizeof long_name - 1);
    server = server_fixture_start(NULL);
    if (!server || (peer = sp_peer_open(server_fixture_port(server))) < 0)
        return -1;
    item.group = item.sku = "pear";
    item.on_hand = 100;
    reply_message *reply = call(STOCK "PutItem", &item);
    int status = reply->results[0]->code == LKS_OK ? 0 : -1;
    free_reply(reply);
    return status;
}

static int stop(void **state)
{
    close(peer);
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    return status;
}

typedef struct deduct_row {
    const char *what, *field;
    const char *group, *order_id, *buyer_id;
    struct {
        const char *sku;
        int64_t quantity;
    } lines[2];
} deduct_row;

TEST(test_deduct)
{
    const deduct_row rows[] = {
        {"no order id", "order_id", "pear", "", "b", {{"pear", 1}}},
        {"long order id", "order_id", "pear", long_name, "b", {{"pear", 1}}},
        {"long buyer id", "buyer_id", "pear", "o", long_name, {{"pear", 1}}},
        {"long group", "group", long_name, "o", "b", {{"pear", 1}}},
        {"no group for two skus", "group", "", "o", "b", {{"pear", 1}, {"plum", 1}}},
        {"no lines", "lines", "pear", "o", "b", {{NULL, 0}}},
        {"empty sku", "lines[0].sku", "pear", "o", "b", {{"", 1}}},
        {"long sku", "lines[1].sku", "pear", "o", "b", {{"pear", 1}, {long_name, 1}}},
        {"same sku twice", "lines[1].sku", "pear", "o", "b", {{"pear", 1}, {"pear", 2}}},
        {"zero quantity", "lines[0].quantity", "pear", "o", "b", {{"pear", 0}}},
        {"negative quantity", "lines[0].quantity", "pear", "o", "b", {{"pear", -1}}},
        {"least quantity", "lines[0].quantity", "pear", "o", "b", {{"pear", INT64_MIN}}},
        {"quantity over 2^53-1", "lines[1].quantity", "pear", "o", "b", {{"plum", 1}, {"pear", MAX_QUANTITY + 1}}},
        {"greatest quantity", "lines[0].quantity", "pear", "o", "b", {{"pear", INT64_MAX}}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
        lks_line lines[2] = {LKS_LINE_INIT, LKS_LINE_INIT}, *pointers[2] = {&lines[0], &lines[1]};
        request.group = rows[i].group;
        request.order_id = rows[i].order_id;
        request.buyer_id = rows[i].buyer_id;
        request.lines = pointers;
        for (; request.n_lines < 2 && rows[i].lines[request.n_lines].sku; request.n_lines++) {
            lines[request.n_lines].sku = rows[i].lines[request.n_lines].sku;
            lines[request.n_lines].quantity = rows[i].lines[request.n_lines].quantity;
        }
        assert_refused(rows[i].what, call(STOCK "Deduct", &request), LKS_INVALID_ARGUMENT, rows[i].field);
    }
}

TEST(test_too_many_lines)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line lines[65], *pointers[65];
    char skus[65][16];

    for (size_t i = 0; i < 65; i++) {
        lines[i] = (lks_line)LKS_LINE_INIT;
        snprintf(skus[i], sizeof skus[i], "sku-%zu", i);
        lines[i].sku = skus[i];
        lines[i].quantity = 1;
        pointers[i] = &lines[i];
    }
    request.group = "pear";
    request.order_id = "o";
    request.n_lines = 65;
    request.lines = pointers;
    assert_refused("65 lines", call(STOCK "Deduct", &request), LKS_INVALID_ARGUMENT, "lines");
}

TEST(test_put_item)
{
    static const struct {
        const char *what, *field, *sku;
        int64_t on_hand, per_buyer_limit, opens_in_ms, closes_in_ms, order_retain_ms;
    } rows[] = {
        {"no sku", "sku", "", 1, 0, 0, 0, 0},
        {"long sku", "sku", long_name, 1, 0, 0, 0, 0},
        {"negative stock", "on_hand", "pear", -1, 0, 0, 0, 0},
        {"stock over 2^53-1", "on_hand", "pear", MAX_QUANTITY + 1, 0, 0, 0, 0},
        {"negative limit", "per_buyer_limit", "pear", 1, -1, 0, 0, 0},
        {"negative opening", "opens_in_ms", "pear", 1, 0, -1, 0, 0},
        {"negative closing", "closes_in_ms", "pear", 1, 0, 0, -1, 0},
        {"huge closing", "closes_in_ms", "pear", 1, 0, 0, INT64_MAX, 0},
        {"short retention", "order_retain_ms", "pear", 1, 0, 0, 0, 59999},
        {"negative retention", "order_retain_ms", "pear", 1, 0, 0, 0, -1},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
        request.group = "pear";
        request.sku = rows[i].sku;
        request.on_hand = rows[i].on_hand;
        request.per_buyer_limit = rows[i].per_buyer_limit;
        request.opens_in_ms = rows[i].opens_in_ms;
        request.closes_in_ms = rows[i].closes_in_ms;
        request.order_retain_ms = rows[i].order_retain_ms;
        assert_refused(rows[i].what, call(STOCK "PutItem", &request), LKS_INVALID_ARGUMENT, rows[i].field);
    }
}

TEST(test_adjust)
{
    static const struct {
        const char *what, *field;
        int64_t delta;
        lks_code code;
    } rows[] = {
        {"no change", "delta", 0, LKS_INVALID_ARGUMENT},
        {"too large", "delta", MAX_QUANTITY + 1, LKS_INVALID_ARGUMENT},
        {"too small", "delta", -MAX_QUANTITY - 1, LKS_INVALID_ARGUMENT},
        {"a sum over 2^53-1", "delta", MAX_QUANTITY, LKS_INVALID_ARGUMENT},
        {"below zero", "delta", -101, LKS_FAILED_PRECONDITION},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
        request.group = request.sku = "pear";
        request.delta = rows[i].delta;
        request.adjustment_id = "a-1";
        assert_refused(rows[i].what, call(STOCK "Adjust", &request), rows[i].code, rows[i].field);
    }
}

TEST(test_acquire)
{
    static const char token[] = "token-of-32-characters-for-a-lock";
    static const struct {
        const char *what, *field, *name, *token;
        int64_t permits, capacity, lease_ms, wait_ms;
        lks_lock_mode mode;
    } rows[] = {
        {"no name", "targets[0].name", "", token, 0, 0, 1000, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"short token", "token", "l", "short", 0, 0, 1000, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"no lease", "lease_ms", "l", token, 0, 0, 0, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"negative lease", "lease_ms", "l", token, 0, 0, -1, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"huge lease", "lease_ms", "l", token, 0, 0, 86400001, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"greatest lease", "lease_ms", "l", token, 0, 0, INT64_MAX, 0, LKS_LOCK_MODE_EXCLUSIVE},
        {"negative wait", "wait_ms", "l", token, 0, 0, 1000, -1, LKS_LOCK_MODE_EXCLUSIVE},
        {"unknown mode", "targets[0].mode", "l", token, 0, 0, 1000, 0, (lks_lock_mode)9},
        {"permits over capacity", "targets[0].permits", "l", token, 3, 2, 1000, 0, LKS_LOCK_MODE_PERMIT},
        {"no capacity", "targets[0].capacity", "l", token, 1, 0, 1000, 0, LKS_LOCK_MODE_PERMIT},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
        lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
        target.name = rows[i].name;
        target.mode = rows[i].mode;
        target.permits = rows[i].permits;
        target.capacity = rows[i].capacity;
        request.n_targets = 1;
        request.targets = targets;
        request.token = rows[i].token;
        request.lease_ms = rows[i].lease_ms;
        request.wait_ms = rows[i].wait_ms;
        assert_refused(rows[i].what, call(LOCK "Acquire", &request), LKS_INVALID_ARGUMENT, rows[i].field);
    }
}

/* Payloads that protobuf-c would take, crash on or cut short. */
TEST(test_malformed_payloads)
{
    static const struct {
        const char *what, *field, *bytes;
        size_t len;
    } rows[] = {
#define ROW(what, field, bytes) {what, field, bytes, sizeof bytes - 1}
        ROW("invalid UTF-8", "order_id", "\x12\x02\xc3\x28"),
        ROW("an overlong encoding", "order_id", "\x12\x02\xc0\x80"),
        ROW("a surrogate", "group", "\x0a\x03\xed\xa0\x80"),
        ROW("a NUL in a string", "order_id", "\x12\x03o\0x"),
        ROW("a NUL in a nested string", "lines[0].sku", "\x22\x05\x0a\x03p\0x"),
        ROW("a truncated length", "order_id", "\x12\x05o"),
        ROW("a truncated varint", "fresh", "\x28\x80"),
        ROW("another wire type", "order_id", "\x10\x01"),
        ROW("a length of 2^63", "order_id", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
#undef ROW
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(rows[i].what, call_bytes(STOCK "Deduct", rows[i].bytes, rows[i].len), LKS_INVALID_ARGUMENT,
                       rows[i].field);
    }
    /* Garbage has no field to name: it is refused all the same. */
    assert_refused("garbage", call_bytes(STOCK "Deduct", "\xff\xff\xff\xff", 4), LKS_INVALID_ARGUMENT, "");
}

/* promise W5 */
TEST(test_unknown_field_is_ignored)
{
    /* GetItem of pear in pear, and fields 1000 (varint) and 1001 (bytes). */
    static const char bytes[] = "\x0a\x04pear\x12\x04pear\xc0\x3e\x01\xca\x3e\x03new";

    reply_message *reply = call_bytes(STOCK "GetItem", bytes, sizeof bytes - 1);
    assert_int_equal(reply->results[0]->code, LKS_OK);
    free_reply(reply);
}

/* promise W7 */
TEST(test_unknown_method)
{
    static const char *const paths[] = {STOCK "Steal", "/lockstock.v1.Nothing/GetItem", "", "GetItem", STOCK};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_refused(paths[i], call_bytes(paths[i], "", 0), LKS_UNIMPLEMENTED, "");
}

TEST(test_frames)
{
    static const char unknown_version[] = "\x08\x07\x12\x00";

    assert_refused("an unknown version", sp_peer_ask(peer, unknown_version, sizeof unknown_version - 1),
                   LKS_UNIMPLEMENTED, "version");

    /* 257 calls in one frame. */
    enum { CALLS = 257 };
    char many[2 * CALLS];
    for (size_t i = 0; i < CALLS; i++)
        memcpy(many + 2 * i, "\x12\x00", 2);
    assert_refused("too many calls", sp_peer_ask(peer, many, sizeof many), LKS_INVALID_ARGUMENT, "calls");
}

/* What is no frame at all ends its connection, and only that. */
TEST(test_what_is_no_frame_closes)
{
    static const char *const bodies[] = {"\xff\xff\xff\xff\xff\xff", "\x12\x7f", "hello, world"};

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        size_t len = 0;
        int fd = sp_peer_open(server_fixture_port(server));
        assert_true(fd >= 0);
        uint8_t *message = sp_peer_message(1, bodies[i], strlen(bodies[i]), &len);
        assert_true(sp_peer_send(fd, message, len));
        assert_true(sp_peer_closed(fd));
        free(message);
        close(fd);
    }
    test_unknown_field_is_ignored(NULL); /* the first connection still serves */
}

static lks_put_item_request put_plum(int64_t version)
{
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;

    item.group = item.sku = "plum";
    item.on_hand = 10;
    item.expected_version = version;
    return item;
}

static lks_deduct_request deduct_plum(lks_line *line, lks_line **lines, int64_t quantity)
{
    lks_deduct_request deduct = LKS_DEDUCT_REQUEST_INIT;

    *line = (lks_line)LKS_LINE_INIT;
    line->sku = "plum";
    line->quantity = quantity;
    *lines = line;
    deduct.group = "plum";
    deduct.order_id = "plum-1";
    deduct.n_lines = 1;
    deduct.lines = lines;
    return deduct;
}

static void expect_reason(const char *method, const void *request, lks_code code, const char *reason, const char *field)
{
    reply_message *reply = call(method, request);

    assert_int_equal(reply->results[0]->code, code);
    assert_string_equal(reply->results[0]->reason, reason);
    assert_string_equal(reply->results[0]->field, field);
    free_reply(reply);
}

/* What a code does not say the reason does. tests/e2e/grpc_python.py has the same calls over gRPC. */
/* promise W19 */
TEST(test_reasons)
{
    lks_line line, *lines;
    lks_deduct_request deduct = deduct_plum(&line, &lines, 1);
    lks_put_item_request item = put_plum(0);
    lks_get_item_request none = LKS_GET_ITEM_REQUEST_INIT;
    lks_adjust_request adjust = LKS_ADJUST_REQUEST_INIT;

    expect_reason(STOCK "PutItem", &item, LKS_OK, "", "");
    expect_reason(STOCK "Deduct", &deduct, LKS_OK, "", "");
    deduct = deduct_plum(&line, &lines, 2);
    expect_reason(STOCK "Deduct", &deduct, LKS_ALREADY_EXISTS, "id_reused", "order_id");
    item = put_plum(7);
    expect_reason(STOCK "PutItem", &item, LKS_ABORTED, "version_mismatch", "expected_version");
    item = put_plum(0);
    item.must_be_new = true;
    expect_reason(STOCK "PutItem", &item, LKS_ALREADY_EXISTS, "already_exists", "sku");
    none.sku = "none";
    expect_reason(STOCK "GetItem", &none, LKS_NOT_FOUND, "not_found", "sku");
    adjust.group = adjust.sku = "plum";
    adjust.delta = -100;
    adjust.adjustment_id = "plum-a";
    expect_reason(STOCK "Adjust", &adjust, LKS_FAILED_PRECONDITION, "wrong_state", "delta");
}

TEST(test_nothing_changed)
{
    lks_get_order_request order = LKS_GET_ORDER_REQUEST_INIT;
    lks_inspect_request lock = LKS_INSPECT_REQUEST_INIT;
    const char *before = *state;
    static char after[4096];

    describe_state(after, sizeof after);
    assert_string_equal(after, before);
    order.group = "pear";
    order.order_id = "o";
    reply_message *reply = call(STOCK "GetOrder", &order);
    assert_int_equal(reply->results[0]->code, LKS_NOT_FOUND);
    free_reply(reply);
    lock.name = "l";
    reply = call(LOCK "Inspect", &lock);
    lks_inspect_response *seen = (lks_inspect_response *)protobuf_c_message_unpack(
        &lockstock__v1__inspect_response__descriptor, NULL, reply->results[0]->payload.len,
        reply->results[0]->payload.data);
    assert_non_null(seen);
    assert_int_equal(seen->n_holders, 0);
    protobuf_c_message_free_unpacked((ProtobufCMessage *)seen, NULL);
    free_reply(reply);
}

static char state_before[4096];

static int remember(void **state)
{
    int status = start(state);

    if (status == 0) {
        describe_state(state_before, sizeof state_before);
        *state = state_before;
    }
    return status;
}

TEST_MAIN(.setup_all = remember, .teardown_all = stop)

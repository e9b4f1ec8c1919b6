/* More calls than the store can take, until it takes them again: calls whose time is over are not run, those that end
 * or keep something are not refused, and then all is as before. The store is a redis-server that is stopped. */

#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/stock.lks_client.h>
#include <signal.h>

#include "conformance/caller.h"
#include "support/h2_peer.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { ON_HAND = 1000, CALLS = 200, BRIEF_MS = 400, LONG_MS = 60000, LOCKS = 40, LIMIT_MS = 60000, TEXT_BYTES = 64 };

static const char *const few[] = {"--in-flight", "8", "--in-flight-per-connection", "8", NULL};

typedef struct fixture {
    server_fixture *server;
    lks_channel *channel;
} fixture;

static int setup(void **state)
{
    static fixture f;

    f.server = server_fixture_start(&(server_fixture_options){.args = few});
    *state = &f;
    return f.server && lks_channel_open(server_fixture_url(f.server), NULL, &f.channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bool stopped = lks_channel_close(f->channel) == LKS_OK && server_fixture_stop(f->server, LIMIT_MS);

    server_fixture_free(f->server);
    return stopped ? 0 : -1;
}

static void stop_redis(const fixture *f, bool stopped)
{
    assert_int_equal(kill(server_fixture_redis_pid(f->server), stopped ? SIGSTOP : SIGCONT), 0);
}

static void assert_ok(lks_code code, const lks_error *error)
{
    if (code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(code), error->message);
}

static void put_item(const fixture *f)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = request.sku = "pear";
    request.on_hand = ON_HAND;
    assert_ok(lks_stock_put_item(f->channel, &request, NULL, NULL, &error), &error);
}

static int64_t available(const fixture *f)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response;
    lks_error error;

    request.group = request.sku = "pear";
    assert_ok(lks_stock_get_item(f->channel, &request, NULL, &response, &error), &error);
    int64_t n = response->item->available;
    lks_message_free(&response->base);
    return n;
}

static bool is_ordered(const fixture *f, const char *order)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    lks_error error;

    request.group = "pear";
    request.order_id = order;
    lks_code code = lks_stock_get_order(f->channel, &request, NULL, NULL, &error);
    if (code != LKS_NOT_FOUND)
        assert_ok(code, &error);
    return code == LKS_OK;
}

static unsigned send(void *caller, const char *method, const ProtobufCMessage *request, uint32_t timeout_ms)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t payload[512];

    assert_true(len <= sizeof payload);
    protobuf_c_message_pack(request, payload);
    unsigned call = sp_driver.start(
        caller, &(call_spec){.method = method, .payload = payload, .len = len, .timeout_ms = timeout_ms});
    assert_true(call > 0);
    return call;
}

static unsigned send_deduct(void *caller, const char *order, uint32_t timeout_ms)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};

    line.sku = "pear";
    line.quantity = 1;
    request.group = "pear";
    request.order_id = order;
    request.lines = lines;
    request.n_lines = 1;
    return send(caller, "/lockstock.v1.StockService/Deduct", &request.base, timeout_ms);
}

static void token_of(char *token, int lock)
{
    snprintf(token, TEXT_BYTES, "a-token-of-sixteen-%d", lock);
}

/* The request of the token with that number, in a room that it fills. */
typedef struct acquisition {
    lks_acquire_request request;
    lks_target target, *targets[1];
    char name[TEXT_BYTES], token[TEXT_BYTES];
} acquisition;

static const lks_acquire_request *acquisition_of(acquisition *a, int lock, int token)
{
    a->request = (lks_acquire_request)LKS_ACQUIRE_REQUEST_INIT;
    a->target = (lks_target)LKS_TARGET_INIT;
    a->targets[0] = &a->target;
    snprintf(a->name, sizeof a->name, "lock-%d", lock);
    token_of(a->token, token);
    a->target.name = a->name;
    a->target.mode = LKS_LOCK_MODE_EXCLUSIVE;
    a->request.targets = a->targets;
    a->request.n_targets = 1;
    a->request.token = a->token;
    a->request.lease_ms = LONG_MS;
    return &a->request;
}

static void acquire(const fixture *f, int lock)
{
    acquisition a;
    lks_error error;

    assert_ok(lks_lock_acquire(f->channel, acquisition_of(&a, lock, lock), NULL, NULL, &error), &error);
}

static void send_acquire(void *caller, int lock, int token)
{
    acquisition a;

    acquisition_of(&a, lock, token);
    a.request.wait_ms = LONG_MS;
    send(caller, "/lockstock.v1.LockService/Acquire", &a.request.base, 2 * LONG_MS);
}

static void send_release(void *caller, int lock)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    char name[TEXT_BYTES], token[TEXT_BYTES];
    const char *names[] = {name};

    snprintf(name, sizeof name, "lock-%d", lock);
    token_of(token, lock);
    request.names = names;
    request.n_names = 1;
    request.token = token;
    send(caller, "/lockstock.v1.LockService/Release", &request.base, LONG_MS);
}

static void *open_caller(const fixture *f)
{
    void *caller = sp_driver.open(server_fixture_url(f->server), NULL);

    assert_non_null(caller);
    return caller;
}

/* promise K16 */
TEST(calls_whose_time_is_over_are_not_run)
{
    static char orders[CALLS + 1][TEXT_BYTES];
    fixture *f = *state;
    void *caller = open_caller(f);
    bool maybe[CALLS + 1] = {false};
    int n_maybe = 0, n_over = 0, n_ordered = 0;

    put_item(f);
    stop_redis(f, true);
    for (int i = 0; i < CALLS; i++) {
        char order[TEXT_BYTES];
        snprintf(order, sizeof order, "order-%d", i);
        strcpy(orders[send_deduct(caller, order, BRIEF_MS)], order);
    }
    for (int i = 0; i < CALLS; i++) {
        outcome got;
        assert_true(sp_driver.await(caller, &got));
        assert_int_not_equal(got.code, LKS_OK);
        maybe[got.call] = got.applied == LKS_APPLIED_MAYBE;
        n_maybe += maybe[got.call];
        n_over += got.code == LKS_DEADLINE_EXCEEDED && got.applied == LKS_APPLIED_NO;
    }
    stop_redis(f, false);
    assert_true(n_maybe > 0 && n_over > 0); /* some were sent to the store, before or after the others' time was over */
    for (unsigned i = 1; i <= CALLS; i++) {
        bool ordered = is_ordered(f, orders[i]);
        if (ordered && !maybe[i])
            fail_msg("%s was answered NO and has an effect", orders[i]);
        n_ordered += ordered;
    }
    assert_int_equal(available(f), ON_HAND - n_ordered);
    sp_driver.close(caller);
}

/* promise K14 */
TEST(what_ends_something_succeeds_and_then_all_does)
{
    fixture *f = *state;
    void *takers[4], *settler = open_caller(f);
    size_t settled = 0, taken = 0;
    outcome got;

    put_item(f);
    for (int i = 0; i < LOCKS; i++)
        acquire(f, i);
    int64_t before = available(f);
    stop_redis(f, true);
    for (size_t i = 0; i < 4; i++) {
        takers[i] = open_caller(f);
        for (int k = 0; k < CALLS; k++) {
            char order[TEXT_BYTES];
            snprintf(order, sizeof order, "taken-%zu-%d", i, k);
            send_deduct(takers[i], order, LONG_MS);
        }
    }
    for (int i = 0; i < LOCKS; i++)
        send_release(settler, i);
    stop_redis(f, false);
    for (int i = 0; i < LOCKS; i++) {
        assert_true(sp_driver.await(settler, &got));
        if (got.code != LKS_OK)
            fail_msg("%s: %s", lks_code_name(got.code), got.message);
        settled += got.code == LKS_OK && got.len >= 2 && memcmp(got.payload, "\x08\x01", 2) == 0; /* RELEASED */
        free(got.payload);
    }
    assert_int_equal(settled, LOCKS);
    for (size_t i = 0; i < 4; i++) {
        for (int k = 0; k < CALLS; k++) {
            assert_true(sp_driver.await(takers[i], &got));
            assert_true(got.code == LKS_OK || (got.code == LKS_RESOURCE_EXHAUSTED && got.applied == LKS_APPLIED_NO));
            taken += got.code == LKS_OK;
            free(got.payload);
        }
        sp_driver.close(takers[i]);
    }
    assert_int_equal(available(f), before - (int64_t)taken);
    for (int i = 0; i < LOCKS; i++)
        acquire(f, i); /* nobody holds it, and there is room */
    sp_driver.close(settler);
}

/* ---- the end of a drain ------------------------------------------------------------ */

/* A server that drains for no time, on a redis-server of its own. */
typedef struct ending {
    redis_fixture *redis;
    fixture f;
    void *caller;
} ending;

static int begin(void **state)
{
    static const char *const args[] = {"--in-flight", "8", "--drain-ms", "0", NULL};
    static ending e;

    e.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    if (!e.redis)
        return -1;
    e.f.server = server_fixture_start(&(server_fixture_options){.args = args, .store = redis_fixture_url(e.redis)});
    if (!e.f.server || lks_channel_open(server_fixture_url(e.f.server), NULL, &e.f.channel, NULL) != LKS_OK)
        return -1;
    e.caller = open_caller(&e.f);
    *state = &e;
    return 0;
}

static int finish(void **state)
{
    ending *e = *state;

    sp_driver.close(e->caller);
    lks_channel_close(e->f.channel);
    server_fixture_free(e->f.server);
    redis_fixture_free(e->redis);
    return 0;
}

/* Ends the server, in order; the number of calls that it told that it does. */
static size_t end_and_count(ending *e)
{
    outcome got;
    size_t n = 0;

    process_signal(server_fixture_process(e->f.server), SIGTERM);
    for (; sp_driver.await(e->caller, &got); n++)
        if (got.code != LKS_UNAVAILABLE)
            fail_msg("%s: %s", lks_code_name(got.code), got.message);
    assert_true(process_exited_with(server_fixture_process(e->f.server), 0, LIMIT_MS));
    return n;
}

/* promise W15 */
TEST_WITH(at_the_end_all_that_queue_are_told, begin, finish)
{
    ending *e = *state;
    size_t refused = 0;
    outcome got;

    assert_int_equal(kill(redis_fixture_pid(e->redis), SIGSTOP), 0);
    for (int i = 0; i < CALLS; i++) {
        char order[TEXT_BYTES];
        snprintf(order, sizeof order, "order-%d", i);
        send_deduct(e->caller, order, LONG_MS);
    }
    do { /* those for which there is no room; the last call is one: all are there */
        assert_true(sp_driver.await(e->caller, &got));
        assert_int_equal(got.code, LKS_RESOURCE_EXHAUSTED);
        refused++;
    } while (got.call < CALLS);
    assert_int_equal(end_and_count(e), CALLS - refused);
}

static int64_t waiters_of(const fixture *f, const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response;
    lks_error error;

    request.name = name;
    assert_ok(lks_lock_inspect(f->channel, &request, NULL, &response, &error), &error);
    int64_t n = response->waiters;
    lks_message_free(&response->base);
    return n;
}

/* promise W15 */
TEST_WITH(at_the_end_all_that_wait_are_told, begin, finish)
{
    ending *e = *state;

    acquire(&e->f, 0);
    for (int i = 1; i <= CALLS; i++) {
        send_acquire(e->caller, 0, i);
        while (i % LOCKS == 0 && waiters_of(&e->f, "lock-0") < i)
            process_pause(); /* no more at once than may queue for room to run */
    }
    assert_int_equal(end_and_count(e), CALLS);
}

/* NextRequest{kind: UUID_V7, count: 10000}, which are 36 bytes each. */
static const uint8_t next[] = {0, 0, 0, 0, 5, 0x08, 2, 0x18, 0x90, 0x4e};

/* The peer's calls queue until it takes answers, and it takes none. A stop that waited for them would last until the
 * connection is closed for taking none. That is longer than the whole stop may take. */
/* promise W15 */
TEST(a_stop_does_not_wait_for_answers_that_nobody_takes)
{
    static const char *const args[] = {"--drain-ms", "100", "--log-level", "debug", NULL};
    server_fixture *stopping = server_fixture_start(&(server_fixture_options){.scheme = "grpc", .args = args});
    assert_non_null(stopping);
    h2_peer *peer = h2_peer_open(server_fixture_port(stopping), 1);
    assert_non_null(peer);
    for (size_t n = 0; n < CALLS; n++)
        h2_peer_call(peer, "/lockstock.v1.IdService/Next", NULL, next, sizeof next, false);
    while (h2_peer_answer(peer, 0)->blocks == 0)
        assert_true(h2_peer_turn(peer));
    process *program = server_fixture_process(stopping);
    process_signal(program, SIGTERM);
    assert_true(process_exited_with(program, 0, LIMIT_MS));
    const char *output = process_output(program);
    assert_null(strstr(output, "answers were not taken in time"));
    assert_non_null(strstr(output, "the server stops"));
    h2_peer_free(peer);
    server_fixture_free(stopping);
}

TEST_MAIN(.setup_all = setup, .teardown_all = teardown)

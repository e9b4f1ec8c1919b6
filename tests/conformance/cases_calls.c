/* Calls and their outcomes. */
#include "conformance/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/idempotency.lks.h>

#define IDEMPOTENCY "/lockstock.v1.IdempotencyService/"

enum { LONGEST = 1 << 20, BODY = 256 * 1024, HEADERS = 32, HEADER = 4096 };

TEST(a_call_is_answered)
{
    void *caller = suite_open(here.server);
    suite_put(caller, "pear", 7);
    suite_expect_available(suite_get(caller, "pear"), "pear", 7);
    suite_expect_acquired(suite_await(caller, suite_acquire(caller, "gate", "token-of-the-first-one", 0, 0)),
                          LKS_ACQUIRE_OUTCOME_ACQUIRED);
    suite_expect_acquired(suite_await(caller, suite_acquire(caller, "gate", "token-of-the-next-one-", 0, 0)),
                          LKS_ACQUIRE_OUTCOME_BUSY);
    suite_release(caller, "gate", "token-of-the-first-one");
    suite_close(caller);
}

static outcome ask_bytes(void *caller, const char *method, const void *payload, size_t len)
{
    unsigned call = here.wire->driver->start(
        caller, &(call_spec){.method = method, .payload = payload, .len = len, .timeout_ms = PATIENCE_MS});

    assert_int_not_equal(call, 0);
    return suite_await(caller, call);
}

TEST(each_refusal_has_code_applied_and_message)
{
    void *caller = suite_open(here.server);
    lks_acquire_request acquire = LKS_ACQUIRE_REQUEST_INIT;
    lks_target one = LKS_TARGET_INIT, other = LKS_TARGET_INIT, *targets[] = {&one, &other};
    one.name = "door";
    other.name = "window";
    acquire.group = "house";
    acquire.token = "token-for-the-refusals";
    acquire.targets = targets;
    acquire.n_targets = 1;
    acquire.lease_ms = 5;
    suite_expect(suite_ask(caller, LOCK "Acquire", &acquire, 0), LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "lease_ms: ");
    suite_expect(ask_bytes(caller, LOCK "Acquire", "\x0a\x7f", 2), LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "");
    suite_expect(suite_get(caller, "nothing-of-that-name"), LKS_NOT_FOUND, LKS_APPLIED_NO, "sku");
    suite_expect(ask_bytes(caller, LOCK "Ask", "", 0), LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: ");
    suite_expect(ask_bytes(caller, "/no.Service/Method", "", 0), LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: ");

    acquire.lease_ms = 60000;
    suite_expect_acquired(suite_ask(caller, LOCK "Acquire", &acquire, 0), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    acquire.n_targets = 2;
    suite_expect(suite_ask(caller, LOCK "Acquire", &acquire, 0), LKS_ALREADY_EXISTS, LKS_APPLIED_NO, "token: ");
    suite_close(caller);
}

TEST(namespaces_are_isolated)
{
    static const uint8_t pear[] = {0x0a, 4, 'p', 'l', 'u', 'm', 0x12, 4, 'p', 'l', 'u', 'm', 0x18, 3};
    static const char *const worlds[] = {"one", "two", NULL};
    void *caller = suite_open(here.server);
    call_spec spec = {.method = STOCK "PutItem", .payload = pear, .len = sizeof pear, .ns = "one"};
    char long_name[130];
    suite_expect(suite_await(caller, here.wire->driver->start(caller, &spec)), LKS_OK, LKS_APPLIED_YES, "");
    spec.method = STOCK "GetItem";
    spec.len -= 2; /* without on_hand */
    for (size_t i = 0; i < 3; i++) {
        spec.ns = worlds[i];
        suite_expect(suite_await(caller, here.wire->driver->start(caller, &spec)), i == 0 ? LKS_OK : LKS_NOT_FOUND,
                     LKS_APPLIED_NO, "");
    }
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    spec.ns = long_name;
    suite_expect(suite_await(caller, here.wire->driver->start(caller, &spec)), LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                 "metadata lockstock-namespace: ");
    suite_close(caller);
}

/* Calls until one is answered by the store again. */
static void until_served(void *caller)
{
    long long end = process_now_ms() + PATIENCE_MS;
    outcome got;

    do {
        got = suite_get(caller, "nothing-of-that-name");
        process_pause();
    } while (got.code != LKS_NOT_FOUND && process_now_ms() < end);
    suite_expect(got, LKS_NOT_FOUND, LKS_APPLIED_NO, "");
}

TEST(a_store_that_hangs_is_a_deadline)
{
    void *caller = suite_open(here.server);
    lks_put_item_request put = LKS_PUT_ITEM_REQUEST_INIT;
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    until_served(caller);
    put.group = put.sku = get.group = get.sku = "late";
    kill(redis_fixture_pid(here.redis), SIGSTOP);
    outcome written = suite_ask(caller, STOCK "PutItem", &put, 200);
    outcome read = suite_ask(caller, STOCK "GetItem", &get, 200);
    kill(redis_fixture_pid(here.redis), SIGCONT);
    suite_expect(written, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE, "");
    suite_expect(read, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "");
    until_served(caller);
    suite_close(caller);
}

TEST(a_store_that_is_away_is_unavailable)
{
    void *caller = suite_open(here.server);
    process *server = server_fixture_process(here.server);
    lks_put_item_request put = LKS_PUT_ITEM_REQUEST_INIT;
    put.group = put.sku = "late";
    redis_fixture_kill(here.redis);
    assert_true(process_wait_line(server, "event=not-ready", NULL, 0, PATIENCE_MS));
    outcome got = suite_ask(caller, STOCK "PutItem", &put, PATIENCE_MS);
    assert_true(redis_fixture_restart(here.redis));
    assert_true(got.says_when);
    suite_expect(got, LKS_UNAVAILABLE, LKS_APPLIED_NO, "");
    until_served(caller);
    suite_close(caller);
}

/* A call that waits does not block later ones, and every answer reaches its own
 * call. */
TEST(answers_come_when_they_are_ready)
{
    enum { CALLS = 30 };
    void *caller = suite_open(here.server), *other = suite_open(here.server);
    unsigned calls[CALLS];
    bool answered[CALLS] = {false};
    for (int i = 0; i < CALLS; i++) {
        char sku[16];
        snprintf(sku, sizeof sku, "sku-%02d", i);
        suite_put(other, sku, 100 + i);
    }
    suite_expect_acquired(suite_await(other, suite_acquire(other, "slow", "token-of-the-first-one", 0, 0)),
                          LKS_ACQUIRE_OUTCOME_ACQUIRED);
    unsigned parked = suite_acquire(caller, "slow", "token-of-who-has-to-wait", PATIENCE_MS, 2 * PATIENCE_MS);
    for (int i = 0; i < CALLS; i++) {
        lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
        char sku[16];
        snprintf(sku, sizeof sku, "sku-%02d", i);
        get.group = get.sku = sku;
        calls[i] = suite_start(caller, STOCK "GetItem", &get, PATIENCE_MS);
    }
    for (int n = 0; n < CALLS; n++) {
        outcome got = {0};
        char sku[16];
        int i = 0;
        assert_true(here.wire->driver->await(caller, &got));
        assert_int_not_equal(got.call, parked);
        while (i < CALLS && calls[i] != got.call)
            i++;
        assert_true(i < CALLS && !answered[i]);
        answered[i] = true;
        snprintf(sku, sizeof sku, "sku-%02d", i);
        suite_expect_available(got, sku, 100 + i);
    }
    suite_until_waiters(other, "slow", 1);
    suite_release(other, "slow", "token-of-the-first-one");
    suite_expect_acquired(suite_await(caller, parked), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    suite_release(other, "slow", "token-of-who-has-to-wait");
    suite_close(caller);
    suite_close(other);
}

/* ---- size ---------------------------------------------------------------------------- */

/* An owner that is too long, in a message that is not: it is read to its end. CANCELLED:
 * the connection ended. */
static outcome ask_with_owner(void *caller, size_t len)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    outcome got = {0};

    target.name = "gate";
    request.targets = targets;
    request.n_targets = 1;
    request.lease_ms = 1000;
    char *owner = malloc(len + 1);
    assert_non_null(owner);
    memset(owner, 'o', len);
    owner[len] = '\0';
    request.owner = owner;
    unsigned call = suite_try(caller, LOCK "Acquire", &request, PATIENCE_MS);
    free(owner);
    return call != 0 && here.wire->driver->await(caller, &got) ? got : (outcome){.code = LKS_CANCELLED};
}

/* The biggest answer that the contract knows: a stored result. */
static void store_and_read_back(void *caller)
{
    lks_begin_request begin = LKS_BEGIN_REQUEST_INIT;
    lks_complete_request complete = LKS_COMPLETE_REQUEST_INIT;
    lks_result_header headers[HEADERS], *list[HEADERS];
    static char value[HEADER + 1];
    static uint8_t body[BODY];
    char keys[HEADERS][16];

    memset(value, 'v', HEADER);
    for (size_t i = 0; i < BODY; i++)
        body[i] = (uint8_t)(i * 31 >> 3);
    for (int i = 0; i < HEADERS; i++) {
        snprintf(keys[i], sizeof keys[i], "header-%d", i);
        headers[i] = (lks_result_header)LKS_RESULT_HEADER_INIT;
        headers[i].key = keys[i];
        headers[i].value = value;
        list[i] = &headers[i];
    }
    begin.scope = complete.scope = "big";
    begin.key = complete.key = "result";
    begin.lease_ms = 60000;
    begin.attempt_token = "token-of-the-big-one";
    lks_begin_response *begun = suite_response(suite_ask(caller, IDEMPOTENCY "Begin", &begin, PATIENCE_MS),
                                               &lockstock__v1__begin_response__descriptor);
    complete.fence = begun->fence;
    protobuf_c_message_free_unpacked(&begun->base, NULL);
    complete.body = (ProtobufCBinaryData){.data = body, .len = sizeof body};
    complete.headers = list;
    complete.n_headers = HEADERS;
    suite_expect(suite_ask(caller, IDEMPOTENCY "Complete", &complete, PATIENCE_MS), LKS_OK, LKS_APPLIED_YES, "");
    begin.attempt_token = "token-of-another-one";
    for (int i = 0; i < 4; i++) {
        begun = suite_response(suite_ask(caller, IDEMPOTENCY "Begin", &begin, PATIENCE_MS),
                               &lockstock__v1__begin_response__descriptor);
        assert_int_equal(begun->outcome, LKS_BEGIN_OUTCOME_REPLAY);
        assert_int_equal(begun->result->body.len, sizeof body);
        assert_memory_equal(begun->result->body.data, body, sizeof body);
        assert_int_equal(begun->result->n_headers, HEADERS);
        assert_string_equal(begun->result->headers[HEADERS - 1]->value, value);
        protobuf_c_message_free_unpacked(&begun->base, NULL);
    }
}

TEST(big_messages_go_both_ways)
{
    void *caller = suite_open(here.server);
    suite_expect(ask_with_owner(caller, 40000), LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "owner");
    suite_expect(ask_with_owner(caller, LONGEST - 256), LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "owner");
    store_and_read_back(caller);
    suite_close(caller);
}

/* promise W9 */
TEST(too_long_message_is_refused)
{
    void *caller = suite_open(here.server), *other = suite_open(here.server);
    if (here.wire->driver == &nng_driver) {
        suite_close(caller);
        suite_close(other);
        skip(); /* a connection that ends under a send can hang the client's libnng (docs/client.md) */
    }
    outcome got = ask_with_owner(caller, LONGEST + 4096);
    if (here.wire->closes) {
        suite_expect(got, LKS_CANCELLED, LKS_APPLIED_UNSPECIFIED, "");
    } else {
        suite_expect(got, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "");
        suite_put(caller, "pear", 7);
    }
    suite_put(other, "pear", 7);
    suite_close(caller);
    suite_close(other);
}

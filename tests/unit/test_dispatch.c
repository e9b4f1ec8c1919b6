/* Dispatch: admission, limits, plans, and the error of a call over several groups when one of them fails. */
#include <lockstock/v1/idempotency.lks.h>

#include "base/clock.h"
#include "dispatch_scene.h"

/* promise W7: unknown method: UNIMPLEMENTED */
TEST(an_unknown_method_is_unimplemented)
{
    start("/lockstock.v1.IdService/Later", NULL, 1, NULL);
    expect(LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method");
    assert_int_equal(here.store.n, 0);
}

/* promise W1 */
TEST(a_bad_request_never_reaches_the_store)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = "\xff";
    start(get_item, &request.base, 1, NULL);
    expect(LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "sku: ");
    assert_string_equal(here.error.field, "sku");
    assert_int_equal(here.store.n, 0);
}

/* promise W8: deadline already past: DEADLINE_EXCEEDED, not run; the caller's deadline counts, up to the limit */
TEST(call_past_its_deadline_on_arrival_is_not_run)
{
    const sink_call late = {.timeout_ms = 10, .received_ns = clock_now_ns() - 11000000};
    start_get_item(1, &late);
    expect(LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "on arrival");
    assert_int_equal(here.error.reason, LKS_REASON_DEADLINE_BEFORE_START);
    assert_int_equal(here.store.n, 0);
}

/* promise W8 */
TEST(a_deadline_is_the_callers_up_to_the_limit)
{
    uint64_t now = clock_now_ns();
    const uint32_t asked[] = {0, 500, 60000};
    const uint64_t given[] = {10000, 500, 20000};

    for (size_t i = 0; i < 3; i++) {
        const sink_call call = {.timeout_ms = asked[i], .received_ns = now};
        start_get_item(i, &call);
        assert_int_equal(here.store.asked[i].deadline_ns, now + given[i] * 1000000);
    }
}

/* Its own time, whatever the server's limit: a client repeats a call for as long as that,
 * and 5 s are added. */
/* promise R20 */
TEST(a_plan_knows_how_long_it_may_be_repeated)
{
    const uint32_t asked[] = {0, 500, 60000};
    const char *const told[] = {"check-1 15000", "check-1 5500", "check-1 65000"};
    lks_limit limit = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;

    limit.algorithm = LKS_ALGORITHM_FIXED_WINDOW;
    limit.limit = limit.period_ms = 1;
    lks_rule_set_limit(&rule, &limit);
    rule.key = "bob";
    request.n_rules = 1;
    request.rules = rules;
    request.request_id = "check-1";
    for (size_t i = 0; i < 3; i++) {
        const sink_call call = {.timeout_ms = asked[i]};
        start("/lockstock.v1.RateLimitService/Check", &request.base, i, &call);
        lks_rpc_slice id = here.store.asked[i].call->args[2];
        assert_int_equal(id.len, strlen(told[i]));
        assert_memory_equal(id.data, told[i], id.len);
    }
}

/* promise W11 */
/* promise K16: a call whose deadline passes in the queue does not run */
TEST(queued_call_past_its_deadline_is_not_run)
{
    const sink_call brief = {.timeout_ms = 50};
    for (size_t i = 0; i < 3; i++)
        start_get_item(1, NULL);
    start_get_item(1, &brief);
    uint64_t until_ns = clock_now_ns() + 50 * 1000000;
    while (clock_now_ns() <= until_ns)
        ;
    assert_int_equal(here.n_done, 0);
    answer_with(0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 3);
    assert_int_equal(here.n_done, 2);
}

/* Nor looked at: what a service knows of it is gone as well. */
/* promise W15 */
TEST(a_store_that_is_about_to_close_is_asked_nothing_more)
{
    enum { RUNNING = 3 };

    for (size_t i = 0; i < RUNNING + 2; i++)
        start_get_item(1, NULL);
    assert_int_equal(here.store.n, RUNNING);
    dispatch_stop(here.dispatch);
    here.n_done = 0;
    start(get_item, NULL, 1, NULL); /* that it has no sku is not looked for */
    expect(LKS_UNAVAILABLE, LKS_APPLIED_NO, "shutting down");
    assert_int_equal(here.error.reason, LKS_REASON_SHUTTING_DOWN);
    here.n_done = 0;
    answer_with(0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    while (here.n_done < 3) /* those that queued, too */
        uv_run(&here.loop, UV_RUN_NOWAIT);
    for (size_t i = 1; i < RUNNING; i++)
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, RUNNING);
}

static void start_refund(size_t peer, const sink_call *change)
{
    lks_refund_request request = LKS_REFUND_REQUEST_INIT;

    request.group = "g";
    request.request_id = "0123456789abcdef";
    start("/lockstock.v1.RateLimitService/Refund", &request.base, peer, change);
}

/* promise K2 */
TEST(settling_call_starts_before_taking_calls)
{
    for (size_t i = 0; i < 4; i++)
        start_get_item(1, NULL);
    start_refund(1, NULL);
    assert_int_equal(here.store.n, 3);
    answer_with(0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 4);
    assert_string_equal(here.store.asked[3].call->function, "rate_refund");
}

/* One that settles goes before those that queue; one with a wait_ms queues. */
/* promise K14 */
TEST(a_call_that_would_queue_for_too_long_is_not_even_read)
{
    enum { QUEUED = 60, PASSED = 40 };
    const sink_call brief = {.timeout_ms = 60};

    for (size_t i = 0; i < 3 + QUEUED; i++)
        start_get_item(1, &(sink_call){.timeout_ms = 20000});
    for (size_t i = 0; i < PASSED; i++) {
        for (uint64_t until_ns = clock_now_ns() + 1000000; clock_now_ns() < until_ns;)
            ;
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
        uv_run(&here.loop, UV_RUN_NOWAIT);
    }
    here.n_done = 0;
    start(get_item, NULL, 1, &brief); /* that it has no sku is not looked for */
    expect(LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "queue for too long");
    assert_int_equal(here.error.reason, LKS_REASON_TOO_MANY_CALLS);
    start_refund(1, &brief);
    start_acquire(1, 60000, &brief);
    assert_int_equal(here.n_done, 1);
    start_acquire(1, 0, &brief);
    assert_int_equal(here.n_done, 2);
    assert_int_equal(here.error.code, LKS_RESOURCE_EXHAUSTED);
    for (size_t answered = PASSED; answered < here.store.n; answered++)
        answer_with(answered, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_in_range(here.store.n, 3 + QUEUED, 3 + QUEUED + 2);
}

/* ---- calls of one message ------------------------------------------------------- */

static void start_of(sink_message *message, const char *path, const ProtobufCMessage *request)
{
    start(path, request, 1, &(sink_call){.message = message});
}

static void confirm_of(sink_message *message, const char *group)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;
    request.group = group;
    request.order_id = "o";
    start_of(message, "/lockstock.v1.StockService/Confirm", &request.base);
}

static void get_order_of(sink_message *message, const char *group)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    request.group = group;
    request.order_id = "o";
    start_of(message, "/lockstock.v1.StockService/GetOrder", &request.base);
}

/* second: NULL for one group. */
static void renew_of(const char *first, const char *second)
{
    char token[] = "0123456789abcdef";
    const char *names[] = {"n"};
    lks_lease leases[2] = {LKS_LEASE_INIT, LKS_LEASE_INIT};
    lks_lease *pointers[] = {&leases[0], &leases[1]};
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;

    for (size_t i = 0; i < 2; i++) {
        leases[i].group = (i ? second : first);
        leases[i].names = names;
        leases[i].n_names = 1;
        leases[i].token = token;
        leases[i].lease_ms = 1000;
    }
    request.leases = pointers;
    request.n_leases = second ? 2 : 1;
    start_of(NULL, "/lockstock.v1.LockService/Renew", &request.base);
}

/* promise CH20 */
TEST_WITH(calls_of_a_message_wait_for_none_of_it, setup_with_room, teardown)
{
    sink_message message = {0};

    confirm_of(&message, "a");
    get_order_of(&message, "a");
    confirm_of(&message, "a");
    assert_int_equal(here.store.n, 3);
    for (size_t i = 0; i < 3; i++)
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 3);
}

/* Answers that hold up the store come one after the other, so that others' come between them. */
/* promise K11 */
TEST(a_call_that_weighs_much_takes_more_of_the_room)
{
    sink_message message = {0};

    start_get_item(1, NULL);
    confirm_of(&message, "a");
    assert_int_equal(here.store.n, 2);
    assert_true(here.store.asked[1].call->weight > 2);
    start_get_item(2, NULL);
    assert_int_equal(here.store.n, 2);
    answer_with(1, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 3);
}

static void answer_at_length(size_t i, size_t len)
{
    static const char text[100000];
    const store_value element = {.type = STORE_STRING, .string = {text, len}};
    const store_value value = {.type = STORE_ARRAY, .n = 1, .element = &element};

    asked_answer_with(&here.store, i, &(store_result){.code = LKS_OK, .value = &value});
}

/* New connections are assumed to receive large replies; then the recent replies count. */
/* promise K11: a call that is costly for the store takes more of the room to run, and eight times as much while its
 * answers may be large; calls that settle are bounded for each connection */
TEST_WITH(large_answers_are_requested_a_few_at_a_time, setup_with_room, teardown)
{
    enum { CALLS = 200, FEW = 40 };
    lks_get_request request = LKS_GET_REQUEST_INIT;

    request.scope = "s";
    request.key = "k";
    for (size_t i = 0; i < CALLS; i++)
        start("/lockstock.v1.IdempotencyService/Get", &request.base, 1, NULL);
    size_t n = here.store.n;
    assert_in_range(n, 2, FEW);
    for (size_t i = 0; i < 4; i++)
        answer_at_length(i, 100);
    assert_true(here.store.n > n + 10);
    answer_at_length(4, 100000);
    n = here.store.n;
    for (size_t i = 5; i < 10; i++)
        answer_at_length(i, 100000);
    assert_in_range(here.store.n, n, n + 5);
    for (size_t i = 10; i < here.store.n; i++)
        answer_at_length(i, 100);
    assert_int_equal(here.store.n, CALLS);
}

/* Also for queued calls: they were admitted when the reply was empty. */
/* promise K9: a call whose answer cannot fit into its reply does not begin */
TEST(calls_whose_message_is_full_are_not_begun)
{
    sink_message message = {0};

    for (size_t i = 0; i < 5; i++)
        get_order_of(&message, "a");
    assert_int_equal(here.store.n, 3);
    message.full = "that is enough";
    answer_with(0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 3);
    assert_int_equal(here.n_full, 2);
    for (size_t i = 1; i < 3; i++)
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 3);
}

TEST(a_namespace_has_a_length)
{
    char ns[129];
    memset(ns, 'n', sizeof ns);
    const sink_call call = {.who.ns = {.data = ns, .len = sizeof ns}};
    start_get_item(1, &call);
    expect(LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "lockstock-namespace");
}

/* Taken from metadata of either wire: the last counts nowhere, nor does the first. */
/* promise F5 */
TEST(duplicate_metadata_entry_is_refused)
{
    static const char *const names[] = {"authorization", "lockstock-namespace"};

    for (size_t i = 0; i < 2; i++) {
        sink_call call = {0};
        char text[64];
        credentials_read(&call.who, names[i], lks_rpc_slice_of(""));
        credentials_read(&call.who, "other", lks_rpc_slice_of("a"));
        credentials_read(&call.who, "other", lks_rpc_slice_of("a"));
        credentials_read(&call.who, names[1 - i], lks_rpc_slice_of("a"));
        assert_null(call.who.twice);
        credentials_read(&call.who, names[i], lks_rpc_slice_of("a"));
        snprintf(text, sizeof text, "metadata %s: given more than once", names[i]);
        here.n_done = 0;
        start_get_item(1, &call);
        expect(LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, text);
        lks_error error = {0};
        assert_int_equal(here.sink.check(here.sink.arg, here.peers[1], &call.who, get_item, 0, &error),
                         LKS_INVALID_ARGUMENT);
    }
    assert_int_equal(here.store.n, 0);
}

TEST(a_namespace_places_the_keys)
{
    const sink_call call = {.who.ns = {.data = "a/}b", .len = 4}};
    start_get_item(1, &call);
    start_get_item(2, NULL);
    const lks_rpc_slice named = here.store.asked[0].call->base;
    const lks_rpc_slice unnamed = here.store.asked[1].call->base;
    assert_int_equal(named.len, strlen("ls:{a%2F%7Db/tea}:"));
    assert_memory_equal(named.data, "ls:{a%2F%7Db/tea}:", named.len);
    assert_memory_equal(unnamed.data, "ls:{default/tea}:", unnamed.len);
}

/* promise W13 */
TEST(a_call_that_waits_must_be_alone)
{
    sink_message message = {0};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    const sink_call crowded = {.message = &message};
    request.wait_ms = 1;
    start("/lockstock.v1.LockService/Acquire", &request.base, 1, &crowded);
    expect(LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "wait_ms: ");
}

/* promise W16 */
TEST(the_stores_word_is_passed_on)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    request.sku = "tea";
    start("/lockstock.v1.StockService/PutItem", &request.base, 1, NULL);
    assert_false(here.store.asked[0].call->repeatable);
    answer_with(0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
    assert_int_equal(here.error.retry_after_ms, 7);
}

/* promise W16: applied: NO has no effect, YES persists, else MAYBE; a read is always NO */
TEST(a_read_is_never_applied)
{
    start_get_item(1, NULL);
    assert_true(here.store.asked[0].call->repeatable);
    answer_with(0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_NO, "the store said so");
}

/* Renewing over two groups of which one succeeds: the failure of the other is no
 * longer a NO. */
/* promise W16 */
TEST(part_of_a_call_that_succeeded_makes_it_maybe)
{
    renew_of("g0", "g1");
    assert_int_equal(here.store.n, 2);
    answer_with(1, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(here.n_done, 0);
    answer_with(0, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
}

TEST(a_reply_of_another_shape_is_internal)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    request.sku = "tea";
    start("/lockstock.v1.StockService/PutItem", &request.base, 1, NULL);
    answer_with(0, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    expect(LKS_INTERNAL, LKS_APPLIED_MAYBE, "unexpected form");
}

TEST_MAIN(.setup = setup, .teardown = teardown)

/* Guards around the handlers of a host: every answer that a caller may get, with a real lockstockd. */

#include <signal.h>

#include <lockstock/guard.h>

#include "base/clock.h"
#include "e2e/guards_scene.h"
#include "support/http_ask.h"
#include "test.h"

/* ---- locks ------------------------------------------------------------------------------------- */

/* promise GD3: locks are held exactly while the handler runs, and it gets their fences */
/* promise E15: ... two orders for the same item run one after the other */
TEST(locks_are_held_while_the_handler_runs_and_no_longer)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, yxy, 3), third = order(o2, y_alone, 1);

    lks_call *s = start_and_hold(&guarded_lock, &first);
    assert_int_equal(holders(item_x), 1);
    expect_refused(&guarded_lock, &second, LKS_ABORTED, "the lock on items is held by others");
    expect_bought(&guarded_lock, &third);
    assert_int_equal(n_effects(NULL), 1);
    let_end(s);
    assert_int_equal(holders(item_x), 0);
    expect_bought(&guarded_lock, &second);
    assert_int_equal(holders(item_y), 0);
}

/* promise GD3 */
TEST(a_handler_is_told_the_fences_of_its_locks_in_the_order_of_their_names)
{
    buy_request request = order(o1, yxy, 3);
    const char *names[] = {item_x, item_y};

    buy_response *response = answer_to(&guarded_lock, &request);
    assert_int_equal(response->n_fences, 2);
    for (size_t i = 0; i < 2; i++) {
        lks_inspect_response *lock = inspect(names[i]);
        assert_true(response->fences[i] == lock->last_fence);
        lks_inspect_response_free(lock);
    }
    free_response(response);
}

/* With two threads, eight calls wait in the queue of one lock: none of the threads waits with them. */
/* promise GD16: calls that wait for guards occupy no thread */
TEST(calls_that_wait_for_a_lock_keep_no_thread)
{
    enum { WAIT = 8 };
    buy_request first = order(o1, x_alone, 1), other = order(o2, y_alone, 1);
    lks_call *calls[WAIT];

    lks_call *s = start_and_hold(&guarded_queue, &first);
    first.doing = LOCKSTOCK__TEST__DOING__DOING_BUY;
    for (size_t i = 0; i < WAIT; i++)
        calls[i] = start(&guarded_queue, &first);
    await_waiters(item_x, WAIT);
    expect_bought(&guarded_queue, &other);
    let_end(s);
    for (size_t i = 0; i < WAIT; i++)
        expect_ended(calls[i]);
    assert_int_equal(n_effects("o-1"), WAIT + 1);
}

/* promise GD4: leases are renewed while the handler runs */
TEST(a_lock_is_renewed_while_its_handler_outlasts_the_lease)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1);

    lks_call *s = start_and_hold(&guarded_short, &first);
    for (long long until = process_now_ms() + 2 * SHORT_MS; process_now_ms() < until;)
        process_pause();
    expect_refused(&guarded_lock, &second, LKS_ABORTED, "the lock on items is held by others");
    open_gate();
    const buy_response *response = ended(s);
    assert_non_null(strstr(response->receipt, "lost=0"));
    assert_int_equal(response->attempt, 1);
    lks_call_free(s);
}

/* promise GD5: no guard waits beyond the call's deadline */
TEST(a_wait_is_cut_to_the_deadline_of_the_call)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1);
    lks_error error;

    lks_call *s = start_and_hold(&guarded_queue, &first);
    assert_null(buy_within(&guarded_queue, &second, AWAY_MS, &error));
    expect_error(&error, LKS_ABORTED, LKS_APPLIED_NO, "the lock on items is held by others");
    let_end(s);
}

/* promise GD1: a key: one value is used as it is, several never equal other values, from whichever path; an absent
 * field is unset; an unset or long key is INVALID_ARGUMENT by its path; names are sorted, without duplicates, 16 at
 * most */
TEST(what_a_guard_needs_must_be_in_the_request)
{
    static char long_name[125];
    char names[17][8], *many[17], *long_one[] = {long_name};
    buy_request request = order(o1, NULL, 0);

    expect_refused(&guarded_lock, &request, LKS_INVALID_ARGUMENT,
                   "items: must be set, because it is a key of the guard");
    memset(long_name, 'x', 123);
    request = order(o1, long_one, 1);
    expect_bought(&guarded_lock, &request);
    long_name[123] = 'x';
    expect_refused(&guarded_lock, &request, LKS_INVALID_ARGUMENT,
                   "items: too long; the key of the guard may have at most 128 bytes");
    for (size_t i = 0; i < 17; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        many[i] = names[i];
    }
    request = order(o1, many, 17);
    expect_refused(&guarded_lock, &request, LKS_INVALID_ARGUMENT, "items: gives more than 16 locks for one call");
    assert_int_equal(n_effects(NULL), 1);
}

/* ---- one effect a key ------------------------------------------------------------------------------ */

/* promise GD6: a repeat gets the first response byte for byte, and waits for it */
TEST(a_repeat_gets_the_first_response_byte_for_byte)
{
    buy_request request = order(o1, x_alone, 1);
    buy_response *first = answer_to(&guarded_buy, &request), *second = answer_to(&guarded_buy, &request);

    assert_int_equal(first->attempt, 1);
    assert_true(same_answer(first, second));
    assert_int_equal(n_effects(NULL), 1);
    free_response(first);
    free_response(second);
}

/* promise GD6 */
TEST(a_repeat_waits_for_the_response_of_a_call_that_runs)
{
    enum { REPEATS = 6 };
    buy_request request = order(o1, x_alone, 1);
    lks_call *calls[REPEATS];

    lks_call *first = start_and_hold(&guarded_buy, &request);
    for (size_t i = 0; i < REPEATS; i++)
        calls[i] = start(&guarded_buy, &request);
    open_gate();
    const buy_response *response = ended(first);
    for (size_t i = 0; i < REPEATS; i++) {
        assert_true(same_answer(response, ended(calls[i])));
        lks_call_free(calls[i]);
    }
    lks_call_free(first);
    assert_int_equal(n_effects(NULL), 1);
}

/* Each code of a handler that says for good what became of the call, and each that may pass. */
/* promise GD7: definite errors and errors with an effect are replayed; temporary errors run again */
TEST(an_error_for_good_is_repeated_and_one_that_may_pass_runs_again)
{
    static const struct {
        lks_code code;
        lks_applied applied;
        bool stored;
    } rows[] = {
        {LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, true},    {LKS_NOT_FOUND, LKS_APPLIED_NO, true},
        {LKS_ALREADY_EXISTS, LKS_APPLIED_NO, true},      {LKS_PERMISSION_DENIED, LKS_APPLIED_NO, true},
        {LKS_UNAUTHENTICATED, LKS_APPLIED_NO, true},     {LKS_FAILED_PRECONDITION, LKS_APPLIED_YES, true},
        {LKS_OUT_OF_RANGE, LKS_APPLIED_NO, true},        {LKS_UNIMPLEMENTED, LKS_APPLIED_NO, true},
        {LKS_DATA_LOSS, LKS_APPLIED_MAYBE, true},        {LKS_INTERNAL, LKS_APPLIED_YES, true},
        {LKS_UNAVAILABLE, LKS_APPLIED_YES, true},        {LKS_CANCELLED, LKS_APPLIED_NO, false},
        {LKS_UNKNOWN, LKS_APPLIED_MAYBE, false},         {LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE, false},
        {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, false}, {LKS_ABORTED, LKS_APPLIED_NO, false},
        {LKS_INTERNAL, LKS_APPLIED_MAYBE, false},        {LKS_UNAVAILABLE, LKS_APPLIED_NO, false},
    };
    char id[16];
    lks_error error;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(id, sizeof id, "o-%zu", i);
        buy_request request = order(id, NULL, 0);
        request.doing = LOCKSTOCK__TEST__DOING__DOING_FAIL;
        request.code = (int32_t)rows[i].code;
        request.applied = (int32_t)rows[i].applied;
        for (int k = 0; k < 2; k++) {
            assert_null(buy(&guarded_once, &request, &error));
            expect_error(&error, rows[i].code, rows[i].applied,
                         k > 0 && !rows[i].stored ? "order_id: attempt 2" : "order_id: attempt 1");
        }
    }
}

/* promise GD2 */
TEST(another_request_with_the_same_key_is_refused)
{
    buy_request first = order(o1, x_alone, 1), other = order(o1, y_alone, 1);

    expect_bought(&guarded_coded, &first);
    expect_refused(&guarded_coded, &other, LKS_ALREADY_EXISTS, "order_id: was already used for a different request");
    /* Where the key alone counts it is a repeat. */
    expect_bought(&guarded_alone, &first);
    expect_bought(&guarded_alone, &other);
    assert_int_equal(n_effects(NULL), 2);
}

static Lockstock__Test__BuyRequest__QuantitiesEntry entry(char *key, int64_t value)
{
    Lockstock__Test__BuyRequest__QuantitiesEntry e = LOCKSTOCK__TEST__BUY_REQUEST__QUANTITIES_ENTRY__INIT;

    e.key = key;
    e.value = value;
    return e;
}

/* promise GD2 */
TEST(a_map_in_another_order_is_the_same_request)
{
    Lockstock__Test__BuyRequest__QuantitiesEntry a = entry(x, 1), b = entry(y, 2), *one[] = {&a, &b}, *two[] = {&b, &a};
    buy_request first = order(o1, NULL, 0), second = first;

    first.n_quantities = second.n_quantities = 2;
    first.quantities = one;
    second.quantities = two;
    expect_bought(&guarded_once, &first);
    expect_bought(&guarded_once, &second);
    assert_int_equal(n_effects(NULL), 1);
}

/* promise GD8: a response too long to be stored is the same error for all */
TEST(a_response_too_long_to_be_stored_is_an_error_for_all)
{
    buy_request request = order(o1, NULL, 0);
    lks_error error;

    request.doing = LOCKSTOCK__TEST__DOING__DOING_FILL;
    request.bytes = 262144;
    for (int i = 0; i < 2; i++) {
        assert_null(buy(&guarded_once, &request, &error));
        expect_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES,
                     "the response is longer than the 262144 bytes that can be stored for a repeated call");
    }
    assert_int_equal(n_effects(NULL), 1);
    request = order(o2, NULL, 0);
    request.doing = LOCKSTOCK__TEST__DOING__DOING_FILL;
    request.bytes = 262000;
    expect_bought(&guarded_once, &request);
    expect_bought(&guarded_once, &request);
    assert_int_equal(n_effects(NULL), 2);
}

/* More than is kept unpacked while guards are asked: what the handler gets is unpacked again. */
TEST(a_large_request_reaches_its_handler_whole)
{
    static char large[64 * 1024];
    char *items[] = {large};
    buy_request request = order(o1, items, 1);

    memset(large, 'x', sizeof large - 1);
    expect_bought(&guarded_once, &request);
    expect_bought(&guarded_once, &request);
    assert_int_equal(n_effects("o-1"), 1);
}

static const char not_ended[] =
    "order_id: an earlier call with it has not ended: it is running, or its process is gone "
    "and its lease has not expired";

/* ---- refusals ------------------------------------------------------------------------------------ */

static void expect_outcome(const lks_rpc_method *method, const buy_request *request, Lockstock__Test__Bought outcome,
                           bool has_time)
{
    buy_response *response = answer_to(method, request);

    assert_int_equal(response->outcome, outcome);
    assert_int_equal(response->retry_after_ms > 0, has_time);
    assert_string_equal(response->receipt, "");
    free_response(response);
}

/* The second and third call of three: what was refused was not charged. */
static void use_up_limit(const lks_rpc_method *method)
{
    static char ids[][4] = {"u-1", "u-2"};

    for (size_t i = 0; i < 2; i++) {
        buy_request request = order(ids[i], y_alone, 1);
        expect_bought(method, &request);
    }
}

/* promise GD11: a refusal is a code, or the outcome named for it */
TEST(a_refusal_is_told_by_a_code)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1);
    lks_error error;

    lks_call *s = start_and_hold(&guarded_coded, &first);
    assert_null(buy(&guarded_coded, &first, &error));
    expect_error(&error, LKS_ABORTED, LKS_APPLIED_NO, not_ended);
    assert_in_range(error.retry_after_ms, 1, 30000);
    expect_refused(&guarded_coded, &second, LKS_ABORTED, "the lock on items is held by others");
    use_up_limit(&guarded_coded);
    assert_null(buy(&guarded_coded, &second, &error));
    expect_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "over the limit of buyer_id");
    assert_in_range(error.retry_after_ms, 1, 7200000);
    let_end(s);
    assert_int_equal(n_effects(o1), 1);
    assert_int_equal(n_effects(o2), 0);
}

static void expect_counted(uint16_t http, const char *method, const char *outcome, int n)
{
    char page[65536], wanted[160];

    http_ask(http, HTTP_GET("/metrics"), page, sizeof page);
    snprintf(wanted, sizeof wanted, "\nlockstock_guarded_calls_total{%s,grpc_method=\"%s\",outcome=\"%s\"} %d\n",
             "grpc_service=\"lockstock.test.GuardedShop\"", method, outcome, n);
    if (!strstr(page, wanted))
        fail_msg("without %s: %s", wanted, page);
}

TEST(metrics_count_what_guards_let_run_answered_and_refused)
{
    buy_request request = order(o1, x_alone, 1);
    uint16_t http;

    assert_int_equal(lks_host_listen(host, "http://127.0.0.1:0", &http, NULL), LKS_OK);
    expect_bought(&guarded_buy, &request);
    expect_bought(&guarded_buy, &request);
    for (int i = 0; i < 3; i++)
        expect_bought(&guarded_limit, &request);
    expect_refused(&guarded_limit, &request, LKS_RESOURCE_EXHAUSTED, "over the limit of buyer_id");
    expect_counted(http, "Buy", "ran", 1);
    expect_counted(http, "Buy", "answered", 1);
    expect_counted(http, "Buy", "refused", 0);
    expect_counted(http, "Limit", "ran", 3);
    expect_counted(http, "Limit", "refused", 1);
}

/* promise GD21: the counter of a limit is its method's, unless guards share a name; a guard may choose the algorithm */
TEST(each_method_has_a_counter_unless_its_guard_names_one)
{
    static const char over[] = "over the limit of buyer_id";
    buy_request request = order(o1, x_alone, 1);

    for (int i = 0; i < 3; i++)
        expect_bought(&guarded_limit, &request);
    expect_refused(&guarded_limit, &request, LKS_RESOURCE_EXHAUSTED, over);
    expect_bought(&guarded_coded, &request);
    expect_bought(&guarded_one, &request); /* shares a name with the other */
    expect_refused(&guarded_other, &request, LKS_RESOURCE_EXHAUSTED, over);
    for (int i = 0; i < 5; i++) /* a SLIDING_WINDOW of 1 would let one through */
        expect_bought(&guarded_bucket, &request);
    expect_refused(&guarded_bucket, &request, LKS_RESOURCE_EXHAUSTED, over);
}

/* promise GD11 */
TEST(a_refusal_is_told_by_the_outcome_that_is_named_for_it)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1), other = order(o1, y_alone, 1);

    static char buyers[4][4] = {"a", "b", "c", "d"};
    lks_call *s = start_and_hold(&guarded_told, &first);
    expect_outcome(&guarded_told, &first, LOCKSTOCK__TEST__BOUGHT__BOUGHT_RUNNING, true);
    expect_outcome(&guarded_told, &second, LOCKSTOCK__TEST__BOUGHT__BOUGHT_BUSY, false);
    use_up_limit(&guarded_told);
    expect_outcome(&guarded_told, &second, LOCKSTOCK__TEST__BOUGHT__BOUGHT_LIMITED, true);
    let_end(s);
    other.buyer_id = buyers[1];
    expect_outcome(&guarded_told, &other, LOCKSTOCK__TEST__BOUGHT__BOUGHT_OTHER, false);
    assert_int_equal(n_effects(o1), 1);
    assert_int_equal(n_effects(o2), 0);
}

static void on_guard(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
}

static const lks_rpc_guard *guard_of(const lks_rpc_method *method)
{
    const lks_rpc_service service = guarded_service(&shop);
    size_t i = 0;

    while (service.bindings[i].method != method)
        i++;
    return service.bindings[i].guard;
}

/* The refusal of a call whose earlier try was not answered, by the guards of Told. */
static void expect_doubt(buy_request *request, lks_code code, const char *message)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *response = NULL;
    lks_guarded *guarded = NULL;
    lks_error error = {.code = LKS_OK};
    atomic_int done = 0;

    assert_int_equal(lks_guarded_enter(channel, guard_of(&guarded_told), &guarded_told, &request->base,
                                       clock_now_ns() + UINT64_C(1000000) * LIMIT_MS, true, on_guard, &done, &guarded,
                                       &error),
                     LKS_OK);
    await(&done, 1);
    assert_false(lks_guard_runs(guarded));
    lks_guard_answer(guarded, arena, &response, &error);
    assert_null(response);
    expect_error(&error, code, LKS_APPLIED_MAYBE, message ? message : error.message);
    lks_guard_free(guarded);
    lks_rpc_arena_free(arena);
}

/* Of a later try each guard tells by a code and MAYBE, for what it meets may be an earlier try of the call. */
/* promise GD22 */
TEST(a_refusal_after_an_unanswered_try_is_in_doubt)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1), other = order(o1, y_alone, 1);
    static char buyer[] = "b";

    lks_call *s = start_and_hold(&guarded_told, &first);
    expect_doubt(&first, LKS_ABORTED, not_ended);
    expect_doubt(&second, LKS_ABORTED, "the lock on items is held by others");
    use_up_limit(&guarded_told);
    expect_doubt(&second, LKS_RESOURCE_EXHAUSTED, "over the limit of buyer_id");
    other.buyer_id = buyer;
    expect_doubt(&other, LKS_ALREADY_EXISTS, "order_id: was already used for a different request");
    let_end(s);
}

/* The second try of a call whose first one runs. */
/* promise GD22 */
TEST(a_caller_is_not_told_by_an_outcome_that_its_own_first_try_runs)
{
    buy_request request = order(o1, x_alone, 1);
    lks_rpc_method method = guarded_told;
    lks_call *call;
    lks_channel *way = NULL;

    method.natural_id = "order_id";
    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    assert_int_equal(lks_channel_open(shop_url, &(lks_channel_options){.timeout_ms = LIMIT_MS}, &way, NULL), LKS_OK);
    assert_int_equal(lks_call_start(way, &method, &request.base, NULL, NULL, NULL, NULL, &call, NULL), LKS_OK);
    expect_failed(call, LKS_ABORTED, LKS_APPLIED_MAYBE, not_ended);
    lks_channel_close(way);
}

/* What a call took before it was refused is given back: the repeat runs, as the second attempt. */
/* promise GD12: locks, units and attempts taken for a refused call are given back */
TEST(a_call_that_is_refused_by_its_lock_may_come_again)
{
    buy_request first = order(o1, x_alone, 1), second = order(o2, x_alone, 1);

    lks_call *s = start_and_hold(&guarded_lock, &first);
    expect_refused(&guarded_coded, &second, LKS_ABORTED, "the lock on items is held by others");
    let_end(s);
    expect_attempt(&guarded_coded, &second, 1);
}

/* ---- nobody can be asked ---------------------------------------------------------------------------- */

static void expect_cannot_ask(const lks_rpc_method *method, const char *guard)
{
    buy_request request = order(o1, x_alone, 1);
    lks_error error;

    assert_null(buy_within(method, &request, AWAY_MS, &error));
    if (strncmp(error.message, guard, strlen(guard)) != 0)
        fail_msg("%s", error.message);
    expect_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, error.message);
}

/* promise GD13 */
/* promise GD22: after an unanswered try a refusal is a code with MAYBE, never the outcome; a later try is marked on
 * the wire, in gRPC by its header */
TEST(without_lockstockd_a_call_is_refused_by_the_guard_that_could_not_ask)
{
    buy_request request = order(o1, x_alone, 1);

    server_fixture_kill(server);
    expect_cannot_ask(&guarded_limit, "the rate limit guard cannot ask a server: ");
    expect_cannot_ask(&guarded_once, "the idempotency guard cannot ask a server: ");
    expect_cannot_ask(&guarded_lock, "the lock guard cannot ask a server: ");
    expect_doubt(&request, LKS_UNAVAILABLE, NULL);
    assert_int_equal(n_effects(NULL), 0);
    /* A limit that opens lets the call run. */
    expect_bought(&guarded_open, &request);
    expect_bought(&guarded_open, &request);
    assert_true(server_fixture_restart(server));
    expect_bought(&guarded_buy, &request);
}

/* It is told before the caller gives up. */
/* promise GD5 */
TEST(a_lockstockd_that_does_not_answer_is_told_in_time)
{
    buy_request request = order(o1, x_alone, 1);

    expect_bought(&guarded_buy, &request);
    kill(server_fixture_pid(server), SIGSTOP);
    expect_cannot_ask(&guarded_once, "the idempotency guard cannot ask a server: ");
    kill(server_fixture_pid(server), SIGCONT);
}

/* promise GD13: without lockstockd: UNAVAILABLE, NO, naming the guard; a limit with fail_open allows */
TEST(a_limit_that_opens_is_a_limit_while_it_can_be_asked)
{
    buy_request request = order(o1, NULL, 0);

    expect_bought(&guarded_open, &request);
    expect_refused(&guarded_open, &request, LKS_RESOURCE_EXHAUSTED, "over the limit of buyer_id");
}

/* The handler's effect has happened: the caller is told so although it cannot be stored; it is stored once
 * lockstockd is back. */
/* promise GD10: a result that cannot be stored in time is stored later */
TEST(a_result_that_cannot_be_stored_in_time_is_told_and_stored_later)
{
    buy_request request = order(o1, NULL, 0);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    lks_call *s = start_on(shop_way, &guarded_once, &request, AWAY_MS);
    await(&shop.running, 1);
    server_fixture_kill(server);
    open_gate();
    const buy_response *first = ended(s);
    assert_true(server_fixture_restart(server));
    buy_response *repeat = answer_to(&guarded_once, &request);
    assert_true(same_answer(first, repeat));
    assert_int_equal(n_effects(NULL), 1);
    free_response(repeat);
    lks_call_free(s);
}

TEST_MAIN(.setup = scene_setup, .teardown = scene_teardown)

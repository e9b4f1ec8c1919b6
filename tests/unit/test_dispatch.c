/* Dispatch over a store of the test's own: admission, limits, plans, and what a
 * call that spans groups says when one of them fails. No Redis, no socket. */

#include <lockstock/rpc/exchange.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>
#include <uv.h>

#include "calls/dispatch.h"
#include "test.h"

/* ---- a store that keeps what it is given until the test answers it ------------ */

enum { SUBMITTED_MAX = 64, PEERS = 10 };

struct store {
    struct submitted {
        const store_call *call;
        uint64_t deadline_ns;
        store_done *done;
        void *arg;
    } submitted[SUBMITTED_MAX];
    size_t n;
};

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    assert_true(s->n < SUBMITTED_MAX);
    s->submitted[s->n++] = (struct submitted){call, deadline_ns, done, arg};
}

/* Values here are static: a copy is the value itself. */
const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value)
{
    (void)arena;
    return value;
}

/* ---- a waiting room that keeps who waits ---------------------------------------- */

struct waiters {
    waiter *entered, *parked;
    unsigned pending; /* given to the next that parks */
    uint64_t deadline_ns;
    waiter *abandoned;
};

void waiters_enter(waiters *all, waiter *w, uint64_t deadline_ns)
{
    all->entered = w;
    all->deadline_ns = deadline_ns;
}

bool waiters_park(waiters *all, waiter *w, service_event *event)
{
    all->parked = w;
    *event = (service_event)all->pending;
    all->pending = 0;
    return *event != 0;
}

void waiters_abandon(waiters *all, waiter *w)
{
    all->abandoned = w;
    if (all->parked)
        w->on_event(w, SERVICE_ABANDONED);
}

void waiters_leave(waiters *all, waiter *w)
{
    if (all->entered == w)
        all->entered = all->parked = NULL;
}

/* ---- alarms that are only kept --------------------------------------------------- */

struct alarms {
    lks_rpc_slice alarm;
    char chore[160]; /* "<base> <function> <argument>" */
    size_t n_chores;
};

void alarms_set(alarms *all, lks_rpc_slice base, const char *function, lks_rpc_slice argument, int64_t in_ms)
{
    (void)base;
    (void)function;
    (void)in_ms;
    all->alarm = argument;
}

void alarms_chore(alarms *all, lks_rpc_slice base, const char *function, lks_rpc_slice argument, int64_t in_ms)
{
    assert_int_equal(in_ms, 0);
    all->n_chores++;
    snprintf(all->chore, sizeof all->chore, "%.*s %s %.*s", (int)base.len, base.data, function, (int)argument.len,
             argument.data);
}

/* ---- one call and its answer -------------------------------------------------- */

typedef struct fixture {
    uv_loop_t loop;
    store store;
    waiters waiters;
    alarms alarms;
    budget *budget;
    callers *callers;
    caller *peers[PEERS];
    bool closed;
    dispatch *dispatch;
    lks_rpc_arena *arena;
    int n_done, n_full; /* n_full: with "that is enough" */
    lks_error error;
    const ProtobufCMessage *response;
} fixture;

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error)
{
    fixture *f = arg;
    (void)method;
    f->n_done++;
    f->n_full += error->code == LKS_RESOURCE_EXHAUSTED && error->applied == LKS_APPLIED_NO &&
                 strcmp(error->message, "that is enough") == 0;
    f->error = *error;
    f->response = response;
}

static int setup_with(void **state, uint32_t running_max, uint32_t running_per_caller)
{
    fixture *f = calloc(1, sizeof *f);
    lks_error error;
    const dispatch_options options = {.store = &f->store,
                                      .waiters = &f->waiters,
                                      .alarms = &f->alarms,
                                      .server = "this",
                                      .timeout_ms = 1000,
                                      .timeout_max_ms = 2000};

    uv_loop_init(&f->loop);
    const callers_options room = {.loop = &f->loop,
                                  .running_max = running_max,
                                  .running_per_caller = running_per_caller,
                                  .waiting_max = 4,
                                  .waiting_per_caller = 2,
                                  .turn_ns = UINT64_MAX};
    f->arena = lks_rpc_arena_new();
    f->budget = budget_new(1 << 20);
    if (callers_new(&room, &f->callers, &error) != LKS_OK)
        return -1;
    for (size_t i = 0; i < PEERS; i++)
        f->peers[i] = caller_new(f->callers, budget_open(f->budget), NULL, NULL);
    f->dispatch = dispatch_new(&options);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 4, 3);
}

static int setup_with_room(void **state)
{
    return setup_with(state, 1000, 1000);
}

static void lose(fixture *f, size_t peer)
{
    budget_share *bytes = caller_bytes(f->peers[peer]);

    caller_lost(f->peers[peer]);
    budget_close(bytes);
    f->peers[peer] = NULL;
}

static void on_closed(void *arg)
{
    ((fixture *)arg)->closed = true;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < PEERS; i++)
        if (f->peers[i])
            lose(f, i);
    if (callers_running(f->callers) > 0)
        return -1;
    callers_close(f->callers, on_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    if (!f->closed || uv_loop_close(&f->loop) != 0)
        return -1;
    budget_free(f->budget);
    dispatch_free(f->dispatch);
    lks_rpc_arena_free(f->arena);
    free(f);
    return 0;
}

/* Starts a call from connection `peer`; `change` may be NULL. */
static void start(fixture *f, const char *path, const ProtobufCMessage *request, size_t peer, const sink_call *change)
{
    size_t len = request ? protobuf_c_message_get_packed_size(request) : 0;
    uint8_t *payload = lks_rpc_arena_alloc(f->arena, len + 1);
    sink_call *call = lks_rpc_arena_alloc(f->arena, sizeof *call);

    if (request)
        protobuf_c_message_pack(request, payload);
    *call = change ? *change : (sink_call){0};
    call->path = path;
    call->payload = payload;
    call->len = len;
    call->caller = f->peers[peer];
    if (call->received_ns == 0)
        call->received_ns = lks_rpc_now_ns();
    dispatch_call_start(f->dispatch, call, f->arena, on_done, f);
}

static const char get_item[] = "/lockstock.v1.StockService/GetItem";

static void start_get_item(fixture *f, size_t peer, const sink_call *change)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = (char *)"tea";
    start(f, get_item, &request.base, peer, change);
}

static void answer_with(fixture *f, size_t i, lks_code code, lks_applied applied)
{
    static const store_value empty = {.type = STORE_ARRAY};
    const store_result result = {
        .code = code, .applied = applied, .retry_after_ms = 7, .message = "the store said so", .value = &empty};
    f->store.submitted[i].done(f->store.submitted[i].arg, &result);
}

static void expect(const fixture *f, lks_code code, lks_applied applied, const char *text)
{
    if (f->n_done != 1 || f->error.code != code || f->error.applied != applied || !strstr(f->error.message, text))
        fail_msg("expected one %s, %s, \"%s\"; got %d: %s, %s, \"%s\"", lks_code_name(code), lks_applied_name(applied),
                 text, f->n_done, lks_code_name(f->error.code), lks_applied_name(f->error.applied), f->error.message);
}

/* ---- tests -------------------------------------------------------------------- */

TEST(an_unknown_method_is_unimplemented)
{
    fixture *f = *state;
    start(f, "/lockstock.v1.StockService/Nothing", NULL, 1, NULL);
    expect(f, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method");
}

TEST(a_method_of_a_later_version_is_unimplemented)
{
    fixture *f = *state;
    start(f, "/lockstock.v1.IdService/Later", NULL, 1, NULL);
    expect(f, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method");
    assert_int_equal(f->store.n, 0);
}

TEST(a_bad_request_never_reaches_the_store)
{
    fixture *f = *state;
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = (char *)"\xff";
    start(f, get_item, &request.base, 1, NULL);
    expect(f, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "sku: ");
    assert_int_equal(f->store.n, 0);
}

TEST(a_deadline_that_is_over_is_not_run)
{
    fixture *f = *state;
    const sink_call late = {.timeout_ms = 10, .received_ns = lks_rpc_now_ns() - 11000000};
    start_get_item(f, 1, &late);
    expect(f, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "deadline");
    assert_int_equal(f->store.n, 0);
}

TEST(a_deadline_is_the_callers_up_to_the_limit)
{
    fixture *f = *state;
    uint64_t now = lks_rpc_now_ns();
    const uint32_t asked[] = {0, 500, 60000};
    const uint64_t given[] = {1000, 500, 2000};

    for (size_t i = 0; i < 3; i++) {
        const sink_call call = {.timeout_ms = asked[i], .received_ns = now};
        start_get_item(f, i, &call);
        assert_int_equal(f->store.submitted[i].deadline_ns, now + given[i] * 1000000);
    }
    for (size_t i = 0; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* Its own time, whatever the server's limit: a client repeats a call for as long as that,
 * and 5 s are added. */
TEST(a_plan_knows_how_long_it_may_be_repeated)
{
    fixture *f = *state;
    const uint32_t asked[] = {0, 500, 60000};
    const char *const told[] = {"check-1 6000", "check-1 5500", "check-1 65000"};
    lks_limit limit = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;

    limit.algorithm = LKS_ALGORITHM_FIXED_WINDOW;
    limit.limit = limit.period_ms = 1;
    rule.spec_case = LKS_RULE_SPEC_LIMIT;
    rule.limit = &limit;
    rule.key = (char *)"bob";
    request.n_rules = 1;
    request.rules = rules;
    request.request_id = (char *)"check-1";
    for (size_t i = 0; i < 3; i++) {
        const sink_call call = {.timeout_ms = asked[i]};
        start(f, "/lockstock.v1.RateLimitService/Check", &request.base, i, &call);
        lks_rpc_slice id = f->store.submitted[i].call->args[2];
        assert_int_equal(id.len, strlen(told[i]));
        assert_memory_equal(id.data, told[i], id.len);
    }
    for (size_t i = 0; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* What finds no room waits for it: callers.h. */
TEST(calls_beyond_the_room_of_their_connection_queue)
{
    fixture *f = *state;
    for (size_t i = 0; i < 4; i++)
        start_get_item(f, 1, NULL);
    assert_int_equal(f->store.n, 3);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 4);
    assert_int_equal(f->n_done, 1);
    for (size_t i = 1; i < 4; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 4);
}

TEST(a_queued_call_whose_time_is_over_is_not_run)
{
    fixture *f = *state;
    const sink_call brief = {.timeout_ms = 1};
    for (size_t i = 0; i < 3; i++)
        start_get_item(f, 1, NULL);
    start_get_item(f, 1, &brief);
    uint64_t until_ns = lks_rpc_now_ns() + 1000000;
    while (lks_rpc_now_ns() <= until_ns)
        ;
    assert_int_equal(f->n_done, 0);
    f->store.submitted[0].done(f->store.submitted[0].arg,
                               &(store_result){.code = LKS_NOT_FOUND, .applied = LKS_APPLIED_NO, .message = ""});
    assert_int_equal(f->store.n, 3);
    assert_int_equal(f->n_done, 2);
    answer_with(f, 1, LKS_NOT_FOUND, LKS_APPLIED_NO);
    answer_with(f, 2, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

TEST(too_many_calls_are_refused_with_a_moment_to_wait)
{
    fixture *f = *state;
    size_t peer = 0;
    while (f->n_done == 0 && peer < PEERS) {
        start_get_item(f, peer, NULL);
        if (f->n_done == 0)
            start_get_item(f, peer, NULL);
        peer++;
    }
    expect(f, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "calls under way");
    assert_true(f->error.retry_after_ms > 0);
    size_t answered = 0;
    while (answered < f->store.n)
        answer_with(f, answered++, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

TEST(a_call_that_settles_overtakes_those_that_take)
{
    fixture *f = *state;
    lks_refund_request request = LKS_REFUND_REQUEST_INIT;
    request.group = (char *)"g";
    request.request_id = (char *)"0123456789abcdef";
    for (size_t i = 0; i < 4; i++)
        start_get_item(f, 1, NULL);
    start(f, "/lockstock.v1.RateLimitService/Refund", &request.base, 1, NULL);
    assert_int_equal(f->store.n, 3);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 4);
    assert_string_equal(f->store.submitted[3].call->function, "rate_refund");
    size_t answered = 1;
    while (answered < f->store.n)
        answer_with(f, answered++, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* ---- calls of one message ------------------------------------------------------- */

static void start_of(fixture *f, sink_order *order, const char *path, const ProtobufCMessage *request)
{
    start(f, path, request, 1, &(sink_call){.order = order});
}

static void confirm_of(fixture *f, sink_order *order, const char *group)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;
    request.group = (char *)(uintptr_t)group;
    request.order_id = (char *)"o";
    start_of(f, order, "/lockstock.v1.StockService/Confirm", &request.base);
}

static void get_order_of(fixture *f, sink_order *order, const char *group)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    request.group = (char *)(uintptr_t)group;
    request.order_id = (char *)"o";
    start_of(f, order, "/lockstock.v1.StockService/GetOrder", &request.base);
}

/* second: NULL for one group. */
static void renew_of(fixture *f, sink_order *order, const char *first, const char *second)
{
    char token[] = "0123456789abcdef";
    char *names[] = {(char *)"n"};
    lks_lease leases[2] = {LKS_LEASE_INIT, LKS_LEASE_INIT};
    lks_lease *pointers[] = {&leases[0], &leases[1]};
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;

    for (size_t i = 0; i < 2; i++) {
        leases[i].group = (char *)(uintptr_t)(i ? second : first);
        leases[i].names = names;
        leases[i].n_names = 1;
        leases[i].token = token;
        leases[i].lease_ms = 1000;
    }
    request.leases = pointers;
    request.n_leases = second ? 2 : 1;
    start_of(f, order, "/lockstock.v1.LockService/Renew", &request.base);
}

TEST_WITH(calls_of_a_message_and_a_group_run_in_their_order, setup_with_room, teardown)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    confirm_of(f, &order, "a");
    get_order_of(f, &order, "a"); /* after the first */
    confirm_of(f, &order, "a");   /* after the second */
    get_order_of(f, &order, "b"); /* of another group: at once */
    assert_int_equal(f->store.n, 2);
    assert_string_equal(f->store.submitted[0].call->function, "stock_confirm");
    assert_int_equal(f->store.submitted[1].call->base.len, strlen("ls:{default/b}:"));
    answer_with(f, 1, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 2);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 3);
    answer_with(f, 2, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 4);
    assert_string_equal(f->store.submitted[3].call->function, "stock_confirm");
    answer_with(f, 3, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 4);
    assert_true(TAILQ_EMPTY(&order.calls));
}

TEST(what_is_held_holds_what_comes_after_it)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    confirm_of(f, &order, "a");
    renew_of(f, &order, "a", "b");  /* held by the first */
    renew_of(f, &order, "b", NULL); /* by the second, though of its method */
    assert_int_equal(f->store.n, 1);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 4);
    for (size_t i = 1; i < 4; i++)
        answer_with(f, i, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 3);
}

/* They share an FCALL, which has their order. */
TEST_WITH(calls_of_one_method_go_to_the_store_together, setup_with_room, teardown)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    for (size_t i = 0; i < 3; i++)
        confirm_of(f, &order, "a");
    assert_int_equal(f->store.n, 3);
    for (size_t i = 0; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* Answers that hold up the store come one after the other, so that others' come between them. */
TEST(a_call_that_weighs_much_takes_more_of_the_room)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    start_get_item(f, 1, NULL);
    confirm_of(f, &order, "a");
    assert_int_equal(f->store.n, 2);
    assert_true(f->store.submitted[1].call->weight > 2);
    start_get_item(f, 2, NULL);
    assert_int_equal(f->store.n, 2);
    answer_with(f, 1, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 3);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    answer_with(f, 2, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* Of those that queue, too: they were let in when nothing was made yet. */
TEST(calls_whose_message_is_full_are_not_begun)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    for (size_t i = 0; i < 5; i++)
        get_order_of(f, &order, "a");
    assert_int_equal(f->store.n, 3);
    order.full = "that is enough";
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 3);
    assert_int_equal(f->n_full, 2);
    for (size_t i = 1; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 3);
}

TEST(a_lost_connection_ends_what_its_order_held)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};

    confirm_of(f, &order, "a");
    get_order_of(f, &order, "a");
    lose(f, 1);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 1);
    assert_int_equal(f->n_done, 2);
}

TEST(a_namespace_has_a_length)
{
    fixture *f = *state;
    char ns[129];
    memset(ns, 'n', sizeof ns);
    const sink_call call = {.who.ns = {.data = ns, .len = sizeof ns}};
    start_get_item(f, 1, &call);
    expect(f, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "lockstock-namespace");
}

/* Taken from metadata of either wire: the last counts nowhere, nor does the first. */
TEST(an_entry_that_stands_twice_is_refused)
{
    static const char *const names[] = {"authorization", "lockstock-namespace"};
    fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        sink_call call = {0};
        char text[64];
        credentials_take(&call.who, names[i], lks_rpc_slice_of(""));
        credentials_take(&call.who, "other", lks_rpc_slice_of("a"));
        credentials_take(&call.who, "other", lks_rpc_slice_of("a"));
        credentials_take(&call.who, names[1 - i], lks_rpc_slice_of("a"));
        assert_null(call.who.twice);
        credentials_take(&call.who, names[i], lks_rpc_slice_of("a"));
        snprintf(text, sizeof text, "metadata %s: stands twice", names[i]);
        f->n_done = 0;
        start_get_item(f, 1, &call);
        expect(f, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, text);
        lks_error error = {0};
        assert_int_equal(dispatch_judge(f->dispatch, f->peers[1], &call.who, &lks_stock_get_item_method, &error),
                         LKS_INVALID_ARGUMENT);
    }
    assert_int_equal(f->store.n, 0);
}

TEST(a_namespace_places_the_keys)
{
    fixture *f = *state;
    const sink_call call = {.who.ns = {.data = "a/}b", .len = 4}};
    start_get_item(f, 1, &call);
    start_get_item(f, 2, NULL);
    const lks_rpc_slice named = f->store.submitted[0].call->base;
    const lks_rpc_slice unnamed = f->store.submitted[1].call->base;
    assert_int_equal(named.len, strlen("ls:{a%2F%7Db/tea}:"));
    assert_memory_equal(named.data, "ls:{a%2F%7Db/tea}:", named.len);
    assert_memory_equal(unnamed.data, "ls:{default/tea}:", unnamed.len);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
    answer_with(f, 1, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

TEST(a_call_that_waits_must_be_alone)
{
    fixture *f = *state;
    sink_order order = {.calls = TAILQ_HEAD_INITIALIZER(order.calls)};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    const sink_call crowded = {.order = &order};
    request.wait_ms = 1;
    start(f, "/lockstock.v1.LockService/Acquire", &request.base, 1, &crowded);
    expect(f, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "wait_ms: ");
}

TEST(the_stores_word_is_passed_on)
{
    fixture *f = *state;
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    request.sku = (char *)"tea";
    start(f, "/lockstock.v1.StockService/PutItem", &request.base, 1, NULL);
    assert_false(f->store.submitted[0].call->repeatable);
    answer_with(f, 0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
    assert_int_equal(f->error.retry_after_ms, 7);
}

TEST(a_read_is_never_applied)
{
    fixture *f = *state;
    start_get_item(f, 1, NULL);
    assert_true(f->store.submitted[0].call->repeatable);
    answer_with(f, 0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the store said so");
}

/* Renewing over two groups of which one succeeds: the failure of the other is no
 * longer a NO. */
TEST(part_of_a_call_that_succeeded_makes_it_maybe)
{
    fixture *f = *state;
    renew_of(f, NULL, "g0", "g1");
    assert_int_equal(f->store.n, 2);
    answer_with(f, 1, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(f->n_done, 0);
    answer_with(f, 0, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
}

TEST(a_reply_of_another_shape_is_internal)
{
    fixture *f = *state;
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    request.sku = (char *)"tea";
    start(f, "/lockstock.v1.StockService/PutItem", &request.base, 1, NULL);
    answer_with(f, 0, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    expect(f, LKS_INTERNAL, LKS_APPLIED_MAYBE, "another shape");
}

/* ---- calls that wait ------------------------------------------------------------ */

static void start_waiting_of(fixture *f, size_t peer, const sink_call *change)
{
    lks_target target = LKS_TARGET_INIT;
    lks_target *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    target.name = (char *)"n";
    request.targets = targets;
    request.n_targets = 1;
    request.token = (char *)"0123456789abcdef";
    request.lease_ms = 1000;
    request.wait_ms = 60000;
    start(f, "/lockstock.v1.LockService/Acquire", &request.base, peer, change);
}

static void start_waiting(fixture *f)
{
    start_waiting_of(f, 1, NULL);
}

/* The reply of lock_acquire that says so: nobody's lease ends. */
static void answer_queued(fixture *f, size_t i)
{
    static const store_value elements[] = {{.type = STORE_STRING, .string = {"QUEUED", 6}},
                                           {.type = STORE_INTEGER, .integer = 1},
                                           {.type = STORE_INTEGER, .integer = 250}};
    static const store_value queued = {.type = STORE_ARRAY, .n = 3, .element = elements};
    const store_result result = {.code = LKS_OK, .message = "", .value = &queued};
    f->store.submitted[i].done(f->store.submitted[i].arg, &result);
}

/* The copy that is taken out is the one that was sent. */
static void expect_abandoned(const fixture *f)
{
    const lks_rpc_slice *args = f->store.submitted[0].call->args;
    char expected[160];

    snprintf(expected, sizeof expected, "ls:{default/n}: lock_abandon %.*s %.*s", (int)args[0].len, args[0].data,
             (int)args[4].len, args[4].data);
    assert_string_equal(f->alarms.chore, expected);
    assert_non_null(strstr(f->alarms.chore, " this."));
}

TEST(a_call_that_waits_is_there_before_its_store_call)
{
    fixture *f = *state;
    start_waiting(f);
    assert_non_null(f->waiters.entered);
    assert_int_equal(f->waiters.entered->key.len, strlen("ls:{default/n}:0123456789abcdef"));
    assert_null(f->waiters.parked);
    answer_queued(f, 0);
    assert_non_null(f->waiters.parked);
    assert_int_equal(f->n_done, 0);
    f->waiters.parked->on_event(f->waiters.parked, SERVICE_WOKEN);
    assert_int_equal(f->store.n, 2);
    assert_string_equal(f->store.submitted[1].call->function, "lock_claim");
    answer_with(f, 1, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
    assert_null(f->waiters.entered);
    expect_abandoned(f);
}

/* TrimLedger goes by steps: when one of them is refused, those before have had their effect. */
TEST(a_refusal_after_an_effect_says_maybe)
{
    static const store_value more = {.type = STORE_STRING, .string = {"MORE", 4}};
    static const store_value reply = {.type = STORE_ARRAY, .n = 1, .element = &more};
    const store_result goes_on = {.code = LKS_OK, .applied = LKS_APPLIED_YES, .message = "", .value = &reply};
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;
    fixture *f = *state;

    request.group = (char *)"g";
    request.up_to = (char *)"1-0";
    start(f, "/lockstock.v1.StockService/TrimLedger", &request.base, 1, NULL);
    f->store.submitted[0].done(f->store.submitted[0].arg, &goes_on);
    assert_int_equal(f->store.n, 2);
    assert_string_equal(f->store.submitted[1].call->function, "stock_trim_ledger");
    answer_with(f, 1, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
}

TEST(an_event_that_is_pending_starts_the_next_round)
{
    fixture *f = *state;
    start_waiting(f);
    f->waiters.pending = SERVICE_DEADLINE;
    answer_queued(f, 0);
    assert_int_equal(f->store.n, 2);
    assert_string_equal(f->store.submitted[1].call->function, "lock_withdraw");
    answer_queued(f, 1); /* still: it parks again */
    f->waiters.parked->on_event(f->waiters.parked, SERVICE_ABANDONED);
    assert_int_equal(f->store.n, 2);
    assert_int_equal(f->n_done, 1);
    expect_abandoned(f);
}

/* Redis is away as its wait ends: the answer does not wait, what is left in Redis is seen to. */
TEST(a_withdrawal_that_fails_is_made_up_for)
{
    fixture *f = *state;
    start_waiting(f);
    answer_queued(f, 0);
    f->waiters.parked->on_event(f->waiters.parked, SERVICE_DEADLINE);
    answer_with(f, 1, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 1);
    expect_abandoned(f);
}

TEST(an_acquire_that_may_have_queued_is_made_up_for)
{
    fixture *f = *state;
    start_waiting(f);
    answer_with(f, 0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect_abandoned(f);
}

TEST(what_left_nothing_needs_no_chore)
{
    fixture *f = *state;
    start_waiting(f);
    answer_with(f, 0, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 1);
    assert_string_equal(f->alarms.chore, "");
}

/* Its place in the queue is kept: the same call goes on at another server. */
TEST(a_stopping_server_asks_nothing_more)
{
    fixture *f = *state;
    start_waiting(f);
    answer_queued(f, 0);
    f->waiters.parked->on_event(f->waiters.parked, SERVICE_STOPPING);
    expect(f, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "shutting down");
    assert_int_equal(f->store.n, 1);
    assert_string_equal(f->alarms.chore, "");
}

/* The wait ends before the deadline by as much as its last round takes; that one has no
 * more than the deadline. */
TEST(the_last_round_ends_by_the_deadline)
{
    fixture *f = *state;
    start_waiting_of(f, 1, &(sink_call){.timeout_ms = 2000});
    uint64_t deadline_ns = f->store.submitted[0].deadline_ns;
    assert_int_equal(f->waiters.deadline_ns, deadline_ns - 250000000);
    answer_queued(f, 0);
    f->waiters.parked->on_event(f->waiters.parked, SERVICE_DEADLINE);
    assert_int_equal(f->store.submitted[1].deadline_ns, deadline_ns);
    answer_with(f, 1, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

/* Without a deadline of its own a call gets the default one after what it asks to wait. */
TEST(a_wait_does_not_shorten_the_time_to_answer)
{
    fixture *f = *state;
    uint64_t now = lks_rpc_now_ns();
    start_waiting(f);
    assert_true(f->store.submitted[0].deadline_ns >= now + UINT64_C(61000) * 1000000);
    assert_true(f->waiters.deadline_ns < now + UINT64_C(61000) * 1000000);
    answer_with(f, 0, LKS_NOT_FOUND, LKS_APPLIED_NO);
}

TEST(parked_calls_leave_their_room_to_others)
{
    fixture *f = *state;
    for (size_t peer = 2; peer < 4; peer++) {
        start_waiting_of(f, peer, NULL);
        start_waiting_of(f, peer, NULL);
    }
    for (size_t i = 0; i < 4; i++)
        answer_queued(f, i);
    assert_int_equal(callers_parked(f->callers), 4);
    start_get_item(f, 2, NULL);
    assert_int_equal(f->store.n, 5);
    answer_with(f, 4, LKS_NOT_FOUND, LKS_APPLIED_NO);
    start_waiting_of(f, 5, NULL); /* one too many that waits */
    assert_int_equal(f->n_done, 2);
    assert_int_equal(f->error.code, LKS_RESOURCE_EXHAUSTED);
    lose(f, 2);
    lose(f, 3);
    assert_int_equal(f->store.n, 5);
    assert_int_equal(f->alarms.n_chores, 4);
    assert_int_equal(callers_parked(f->callers), 0);
}

/* It was never asked of the store: nothing is to be withdrawn. */
TEST(a_queued_call_of_a_lost_connection_is_not_run)
{
    fixture *f = *state;
    for (size_t i = 0; i < 4; i++)
        start_get_item(f, 1, NULL);
    lose(f, 1);
    expect(f, LKS_CANCELLED, LKS_APPLIED_NO, "gone");
    for (size_t i = 0; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->store.n, 3);
    assert_int_equal(f->n_done, 4);
}

TEST(an_abandoned_call_is_withdrawn_alone)
{
    fixture *f = *state;
    running *handle = NULL;
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = (char *)"tea";
    for (size_t i = 0; i < 3; i++)
        start_get_item(f, 1, NULL);
    start(f, get_item, &request.base, 1, &(sink_call){.handle = &handle});
    assert_non_null(handle);
    dispatch_abandon(handle);
    expect(f, LKS_CANCELLED, LKS_APPLIED_NO, "gone");
    assert_null(handle);
    for (size_t i = 0; i < 3; i++)
        answer_with(f, i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(f->n_done, 4);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

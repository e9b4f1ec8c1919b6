/* SOLD_OUT from a server's memory: only where the store would have said it too, at most 20 ms ago, only to orders that
 * were never sent, and not past a change through this server. */
#include "services/rounds.h"
#include "stock_script.h"

enum { KNOWN_MS = 20, ASK_MS = 10, MS = 1000000 };

static int setup(void **state)
{
    if (script_reset(state) != 0)
        return -1;
    harness_service_options(h, &(service_options){.sequence_block = 1, .remembers_refusals = true});
    harness_server(h, "A");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_server_ends(h, "A");
    harness_server_ends(h, "B");
    return 0;
}

static const lks_deduct_response *deduct_first(const char *group, const char *order_id, const char *buyer_id,
                                               const char *lines)
{
    size_t n;
    lks_line **list = lines_of(lines, &n);

    return ask(deduct, .group = group, .order_id = order_id, .buyer_id = buyer_id, .lines = list, .n_lines = n,
               .fresh = true);
}

static const lks_reserve_response *reserve_first(const char *group, const char *order_id, const char *lines)
{
    size_t n;
    lks_line **list = lines_of(lines, &n);

    return ask(reserve, .group = group, .order_id = order_id, .lines = list, .n_lines = n, .hold_ms = 60000,
               .fresh = true);
}

/* The answer comes from the store, or from memory. */
#define asks(expression, expected) (fcalls_made(), answers(expression, expected), assert_int_equal(fcalls_made(), 1))
#define remembers(expression, expected) \
    (fcalls_made(), answers(expression, expected), assert_int_equal(fcalls_made(), 0))

TEST(sold_out_is_told_again_without_the_store)
{
    put_item("g", "a", 2);
    asks(deduct_first("g", "o1", "", "a:3"), "SOLD_OUT a:2");
    remembers(deduct_first("g", "o2", "", "a:3"), "SOLD_OUT a:2");
    remembers(deduct_first("g", "o3", "bob", "a:4"), "SOLD_OUT a:2");
    remembers(reserve_first("g", "o4", "a:3"), "SOLD_OUT a:2");
    remembers(deduct_first("g", "o2", "", "a:3"), "SOLD_OUT a:2");
    expect_stock("g", "a", 2, 0, 0);
    assert_string_equal(ledger_text(read_ledger("g", "", 0)), "PUT a 2 \n");

    put_item("h", "a", 0);
    asks(reserve_first("h", "o1", "a:1"), "SOLD_OUT a:0");
    remembers(reserve_first("h", "o2", "a:1"), "SOLD_OUT a:0");
    remembers(deduct_first("h", "o3", "", "a:1"), "SOLD_OUT a:0");
}

/* It may have been sold. */
TEST(a_repeat_is_always_looked_up)
{
    put_item("g", "a", 2);
    answers(deduct_first("g", "o1", "", "a:1"), "DEDUCTED a:1");
    answers(reserve_first("g", "o2", "a:1"), "RESERVED a:0");
    answers(deduct_first("g", "o3", "", "a:1"), "SOLD_OUT a:0");
    remembers(deduct_first("g", "o4", "", "a:1"), "SOLD_OUT a:0");
    asks(deduct("g", "o1", "", "a:1"), "DEDUCTED again a:1");
    asks(reserve("g", "o2", "", "a:1", 60000), "RESERVED again a:0");
    asks(deduct("g", "o4", "", "a:1"), "SOLD_OUT a:0");
}

TEST(it_is_known_for_20_ms_and_asked_for_once_from_10_ms_on)
{
    put_item("g", "a", 0);
    asks(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    harness_advance_ms(h, ASK_MS - 1);
    remembers(deduct_first("g", "o2", "", "a:1"), "SOLD_OUT a:0");
    harness_advance_ms(h, 1);
    asks(deduct_first("g", "o3", "", "a:1"), "SOLD_OUT a:0");
    remembers(deduct_first("g", "o4", "", "a:1"), "SOLD_OUT a:0");
    harness_advance_ms(h, KNOWN_MS);
    asks(deduct_first("g", "o5", "", "a:1"), "SOLD_OUT a:0");
}

/* While one call asks again, the others are told what is known: up to its 20 ms. */
TEST(one_call_asks_again_for_all)
{
    const char *const orders[] = {"o2", "o3", "o4"};
    size_t from_store = 0;

    put_item("g", "a", 0);
    answers(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    harness_advance_ms(h, ASK_MS);
    harness_server(h, "B"); /* it is put back through another server */
    assert_non_null(adjust("g", "a", 1, "back"));
    harness_server(h, "A");
    answers(deduct_first("g", "o2", "", "a:2"), "SOLD_OUT a:1");
    for (size_t i = 0; i < 3; i++) {
        fcalls_made();
        answers(deduct_first("g", orders[i], "", "a:2"), "SOLD_OUT a:1");
        from_store += (size_t)fcalls_made();
    }
    assert_int_equal(from_store, 0);
    /* It was granted: nothing is known any more. */
    harness_advance_ms(h, ASK_MS);
    asks(deduct_first("g", "o5", "", "a:1"), "DEDUCTED a:0");
    asks(deduct_first("g", "o6", "", "a:2"), "SOLD_OUT a:0");
}

TEST(what_another_server_gives_back_is_seen_after_20_ms)
{
    put_item("g", "a", 0);
    answers(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    harness_server(h, "B");
    assert_non_null(adjust("g", "a", 5, "back"));
    asks(deduct_first("g", "o2", "", "a:1"), "DEDUCTED a:4");
    harness_server(h, "A");
    remembers(deduct_first("g", "o3", "", "a:1"), "SOLD_OUT a:0");
    harness_advance_ms(h, KNOWN_MS);
    asks(deduct_first("g", "o3", "", "a:1"), "DEDUCTED a:3");
}

/* ---- what gives units back through this server ---- */

static void by_put_item(void)
{
    put_item("g", "a", 3);
}

static void by_adjust(void)
{
    assert_non_null(adjust("g", "a", 1, "more"));
}

static void by_cancel(void)
{
    answers(cancel("g", "held", ""), "CANCELLED CANCELLED  a:1:0");
}

static void by_return(void)
{
    answers(take_back("g", "r", "sold", ""), "RETURNED RETURNED  a:1:1");
}

TEST(what_this_server_gives_back_is_there_at_once)
{
    static void (*const ways[])(void) = {by_put_item, by_adjust, by_cancel, by_return};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        setup(NULL);
        put_item("g", "a", 2);
        answers(deduct("g", "sold", "", "a:1"), "DEDUCTED a:1");
        answers(reserve("g", "held", "", "a:1", 60000), "RESERVED a:0");
        answers(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
        remembers(deduct_first("g", "o2", "", "a:1"), "SOLD_OUT a:0");
        ways[i]();
        says_begin(answer_line(deduct_first("g", "o3", "", "a:1")), "DEDUCTED");
    }
}

TEST(an_item_that_is_deleted_is_unknown_at_once)
{
    put_item("g", "a", 0);
    answers(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    assert_true(delete_item("g", "a"));
    answers(deduct_first("g", "o2", "", "a:1"), "UNKNOWN_SKU a:0");
}

/* ---- when it ends, seen by the plans alone ---- */

static lks_rpc_arena *arena;
static void *kept;
static uint64_t now_ns = 1;

static bool planned(rounds *r, const void *request)
{
    const service *of;
    const service_method *method = method_for(request, &of);
    const plan settings = {.arena = arena,
                           .ns = lks_rpc_slice_of("default"),
                           .service = of,
                           .state = kept,
                           .server = "A",
                           .now_ns = now_ns};

    return rounds_plan(r, method, request, &settings);
}

/* A first try's plan asks the store. */
static bool deduct_asks(rounds *r)
{
    static lks_line line = LKS_LINE_INIT;
    static lks_line *lines[] = {&line};
    lks_deduct_request *request = lks_rpc_arena_alloc(arena, sizeof *request);

    line.sku = "a";
    line.quantity = 1;
    *request = (lks_deduct_request)LKS_DEDUCT_REQUEST_INIT;
    request->group = "g";
    request->order_id = "o";
    request->lines = lines;
    request->n_lines = 1;
    request->fresh = true;
    assert_true(planned(r, request));
    return r->plan.n_calls == 1;
}

static void learn_sold_out(void)
{
    const store_value elements[] = {{.type = STORE_STRING, .string = {"SOLD_OUT", 8}},
                                    {.type = STORE_INTEGER, .integer = 1},
                                    {.type = STORE_INTEGER},
                                    {.type = STORE_INTEGER}};
    const store_value reply = {.type = STORE_ARRAY, .n = 4, .element = elements};
    rounds r;

    assert_true(deduct_asks(&r));
    assert_int_equal(rounds_start(&r, 1), ROUNDS_CALLS);
    assert_int_equal(rounds_reply(&r, 0, &(store_result){.code = LKS_OK, .value = &reply}, 1), ROUNDS_ANSWERED);
    assert_false(deduct_asks(&r));
}

/* A call of its frame that comes behind it does not overtake it; and one whose answer never came may have run. */
TEST(a_change_ends_it_when_it_is_planned_and_again_when_it_has_ended)
{
    lks_adjust_request change = LKS_ADJUST_REQUEST_INIT;
    const store_result lost = {.code = LKS_UNAVAILABLE, .applied = LKS_APPLIED_MAYBE, .message = "lost"};
    rounds r, of_change;

    change.group = "g";
    change.sku = "a";
    change.delta = 1;
    change.adjustment_id = "id";
    arena = lks_rpc_arena_new();
    kept = stock_service.open(&(service_options){.remembers_refusals = true});
    learn_sold_out();
    assert_true(planned(&of_change, &change));
    assert_true(deduct_asks(&r));
    learn_sold_out();
    assert_int_equal(rounds_start(&of_change, 1), ROUNDS_CALLS);
    assert_int_equal(rounds_reply(&of_change, 0, &lost, 1), ROUNDS_FAILED);
    assert_true(deduct_asks(&r));
    stock_service.close(kept);
    lks_rpc_arena_free(arena);
}

/* The call that asks again is under way, and may be for long. */
TEST(it_is_not_known_for_longer_while_a_call_asks)
{
    rounds r;

    arena = lks_rpc_arena_new();
    kept = stock_service.open(&(service_options){.remembers_refusals = true});
    learn_sold_out();
    now_ns = 1 + ASK_MS * MS;
    assert_true(deduct_asks(&r));
    now_ns = KNOWN_MS * MS;
    assert_false(deduct_asks(&r));
    now_ns++;
    assert_true(deduct_asks(&r));
    assert_true(deduct_asks(&r));
    now_ns = 1;
    stock_service.close(kept);
    lks_rpc_arena_free(arena);
}

/* Those of alarms too, whoever had them set. */
TEST(store_calls_that_give_nothing_back_leave_it)
{
    static const struct {
        const char *function, *base;
        bool ends;
    } rows[] = {
        {"stock_deduct", "ls:{default/g}:", false},      {"stock_reserve", "ls:{default/g}:", false},
        {"stock_confirm", "ls:{default/g}:", false},     {"stock_extend_hold", "ls:{default/g}:", false},
        {"stock_get_items", "ls:{default/g}:", false},   {"stock_await_ledger", "ls:{default/g}:", false},
        {"lock_expire", "ls:{default/g}:", false},       {"stock_expire", "ls:{default/h}:", false},
        {"stock_expire", "ls:{default/g}:", true},       {"stock_cancel", "ls:{default/g}:", true},
        {"stock_return", "ls:{default/g}:", true},       {"stock_put_item", "ls:{default/g}:", true},
        {"stock_delete_item", "ls:{default/g}:", true},  {"stock_adjust", "ls:{default/g}:", true},
        {"stock_expire_listed", "ls:{default/}:", true}, {"stock_something_new", "ls:{default/g}:", true},
    };
    rounds r;

    arena = lks_rpc_arena_new();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const store_call call = {.function = rows[i].function, .base = lks_rpc_slice_of(rows[i].base)};
        kept = stock_service.open(&(service_options){.remembers_refusals = true});
        learn_sold_out();
        stock_service.on_store_call(kept, &call);
        if (deduct_asks(&r) != rows[i].ends)
            fail_msg("%s of %s", rows[i].function, rows[i].base);
        stock_service.close(kept);
    }
    lks_rpc_arena_free(arena);
}

/* ---- only where the store would say it too ---- */

TEST(fewer_than_were_refused_are_asked_for)
{
    put_item("g", "a", 3);
    asks(deduct_first("g", "o1", "", "a:5"), "SOLD_OUT a:3");
    remembers(deduct_first("g", "o2", "", "a:4"), "SOLD_OUT a:3");
    asks(deduct_first("g", "o3", "", "a:2"), "DEDUCTED a:1");
    asks(deduct_first("g", "o4", "", "a:5"), "SOLD_OUT a:1");
}

TEST(an_order_of_several_lines_is_asked_for)
{
    put_item("g", "a", 0);
    put_item("g", "b", 9);
    asks(deduct_first("g", "o1", "", "a:1 b:1"), "SOLD_OUT a:0"); /* and not kept */
    asks(deduct_first("g", "o2", "", "a:1"), "SOLD_OUT a:0");
    asks(deduct_first("g", "o3", "", "a:1 x:1"), "UNKNOWN_SKU x:0");
    asks(deduct_first("g", "o4", "", "a:1 b:1"), "SOLD_OUT a:0");
    remembers(deduct_first("g", "o5", "", "a:1"), "SOLD_OUT a:0");
}

/* Who has bought is over the limit, others find it sold out. */
TEST(an_item_with_a_buyers_limit_is_asked_for)
{
    put_limited("g", "a", 1, 1);
    answers(deduct_first("g", "o1", "bob", "a:1"), "DEDUCTED a:0");
    asks(deduct_first("g", "o2", "eve", "a:1"), "SOLD_OUT a:0");
    asks(deduct_first("g", "o3", "eve", "a:1"), "SOLD_OUT a:0");
    asks(deduct_first("g", "o4", "bob", "a:1"), "BUYER_LIMIT a:0");
    assert_null(deduct_first("g", "o5", "", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
}

TEST(other_refusals_are_asked_for)
{
    lks_put_item_request later = put_request("g", "later", 0);

    later.opens_in_ms = 60000;
    put(&later);
    asks(deduct_first("g", "o1", "", "x:1"), "UNKNOWN_SKU x:0");
    asks(deduct_first("g", "o2", "", "x:1"), "UNKNOWN_SKU x:0");
    asks(deduct_first("g", "o3", "", "later:1"), "NOT_OPEN later:0");
    asks(deduct_first("g", "o4", "", "later:1"), "NOT_OPEN later:0");
    put_item("g", "x", 1);
    asks(deduct_first("g", "o5", "", "x:1"), "DEDUCTED x:0");
}

TEST(it_is_of_one_item_of_one_group_of_one_namespace)
{
    put_item("g", "a", 0);
    put_item("g", "b", 1);
    put_item("h", "a", 1);
    put_item("", "a", 1);
    put_item("a", "g", 1);
    asks(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    asks(deduct_first("g", "o2", "", "b:1"), "DEDUCTED b:0");
    asks(deduct_first("h", "o2", "", "a:1"), "DEDUCTED a:0");
    asks(deduct_first("", "o2", "", "a:1"), "DEDUCTED a:0");
    asks(deduct_first("a", "o3", "", "g:1"), "DEDUCTED g:0");
    harness_namespace(h, "other");
    asks(deduct_first("g", "o2", "", "a:1"), "UNKNOWN_SKU a:0");
}

/* The group of a request without one is its sku. */
TEST(a_group_that_is_not_named_is_the_same_group)
{
    put_item("", "a", 0);
    asks(deduct_first("", "o1", "", "a:1"), "SOLD_OUT a:0");
    remembers(deduct_first("a", "o2", "", "a:1"), "SOLD_OUT a:0");
    assert_non_null(adjust("a", "a", 1, "more"));
    asks(deduct_first("", "o3", "", "a:1"), "DEDUCTED a:0");
}

TEST(a_bad_request_is_refused_as_ever)
{
    put_item("g", "a", 0);
    answers(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    assert_null(deduct_first("g", "", "", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "order_id");
    assert_null(deduct_first("g", "o2", "", "a:0"));
    expect_error(LKS_INVALID_ARGUMENT, "lines[0].quantity");
    assert_null(deduct_first("g", "o2", "", ""));
    expect_error(LKS_INVALID_ARGUMENT, "lines");
}

TEST(without_the_setting_the_store_is_always_asked)
{
    teardown(NULL);
    harness_service_options(h, &(service_options){.sequence_block = 1});
    put_item("g", "a", 0);
    asks(deduct_first("g", "o1", "", "a:1"), "SOLD_OUT a:0");
    asks(deduct_first("g", "o2", "", "a:1"), "SOLD_OUT a:0");
    assert_non_null(adjust("g", "a", 1, "more"));
    asks(deduct_first("g", "o3", "", "a:1"), "DEDUCTED a:0");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = setup, .teardown = teardown)

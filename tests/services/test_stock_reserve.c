/* Reserve: held for a while, all lines or none, once an order. */
#include "stock_script.h"

TEST(holds_and_tells_what_is_left)
{
    put_item("g", "a", 10);
    put_item("g", "b", 5);
    const lks_reserve_response *response = reserve("g", "o1", "bob", "a:2 b:5", 60000);
    answers(response, "RESERVED a:8 b:0");
    assert_int_equal(response->hold_ms, 60000);
    assert_int_equal(lasting_alarm_ms(), 60000);
    expect_stock("g", "a", 8, 2, 0);
    expect_stock("g", "b", 0, 5, 0);
    const lks_order *order = get_order("g", "o1");
    assert_string_equal(order_text(order), "RESERVED bob a:2:0 b:5:0");
    assert_in_range(order->hold_ms, 1, 60000);
    assert_string_equal(order->group, "g");
    assert_string_equal(order->order_id, "o1");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\nRESERVED b 5 o1\n");
    /* It would be lost with its record: that stays until the hold ends. */
    assert_string_equal(harness_redis(h, "PTTL ls:{default/g}:stock:o:o1"), "-1");
}

TEST(a_repeat_is_the_first_answer)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    reserve("g", "o1", "bob", "a:2 b:1", 60000);
    reserve("g", "o2", "bob", "a:8", 60000);
    harness_advance_ms(h, 20000);
    remember();
    const lks_reserve_response *again = reserve("g", "o1", "bob", "b:1 a:2", 60000);
    answers(again, "RESERVED again b:9 a:8");
    assert_in_range(again->hold_ms, 1, 40000);
    assert_int_equal(lasting_alarm_ms(), again->hold_ms);
    /* It is not a longer hold. */
    again = reserve("g", "o1", "bob", "a:2 b:1", 600000);
    answers(again, "RESERVED again a:8 b:9");
    assert_in_range(again->hold_ms, 1, 40000);
    expect_unchanged();
    /* Whatever has become of the order since. */
    confirm("g", "o1", false);
    again = reserve("g", "o1", "bob", "a:2 b:1", 60000);
    answers(again, "RESERVED again a:8 b:9");
    assert_int_equal(again->hold_ms, 0);
    assert_int_equal(lasting_alarm_ms(), -1);
    take_back("g", "r", "o1", "");
    answers(reserve("g", "o1", "bob", "a:2 b:1", 60000), "RESERVED again a:8 b:9");
    harness_advance_ms(h, 40000);
    again = reserve("g", "o2", "bob", "a:8", 60000);
    answers(again, "RESERVED again a:0");
    assert_int_equal(again->hold_ms, 0);
    ring_lasting_alarm("g");
    answers(reserve("g", "o2", "bob", "a:8", 60000), "RESERVED again a:0");
}

TEST(an_order_id_means_one_order)
{
    static const char *const others[] = {"a:2", "a:3 b:1", "a:2 c:1", "a:2 b:1 c:1", "b:2 a:1"};

    put_item("g", "a", 10);
    put_item("g", "b", 10);
    put_item("g", "c", 10);
    reserve("g", "o1", "bob", "a:2 b:1", 60000);
    deduct("g", "o2", "bob", "a:2 b:1");
    remember();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(reserve("g", "o1", "bob", others[i], 60000));
        expect_error(LKS_ALREADY_EXISTS, "order_id");
    }
    assert_null(reserve("g", "o1", "eve", "a:2 b:1", 60000));
    expect_error(LKS_ALREADY_EXISTS, "order_id");
    /* Sold at once and held are two things. */
    assert_null(deduct("g", "o1", "bob", "a:2 b:1"));
    expect_error(LKS_ALREADY_EXISTS, "order_id");
    assert_null(reserve("g", "o2", "bob", "a:2 b:1", 60000));
    expect_error(LKS_ALREADY_EXISTS, "order_id");
    expect_unchanged();
}

static void put_window(const char *sku, int64_t opens_in_ms, int64_t closes_in_ms)
{
    lks_put_item_request request = put_request("g", sku, 10);

    request.opens_in_ms = opens_in_ms;
    request.closes_in_ms = closes_in_ms;
    assert_non_null(put(&request));
}

TEST(the_gravest_refusal_is_told_with_its_lines)
{
    put_window("later", 100000, 0);
    put_window("over", 0, 1);
    harness_advance_ms(h, 1);
    put_limited("g", "few", 10, 2);
    put_item("g", "none", 0);
    put_item("g", "ok", 5);
    remember();

    static const struct {
        const char *lines, *answer;
    } rows[] = {
        {"ok:1 none:1 few:3 over:1 later:1 x:1 y:1", "UNKNOWN_SKU x:0 y:0"},
        {"ok:1 none:1 few:3 over:1 later:1", "NOT_OPEN later:10"},
        {"ok:1 none:1 few:3 over:1", "CLOSED over:10"},
        {"ok:1 none:1 few:3", "BUYER_LIMIT few:10"},
        {"ok:6 none:1 few:2", "SOLD_OUT ok:5 none:0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const lks_reserve_response *refused = reserve("g", "o", "bob", rows[i].lines, 60000);
        answers(refused, rows[i].answer);
        assert_int_equal(refused->hold_ms, 0);
        assert_int_equal(lasting_alarm_ms(), -1);
    }
    assert_null(reserve("g", "o", "", "few:1", 60000));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    expect_unchanged();
    answers(reserve("g", "o", "bob", "ok:5 few:2", 60000), "RESERVED ok:0 few:8");
}

TEST(what_is_held_counts_for_its_buyer)
{
    put_limited("g", "a", 10, 3);
    reserve("g", "o1", "bob", "a:2", 60000);
    answers(reserve("g", "o2", "bob", "a:2", 60000), "BUYER_LIMIT a:8");
    answers(deduct("g", "o2", "bob", "a:2"), "BUYER_LIMIT a:8");
    answers(reserve("g", "o2", "eve", "a:3", 60000), "RESERVED a:5");
    harness_advance_ms(h, 60000);
    /* And no more when it is over; the hash of a buyer who has nothing has no entry of theirs. */
    answers(reserve("g", "o3", "bob", "a:3", 60000), "RESERVED a:7");
    assert_string_equal(harness_redis(h, "HGETALL ls:{default/g}:stock:b:a"), "bob\n3\n");
}

TEST(one_line_needs_no_group)
{
    put_item("", "a", 10);
    answers(reserve("", "o1", "", "a:1", 60000), "RESERVED a:9");
    expect_stock("a", "a", 9, 1, 0);
    assert_non_null(get_order("a", "o1"));
}

TEST(quantities_are_exact_up_to_the_largest)
{
    put_item("g", "a", INT64_C(9007199254740991));
    answers(reserve("g", "o1", "", "a:9007199254740990", 60000), "RESERVED a:1");
    expect_stock("g", "a", 1, INT64_C(9007199254740990), 0);
    answers(confirm("g", "o1", false), "CONFIRMED CONFIRMED  a:9007199254740990:0");
    answers(take_back("g", "r", "o1", "a:9007199254740989"), "RETURNED CONFIRMED  a:9007199254740990:9007199254740989");
    expect_stock("g", "a", INT64_C(9007199254740990), 0, 1);
}

TEST(the_largest_order)
{
    char lines[64 * 8] = "";
    size_t len = 0;

    for (int i = 0; i < 64; i++) {
        char sku[8];
        snprintf(sku, sizeof sku, "s%d", i);
        put_limited("g", sku, 3, 2);
        len += (size_t)snprintf(lines + len, sizeof lines - len, "%s:1 ", sku);
    }
    const lks_reserve_response *response = reserve("g", "o1", "bob", lines, 60000);
    assert_int_equal(response->outcome, LKS_RESERVE_OUTCOME_RESERVED);
    assert_int_equal(response->n_lines, 64);
    assert_int_equal(confirm("g", "o1", false)->order->n_lines, 64);
    expect_stock("g", "s63", 2, 0, 1);
    response = reserve("g", "o2", "bob", lines, 60000);
    assert_int_equal(cancel("g", "o2", "")->order->n_lines, 64);
    expect_stock("g", "s63", 2, 0, 1);
    take_back("g", "r", "o1", "");
    expect_stock("g", "s0", 3, 0, 0);
}

/* Of three orders for the same stock that travel together the first two get it. */
TEST(calls_may_travel_together)
{
    static char *const ids[] = {"o1", "o2", "o3", "o1"};
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_reserve_request requests[4];
    const void *pointers[4], *responses[4];
    lks_error errors[4];

    put_item("g", "a", 5);
    reserve("g", "o0", "", "a:5", 100000);
    harness_advance_ms(h, 100000);
    line.sku = "a";
    line.quantity = 2;
    for (size_t i = 0; i < 4; i++) {
        requests[i] = message(reserve_request, .group = "g", .order_id = ids[i], .n_lines = 1, .lines = lines,
                              .hold_ms = 60000, .fresh = true);
        pointers[i] = &requests[i];
    }
    ask_together(4, pointers, responses, errors);
    answers(responses[0], "RESERVED a:3");
    answers(responses[1], "RESERVED a:1");
    answers(responses[2], "SOLD_OUT a:1");
    answers(responses[3], "RESERVED again a:3");
}

TEST(orders_are_remembered_as_long_as_the_longest_of_their_items)
{
    lks_put_item_request request = put_request("g", "a", 10);

    request.order_retain_ms = 60000;
    put(&request);
    request.sku = "b";
    request.order_retain_ms = 120000;
    put(&request);
    reserve("g", "o1", "", "a:1 b:1", 100000);
    reserve("g", "o2", "", "b:1 a:1", 100000);
    reserve("g", "o3", "", "a:1", 100000);
    /* As it was when they were made. */
    request.order_retain_ms = 240000;
    put(&request);
    confirm("g", "o1", false);
    cancel("g", "o2", "");
    harness_advance_ms(h, 100000);
    ring_lasting_alarm("g");
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o1")), 60001, 120000);
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o2")), 60001, 120000);
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o3")), 1, 60000);
    take_back("g", "r", "o1", "a:1");
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:t:r")), 60001, 120000);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

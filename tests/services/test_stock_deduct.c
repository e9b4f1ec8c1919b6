/* Deduct: sold at once, all lines or none, once an order. */
#include "stock_script.h"

TEST(sells_and_tells_what_is_left)
{
    put_item("g", "a", 10);
    put_item("g", "b", 5);
    answers(deduct("g", "o1", "bob", "a:2 b:5"), "DEDUCTED a:8 b:0");
    expect_item("g", "a", 8, 2);
    expect_item("g", "b", 0, 5);

    const lks_order *order = get_order("g", "o1");
    assert_non_null(order);
    assert_string_equal(order->group, "g");
    assert_string_equal(order->order_id, "o1");
    assert_string_equal(order->buyer_id, "bob");
    assert_int_equal(order->state, LKS_ORDER_STATE_CONFIRMED);
    assert_int_equal(order->hold_ms, 0);
    assert_int_equal(order->n_lines, 2);
    assert_string_equal(order->lines[0]->sku, "a");
    assert_int_equal(order->lines[0]->quantity, 2);
    assert_int_equal(order->lines[0]->returned, 0);
    assert_string_equal(order->lines[1]->sku, "b");
    assert_int_equal(order->lines[1]->quantity, 5);
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nDEDUCTED a 2 o1\nDEDUCTED b 5 o1\n");
}

TEST(one_line_needs_no_group)
{
    put_item("", "a", 10);
    answers(deduct("", "o1", "", "a:1"), "DEDUCTED a:9");
    /* The sku is the group. */
    expect_item("a", "a", 9, 1);
    assert_non_null(get_order("a", "o1"));
    answers(deduct("a", "o1", "", "a:1"), "DEDUCTED again a:9");
}

TEST(a_repeat_is_the_first_answer)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    deduct("g", "o1", "bob", "a:2 b:1");
    deduct("g", "o2", "bob", "a:8");
    remember();
    answers(deduct("g", "o1", "bob", "a:2 b:1"), "DEDUCTED again a:8 b:9");
    /* The same lines, however ordered, are the same order; they are told as it is asked for. */
    answers(deduct("g", "o1", "bob", "b:1 a:2"), "DEDUCTED again b:9 a:8");
    expect_unchanged();
}

TEST(an_order_id_means_one_order)
{
    static const char *const others[] = {"a:2", "a:3 b:1", "a:2 c:1", "a:2 b:1 c:1", "b:2 a:1"};

    put_item("g", "a", 10);
    put_item("g", "b", 10);
    put_item("g", "c", 10);
    deduct("g", "o1", "bob", "a:2 b:1");
    remember();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(deduct("g", "o1", "bob", others[i]));
        expect_error(LKS_ALREADY_EXISTS, "order_id");
    }
    assert_null(deduct("g", "o1", "eve", "a:2 b:1"));
    expect_error(LKS_ALREADY_EXISTS, "order_id");
    expect_unchanged();
    /* In another group it is another order. */
    put_item("g2", "a", 10);
    answers(deduct("g2", "o1", "eve", "a:1"), "DEDUCTED a:9");
}

TEST(a_repeat_outlives_its_item)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:1");
    assert_true(delete_item("g", "a"));
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED again a:9");
    answers(deduct("g", "o2", "", "a:1"), "UNKNOWN_SKU a:0");
}

TEST(a_refusal_changes_nothing_and_may_change)
{
    put_item("g", "a", 3);
    put_item("g", "b", 10);
    remember();
    answers(deduct("g", "o1", "", "b:1 a:4"), "SOLD_OUT a:3");
    expect_unchanged();
    assert_null(get_order("g", "o1"));
    expect_error(LKS_NOT_FOUND, "order_id");
    put_item("g", "a", 4);
    answers(deduct("g", "o1", "", "b:1 a:4"), "DEDUCTED b:9 a:0");
}

static void put_window(const char *sku, int64_t opens_in_ms, int64_t closes_in_ms)
{
    lks_put_item_request request = put_request("g", sku, 10);

    request.opens_in_ms = opens_in_ms;
    request.closes_in_ms = closes_in_ms;
    assert_non_null(put(&request));
}

TEST(sells_only_in_its_window)
{
    put_window("a", 100000, 200000);
    remember();
    answers(deduct("g", "o1", "", "a:1"), "NOT_OPEN a:10");
    expect_unchanged();
    harness_advance_ms(h, 100000);
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED a:9");
    harness_advance_ms(h, 100000);
    remember();
    answers(deduct("g", "o2", "", "a:1"), "CLOSED a:9");
    expect_unchanged();
    /* What was sold is still the first answer. */
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED again a:9");
}

TEST(the_gravest_refusal_is_told_with_its_lines)
{
    put_window("later", 100000, 0);
    put_window("over", 0, 1);
    harness_advance_ms(h, 1);
    put_limited("g", "few", 10, 2);
    put_item("g", "none", 0);
    put_item("g", "ok", 5);

#define ALL "ok:1 none:1 few:3 over:1 later:1"
    answers(deduct("g", "o", "bob", ALL " x:1 y:1"), "UNKNOWN_SKU x:0 y:0");
    answers(deduct("g", "o", "bob", ALL), "NOT_OPEN later:10");
    answers(deduct("g", "o", "bob", "ok:1 none:1 few:3 over:1"), "CLOSED over:10");
    answers(deduct("g", "o", "bob", "ok:1 none:1 few:3"), "BUYER_LIMIT few:10");
    answers(deduct("g", "o", "bob", "ok:6 none:1 few:2"), "SOLD_OUT ok:5 none:0");
    answers(deduct("g", "o", "bob", "ok:5 few:2"), "DEDUCTED ok:0 few:8");
#undef ALL
}

TEST(a_buyer_gets_no_more_than_the_limit)
{
    put_limited("g", "a", 100, 3);
    answers(deduct("g", "o1", "bob", "a:2"), "DEDUCTED a:98");
    answers(deduct("g", "o2", "bob", "a:2"), "BUYER_LIMIT a:98");
    answers(deduct("g", "o1", "bob", "a:2"), "DEDUCTED again a:98");
    answers(deduct("g", "o2", "bob", "a:1"), "DEDUCTED a:97");
    answers(deduct("g", "o3", "bob", "a:1"), "BUYER_LIMIT a:97");
    answers(deduct("g", "o3", "eve", "a:3"), "DEDUCTED a:94");
    remember();
    assert_null(deduct("g", "o4", "", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    expect_unchanged();
    /* Another limit leaves the counts; none ends them. */
    put_limited("g", "a", 100, 4);
    answers(deduct("g", "o5", "bob", "a:1"), "DEDUCTED a:93");
    answers(deduct("g", "o6", "bob", "a:1"), "BUYER_LIMIT a:93");
    put_limited("g", "a", 100, 0);
    answers(deduct("g", "o6", "bob", "a:9"), "DEDUCTED a:84");
    put_limited("g", "a", 100, 1);
    answers(deduct("g", "o7", "bob", "a:1"), "DEDUCTED a:83");
    answers(deduct("g", "o8", "bob", "a:1"), "BUYER_LIMIT a:83");
}

TEST(orders_are_remembered_as_long_as_the_longest_of_their_items)
{
    lks_put_item_request request = put_request("g", "a", 10);

    request.order_retain_ms = 60000;
    put(&request);
    put_item("g", "b", 10); /* 30 days */
    deduct("g", "o1", "", "a:1");
    deduct("g", "o2", "", "b:1 a:1");
    deduct("g", "o3", "", "a:1 b:1");
    int64_t short_ms = atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o1"));
    int64_t long_ms = atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o2"));
    assert_in_range(short_ms, 1, 60000);
    assert_in_range(long_ms, 30LL * 86400000 - 60000, 30LL * 86400000);
    long_ms = atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o3"));
    assert_in_range(long_ms, 30LL * 86400000 - 60000, 30LL * 86400000);
    /* When it is over, the order is unknown and its id is free. */
    harness_redis(h, "PEXPIRE ls:{default/g}:stock:o:o1 0");
    assert_null(get_order("g", "o1"));
    expect_error(LKS_NOT_FOUND, "order_id");
}

TEST(quantities_are_exact_up_to_the_largest)
{
    put_item("g", "a", INT64_C(9007199254740991));
    assert_int_equal(read_ledger("g", "", 0)->entries[0]->quantity, INT64_C(9007199254740991));
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED a:9007199254740990");
    answers(deduct("g", "o2", "", "a:9007199254740989"), "DEDUCTED a:1");
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED again a:9007199254740990");
    expect_item("g", "a", 1, INT64_C(9007199254740990));
    assert_int_equal(get_order("g", "o2")->lines[0]->quantity, INT64_C(9007199254740989));
    put_limited("g", "b", INT64_C(9007199254740991), INT64_C(9007199254740991));
    answers(deduct("g", "o3", "bob", "b:9007199254740990"), "DEDUCTED b:1");
    answers(deduct("g", "o4", "bob", "b:2"), "BUYER_LIMIT b:1");
}

TEST(sixty_four_lines)
{
    char lines[64 * 8] = "";
    char first[64 * 8] = "DEDUCTED", again[64 * 8] = "DEDUCTED again";

    for (int i = 0; i < 64; i++) {
        char sku[8];
        snprintf(sku, sizeof sku, "s%d", i);
        put_item("g", sku, 3);
        add(lines, sizeof lines, "%ss%d:1", i > 0 ? " " : "", i);
        add(first, sizeof first, " s%d:2", i);
        add(again, sizeof again, " s%d:2", i);
    }
    answers(deduct("g", "o1", "", lines), first);
    answers(deduct("g", "o1", "", lines), again);
    change_item("s63", ITEM_AVAILABLE, 0);
    remember();
    answers(deduct("g", "o2", "", lines), "SOLD_OUT s63:0");
    expect_unchanged();
}

/* Calls that the store sends as one see each other's effects, in order. */
TEST(calls_may_travel_together)
{
    lks_line line = message(line, .sku = "a", .quantity = 4);
    lks_line *lines[] = {&line};
    lks_deduct_request request[4];
    const void *requests[4], *responses[4];
    lks_error errors[4];
    char *ids[] = {"o1", "o1", "o1", "o2"};

    put_item("g", "a", 5);
    for (size_t i = 0; i < 4; i++) {
        request[i] = message(deduct_request, .group = "g", .order_id = ids[i], .n_lines = 1, .lines = lines);
        requests[i] = &request[i];
    }
    request[1].buyer_id = "eve";
    ask_together(4, requests, responses, errors);
    answers(responses[0], "DEDUCTED a:1");
    assert_null(responses[1]);
    err = errors[1];
    expect_error(LKS_ALREADY_EXISTS, "order_id");
    answers(responses[2], "DEDUCTED again a:1");
    answers(responses[3], "SOLD_OUT a:1");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

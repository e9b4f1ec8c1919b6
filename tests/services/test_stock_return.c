/* Return: what was sold comes back, whole or in parts, once a return_id. */
#include "stock_script.h"

/* Order "o1" of bob: two of a, one of b. */
static void sold(void)
{
    put_limited("g", "a", 10, 3);
    put_item("g", "b", 5);
    deduct("g", "o1", "bob", "a:2 b:1");
}

TEST(all_that_is_left_comes_back)
{
    sold();
    int64_t version = get_item("g", "a")->version;
    answers(take_back("g", "r1", "o1", ""), "RETURNED RETURNED bob a:2:2 b:1:1");
    expect_stock("g", "a", 10, 0, 0);
    expect_stock("g", "b", 5, 0, 0);
    assert_true(get_item("g", "a")->version > version);
    expect_order("g", "o1", "RETURNED bob a:2:2 b:1:1");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nDEDUCTED a 2 o1\nDEDUCTED b 1 o1\nRETURNED a 2 r1\nRETURNED b 1 r1\n");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:b:a"), "0");
    answers(deduct("g", "o2", "bob", "a:3"), "DEDUCTED a:7");
    /* The order is as it was first answered. */
    answers(deduct("g", "o1", "bob", "a:2 b:1"), "DEDUCTED again a:8 b:4");
}

TEST(stock_comes_back_in_parts)
{
    sold();
    harness_redis(h, "PEXPIRE ls:{default/g}:stock:o:o1 1000000");
    answers(take_back("g", "r1", "o1", "a:1"), "RETURNED CONFIRMED bob a:2:1 b:1:0");
    expect_stock("g", "a", 9, 0, 1);
    /* It is remembered from its last change on. */
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:o1")), 30LL * 86400000 - 60000,
                    30LL * 86400000);
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:t:r1")), 30LL * 86400000 - 60000,
                    30LL * 86400000);
    answers(deduct("g", "o2", "bob", "a:3"), "BUYER_LIMIT a:9");
    answers(deduct("g", "o2", "bob", "a:2"), "DEDUCTED a:7");
    answers(take_back("g", "r2", "o1", "b:1"), "RETURNED CONFIRMED bob a:2:1 b:1:1");
    answers(take_back("g", "r3", "o1", ""), "RETURNED RETURNED bob a:2:2 b:1:1");
    expect_stock("g", "a", 8, 0, 2);
    expect_stock("g", "b", 5, 0, 0);
}

TEST(a_return_is_made_once)
{
    static const char *const others[] = {"a:2", "b:1", "a:1 b:1", ""};

    sold();
    deduct("g", "o2", "", "b:2");
    take_back("g", "r1", "o1", "a:1");
    take_back("g", "r2", "o1", "");
    take_back("g", "r3", "o2", "b:1");
    remember();
    answers(take_back("g", "r1", "o1", "a:1"), "RETURNED again CONFIRMED bob a:2:1 b:1:0");
    answers(take_back("g", "r2", "o1", ""), "RETURNED again RETURNED bob a:2:2 b:1:1");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(take_back("g", "r1", "o1", others[i]));
        expect_error(LKS_ALREADY_EXISTS, "return_id");
    }
    assert_null(take_back("g", "r3", "o1", "b:1"));
    expect_error(LKS_ALREADY_EXISTS, "return_id");
    expect_unchanged();
    /* The lines in another sequence are the same ones. */
    deduct("g", "o3", "eve", "a:2 b:1");
    take_back("g", "r4", "o3", "a:1 b:1");
    answers(take_back("g", "r4", "o3", "b:1 a:1"), "RETURNED again CONFIRMED eve a:2:1 b:1:1");
}

TEST(no_more_comes_back_than_was_sold)
{
    sold();
    put_item("g", "c", 5);
    remember();
    answers(take_back("g", "r1", "o1", "a:3"), "TOO_MANY CONFIRMED bob a:2:0 b:1:0");
    answers(take_back("g", "r1", "o1", "a:1 b:2"), "TOO_MANY CONFIRMED bob a:2:0 b:1:0");
    answers(take_back("g", "r1", "o1", "a:1 c:1"), "TOO_MANY CONFIRMED bob a:2:0 b:1:0");
    answers(take_back("g", "r1", "nowhere", ""), "UNKNOWN_ORDER none");
    expect_unchanged();
    /* A refusal leaves no record. */
    answers(take_back("g", "r1", "o1", "a:2"), "RETURNED CONFIRMED bob a:2:2 b:1:0");
    remember();
    answers(take_back("g", "r2", "o1", "a:1"), "TOO_MANY CONFIRMED bob a:2:2 b:1:0");
    expect_unchanged();
    take_back("g", "r2", "o1", "");
    remember();
    answers(take_back("g", "r3", "o1", ""), "TOO_MANY RETURNED bob a:2:2 b:1:1");
    expect_unchanged();
}

TEST(what_was_not_sold_does_not_come_back)
{
    sold();
    reserve("g", "o2", "", "b:1", 600000);
    reserve("g", "o3", "", "b:1", 600000);
    reserve("g", "o4", "", "b:1", 100000);
    cancel("g", "o3", "");
    cancel("g", "o5", "");
    harness_advance_ms(h, 100000);
    remember();
    answers(take_back("g", "r1", "o2", ""), "TOO_MANY RESERVED  b:1:0");
    answers(take_back("g", "r1", "o2", "b:1"), "TOO_MANY RESERVED  b:1:0");
    answers(take_back("g", "r1", "o3", ""), "TOO_MANY CANCELLED  b:1:0");
    answers(take_back("g", "r1", "o4", ""), "TOO_MANY EXPIRED  b:1:0");
    answers(take_back("g", "r1", "o5", ""), "TOO_MANY CANCELLED ");
    expect_unchanged();
    confirm("g", "o2", false);
    answers(take_back("g", "r1", "o2", ""), "RETURNED RETURNED  b:1:1");
}

/* The order's own account goes on when its item, or the buyers' counts, are no more. */
TEST(what_comes_back_belongs_to_the_item_it_was_sold_from)
{
    sold();
    delete_item("g", "a");
    answers(take_back("g", "r1", "o1", "a:1"), "RETURNED CONFIRMED bob a:2:1 b:1:0");
    put_limited("g", "a", 10, 3);
    deduct("g", "o2", "bob", "a:3");
    int64_t version = get_item("g", "a")->version;
    answers(take_back("g", "r2", "o1", "a:1 b:1"), "RETURNED RETURNED bob a:2:2 b:1:1");
    expect_stock("g", "a", 7, 0, 3);
    assert_int_equal(get_item("g", "a")->version, version);
    expect_stock("g", "b", 5, 0, 0);
    answers(deduct("g", "o3", "bob", "a:1"), "BUYER_LIMIT a:7");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nDEDUCTED a 2 o1\nDEDUCTED b 1 o1\nDELETED a 8 \nPUT a 10 \n"
                        "DEDUCTED a 3 o2\nRETURNED b 1 r2\n");
    /* Counts that began after the sale do not fall with it. */
    put_limited("g", "a", 10, 0);
    put_limited("g", "a", 10, 3);
    deduct("g", "o4", "bob", "a:2");
    take_back("g", "r3", "o2", "a:3");
    expect_stock("g", "a", 8, 0, 2);
    answers(deduct("g", "o5", "bob", "a:2"), "BUYER_LIMIT a:8");
}

TEST(one_line_names_its_group)
{
    put_item("", "a", 10);
    deduct("", "o1", "", "a:2");
    const lks_return_response *response = take_back("", "r1", "o1", "a:1");
    answers(response, "RETURNED CONFIRMED  a:2:1");
    assert_string_equal(response->order->group, "a");
    assert_string_equal(response->order->order_id, "o1");
    assert_null(take_back("", "r2", "o1", ""));
    expect_error(LKS_INVALID_ARGUMENT, "group");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

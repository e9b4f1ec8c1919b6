/* Reserve: held for a while, all lines or none, once an order. */
#include "stock_script.h"

static void holds_and_tells_what_is_left(void **state)
{
    (void)state;
    put_item("g", "a", 10);
    put_item("g", "b", 5);
    const lks_reserve_response *response = reserve("g", "o1", "bob", "a:2 b:5", 60000);
    expect_reserve(response, LKS_RESERVE_OUTCOME_RESERVED, false, "a:8 b:0");
    assert_int_equal(response->hold_ms, 60000);
    assert_int_equal(chore_ms(), 60000);
    expect_stock("g", "a", 8, 2, 0);
    expect_stock("g", "b", 0, 5, 0);
    expect_order("g", "o1", "RESERVED bob a:2:0 b:5:0");
    assert_in_range(get_order("g", "o1")->hold_ms, 1, 60000);
    assert_string_equal(get_order("g", "o1")->group, "g");
    assert_string_equal(get_order("g", "o1")->order_id, "o1");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\nRESERVED b 5 o1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STOCK_TEST(holds_and_tells_what_is_left),
    };
    return cmocka_run_group_tests(tests, start_harness, stop_harness);
}

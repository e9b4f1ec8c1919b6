/* A hold that is over is seen by nobody, and is given back by whoever writes, by a
 * server's chore, or after the search for orphans. */
#include "stock_script.h"

static void it_is_back_the_moment_it_is_over(void **state)
{
    (void)state;
    put_item("g", "a", 10);
    reserve("g", "o1", "bob", "a:4", 60000);
    harness_advance_ms(h, 59000);
    expect_stock("g", "a", 6, 4, 0);
    harness_advance_ms(h, 1000);
    remember();
    expect_stock("g", "a", 10, 0, 0);
    expect_order("g", "o1", "EXPIRED bob a:4:0");
    expect_unchanged();
    expect_reserve(reserve("g", "o2", "", "a:10", 60000), LKS_RESERVE_OUTCOME_RESERVED, false, "a:0");
    expect_stock("g", "a", 0, 10, 0);
    expect_order("g", "o1", "EXPIRED bob a:4:0");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nRESERVED a 4 o1\nEXPIRED a 4 o1\nRESERVED a 10 o2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STOCK_TEST(it_is_back_the_moment_it_is_over),
    };
    return cmocka_run_group_tests(tests, start_harness, stop_harness);
}

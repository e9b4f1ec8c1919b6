/* Confirm, ExtendHold and Cancel: what becomes of an order that holds stock. */
#include "stock_script.h"

static void held(const char *order_id, int64_t hold_ms)
{
    answers(reserve("g", order_id, "bob", "a:2 b:1", hold_ms), "RESERVED a:8 b:4");
}

static void two_items(void)
{
    put_limited("g", "a", 10, 3);
    put_item("g", "b", 5);
}

static int64_t ttl(const char *key)
{
    return atoll(harness_redis(h, "PTTL ls:{default/g}:stock:%s", key));
}

/* ---- Confirm ---- */

TEST(confirm_sells_what_is_held)
{
    two_items();
    held("o1", 60000);
    int64_t version = get_item("g", "a")->version;
    assert_int_equal(ttl("o:o1"), -1);
    answers(confirm("g", "o1", false), "CONFIRMED CONFIRMED bob a:2:0 b:1:0");
    expect_stock("g", "a", 8, 0, 2);
    expect_stock("g", "b", 4, 0, 1);
    assert_true(get_item("g", "a")->version > version);
    expect_order("g", "o1", "CONFIRMED bob a:2:0 b:1:0");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:x"), "0");
    assert_in_range(ttl("o:o1"), 30LL * 86400000 - 60000, 30LL * 86400000);
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\nRESERVED b 1 o1\nCONFIRMED a 2 o1\nCONFIRMED b 1 o1\n");
    /* It stays sold when the hold would have ended. */
    harness_advance_ms(h, 60000);
    expect_stock("g", "a", 8, 0, 2);
    assert_int_equal(ring_lasting_alarm("g"), -1);
    expect_stock("g", "a", 8, 0, 2);
    /* And counts for its buyer. */
    answers(deduct("g", "o2", "bob", "a:2"), "BUYER_LIMIT a:8");
}

TEST(confirm_again_is_the_first_answer)
{
    two_items();
    held("o1", 60000);
    confirm("g", "o1", false);
    remember();
    answers(confirm("g", "o1", false), "CONFIRMED again CONFIRMED bob a:2:0 b:1:0");
    answers(confirm("g", "o1", true), "CONFIRMED again CONFIRMED bob a:2:0 b:1:0");
    expect_unchanged();
    /* Also when something came back meanwhile, or all of it. */
    take_back("g", "r1", "o1", "a:1");
    answers(confirm("g", "o1", false), "CONFIRMED again CONFIRMED bob a:2:0 b:1:0");
    take_back("g", "r2", "o1", "");
    answers(confirm("g", "o1", false), "CONFIRMED again CONFIRMED bob a:2:0 b:1:0");
    /* What was sold at once is confirmed. */
    deduct("g", "o2", "eve", "b:1");
    answers(confirm("g", "o2", false), "CONFIRMED again CONFIRMED eve b:1:0");
}

TEST(confirm_refuses_what_is_not_held)
{
    two_items();
    remember();
    answers(confirm("g", "o1", true), "UNKNOWN_ORDER none");
    expect_unchanged();
    held("o1", 60000);
    cancel("g", "o1", "");
    held("o2", 100000);
    cancel("g", "o3", "");
    harness_advance_ms(h, 100000);
    remember();
    answers(confirm("g", "o1", true), "CANCELLED CANCELLED bob a:2:0 b:1:0");
    answers(confirm("g", "o2", false), "EXPIRED EXPIRED bob a:2:0 b:1:0");
    answers(confirm("g", "o3", true), "CANCELLED CANCELLED ");
    expect_unchanged();
    ring_lasting_alarm("g");
    answers(confirm("g", "o2", false), "EXPIRED EXPIRED bob a:2:0 b:1:0");
}

/* The sale was made when it was reserved. */
TEST(confirm_needs_no_open_window)
{
    lks_put_item_request request = put_request("g", "a", 10);

    request.closes_in_ms = 100000;
    put(&request);
    reserve("g", "o1", "", "a:1", 600000);
    reserve("g", "o2", "", "a:1", 150000);
    harness_advance_ms(h, 200000);
    answers(confirm("g", "o1", false), "CONFIRMED CONFIRMED  a:1:0");
    answers(confirm("g", "o2", true), "CONFIRMED CONFIRMED  a:1:0");
    expect_stock("g", "a", 8, 0, 2);
}

TEST(an_expired_order_takes_its_stock_again)
{
    for (int given_back = 0; given_back < 2; given_back++) {
        script_reset(state);
        two_items();
        held("o1", 100000);
        harness_advance_ms(h, 100000);
        if (given_back)
            ring_lasting_alarm("g");
        answers(confirm("g", "o1", true), "CONFIRMED CONFIRMED bob a:2:0 b:1:0");
        expect_stock("g", "a", 8, 0, 2);
        expect_stock("g", "b", 4, 0, 1);
        assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                            "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\nRESERVED b 1 o1\nEXPIRED a 2 o1\nEXPIRED b 1 o1\n"
                            "DEDUCTED a 2 o1\nDEDUCTED b 1 o1\n");
        assert_in_range(ttl("o:o1"), 30LL * 86400000 - 60000, 30LL * 86400000);
        answers(confirm("g", "o1", false), "CONFIRMED again CONFIRMED bob a:2:0 b:1:0");
        answers(reserve("g", "o1", "bob", "a:2 b:1", 100000), "RESERVED again a:8 b:4");
        /* It counts for its buyer again, and comes back like any other. */
        answers(deduct("g", "o2", "bob", "a:2"), "BUYER_LIMIT a:8");
        take_back("g", "r1", "o1", "");
        answers(deduct("g", "o2", "bob", "a:3"), "DEDUCTED a:7");
    }
}

TEST(an_expired_order_whose_stock_is_gone)
{
    two_items();
    held("o1", 100000);
    harness_advance_ms(h, 100000);
    deduct("g", "o2", "eve", "b:5");
    remember();
    answers(confirm("g", "o1", true), "SOLD_OUT EXPIRED bob a:2:0 b:1:0");
    expect_unchanged();
    /* A refusal may change. */
    adjust("g", "b", 1, "more");
    /* But the buyer bought in the meantime. */
    deduct("g", "o3", "bob", "a:2");
    remember();
    answers(confirm("g", "o1", true), "EXPIRED EXPIRED bob a:2:0 b:1:0");
    expect_unchanged();
    take_back("g", "r3", "o3", "");
    answers(confirm("g", "o1", true), "CONFIRMED CONFIRMED bob a:2:0 b:1:0");
    /* Without the item, and with one that has come in its place. */
    reserve("g", "o4", "", "b:1", 100000);
    put_item("g", "c", 5);
    reserve("g", "o5", "", "c:5", 100000);
    harness_advance_ms(h, 100000);
    assert_true(delete_item("g", "c"));
    answers(confirm("g", "o5", true), "SOLD_OUT EXPIRED  c:5:0");
    put_item("g", "c", 5);
    answers(confirm("g", "o5", true), "CONFIRMED CONFIRMED  c:5:0");
    expect_stock("g", "c", 0, 0, 5);
    take_back("g", "r5", "o5", "c:2");
    expect_stock("g", "c", 2, 0, 3);
    /* A limit that came later, and nobody to count for. */
    put_item("g", "d", 5);
    reserve("g", "o6", "", "d:1", 100000);
    put_limited("g", "d", 5, 5);
    harness_advance_ms(h, 100000);
    answers(confirm("g", "o6", true), "EXPIRED EXPIRED  d:1:0");
}

/* ---- ExtendHold ---- */

static void expect_extended(const lks_extend_hold_response *response, lks_extend_hold_outcome outcome, int64_t hold_ms)
{
    if (!response)
        fail_msg("ExtendHold: %s", err.message);
    assert_int_equal(response->outcome, outcome);
    assert_int_equal(response->hold_ms, hold_ms);
    assert_int_equal(lasting_alarm_ms(), outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED ? hold_ms : -1);
}

TEST(a_hold_is_as_long_as_it_was_last_made)
{
    two_items();
    held("o1", 600000);
    harness_advance_ms(h, 590000);
    expect_extended(extend_hold("g", "o1", 600000), LKS_EXTEND_HOLD_OUTCOME_EXTENDED, 600000);
    harness_advance_ms(h, 590000);
    expect_stock("g", "a", 8, 2, 0);
    ring_lasting_alarm("g");
    expect_stock("g", "a", 8, 2, 0);
    /* Shorter, too. */
    expect_extended(extend_hold("g", "o1", 50000), LKS_EXTEND_HOLD_OUTCOME_EXTENDED, 50000);
    assert_in_range(get_order("g", "o1")->hold_ms, 1, 50000);
    harness_advance_ms(h, 50000);
    expect_stock("g", "a", 10, 0, 0);
    assert_int_equal(get_order("g", "o1")->hold_ms, 0);
}

TEST(only_what_is_held_is_extended)
{
    two_items();
    expect_extended(extend_hold("g", "o1", 100000), LKS_EXTEND_HOLD_OUTCOME_UNKNOWN_ORDER, 0);
    held("o1", 100000);
    confirm("g", "o1", false);
    expect_extended(extend_hold("g", "o1", 100000), LKS_EXTEND_HOLD_OUTCOME_CONFIRMED, 0);
    take_back("g", "r1", "o1", "");
    expect_extended(extend_hold("g", "o1", 100000), LKS_EXTEND_HOLD_OUTCOME_CONFIRMED, 0);
    held("o2", 100000);
    cancel("g", "o2", "");
    expect_extended(extend_hold("g", "o2", 100000), LKS_EXTEND_HOLD_OUTCOME_CANCELLED, 0);
    held("o3", 100000);
    harness_advance_ms(h, 100000);
    remember();
    expect_extended(extend_hold("g", "o3", 100000), LKS_EXTEND_HOLD_OUTCOME_EXPIRED, 0);
    expect_unchanged();
    ring_lasting_alarm("g");
    expect_extended(extend_hold("g", "o3", 100000), LKS_EXTEND_HOLD_OUTCOME_EXPIRED, 0);
    cancel("g", "o4", "");
    expect_extended(extend_hold("g", "o4", 100000), LKS_EXTEND_HOLD_OUTCOME_CANCELLED, 0);
}

/* ---- Cancel ---- */

TEST(cancel_gives_back)
{
    two_items();
    held("o1", 60000);
    int64_t version = get_item("g", "b")->version;
    answers(cancel("g", "o1", "no card"), "CANCELLED CANCELLED bob a:2:0 b:1:0");
    expect_stock("g", "a", 10, 0, 0);
    expect_stock("g", "b", 5, 0, 0);
    assert_true(get_item("g", "b")->version > version);
    expect_order("g", "o1", "CANCELLED bob a:2:0 b:1:0");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:x ls:{default/g}:stock:b:a"), "0");
    assert_in_range(ttl("o:o1"), 30LL * 86400000 - 60000, 30LL * 86400000);
    const lks_read_ledger_response *ledger = read_ledger("g", "", 0);
    assert_string_equal(ledger_text(ledger), "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\nRESERVED b 1 o1\n"
                                             "CANCELLED a 2 o1\nCANCELLED b 1 o1\n");
    assert_string_equal(ledger->entries[5]->reason, "no card");
    /* Its buyer may buy again. */
    answers(deduct("g", "o2", "bob", "a:3"), "DEDUCTED a:7");
    remember();
    answers(cancel("g", "o1", ""), "CANCELLED again CANCELLED bob a:2:0 b:1:0");
    answers(reserve("g", "o1", "bob", "a:2 b:1", 60000), "RESERVED again a:8 b:4");
    expect_unchanged();
    harness_advance_ms(h, 60000);
    expect_stock("g", "b", 5, 0, 0);
}

TEST(what_is_sold_is_not_cancelled)
{
    two_items();
    held("o1", 60000);
    confirm("g", "o1", false);
    deduct("g", "o2", "", "b:1");
    remember();
    answers(cancel("g", "o1", ""), "ALREADY_CONFIRMED CONFIRMED bob a:2:0 b:1:0");
    answers(cancel("g", "o2", ""), "ALREADY_CONFIRMED CONFIRMED  b:1:0");
    expect_unchanged();
    take_back("g", "r1", "o1", "");
    answers(cancel("g", "o1", ""), "ALREADY_CONFIRMED RETURNED bob a:2:2 b:1:1");
}

/* So that it is not taken again. */
TEST(an_expired_order_can_be_cancelled)
{
    for (int given_back = 0; given_back < 2; given_back++) {
        script_reset(state);
        two_items();
        held("o1", 100000);
        harness_advance_ms(h, 100000);
        if (given_back)
            ring_lasting_alarm("g");
        answers(cancel("g", "o1", "late"), "CANCELLED CANCELLED bob a:2:0 b:1:0");
        answers(cancel("g", "o1", "late"), "CANCELLED again CANCELLED bob a:2:0 b:1:0");
        expect_stock("g", "a", 10, 0, 0);
        answers(confirm("g", "o1", true), "CANCELLED CANCELLED bob a:2:0 b:1:0");
        assert_string_equal(ledger_text(read_ledger("g", "", 0)), "PUT a 10 \nPUT b 5 \nRESERVED a 2 o1\n"
                                                                  "RESERVED b 1 o1\nEXPIRED a 2 o1\nEXPIRED b 1 o1\n");
        assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:x"), "0");
        assert_in_range(ttl("o:o1"), 30LL * 86400000 - 60000, 30LL * 86400000);
    }
}

TEST(a_cancelled_order_that_comes_late_is_refused)
{
    two_items();
    answers(cancel("g", "o1", "gave up"), "UNKNOWN_ORDER none");
    assert_in_range(ttl("o:o1"), 30LL * 86400000 - 60000, 30LL * 86400000);
    remember();
    answers(cancel("g", "o1", "gave up"), "UNKNOWN_ORDER again none");
    const lks_reserve_response *late = reserve("g", "o1", "bob", "a:1", 100000);
    answers(late, "CANCELLED");
    assert_int_equal(late->hold_ms, 0);
    assert_int_equal(lasting_alarm_ms(), -1);
    assert_null(deduct("g", "o1", "bob", "a:1"));
    expect_error(LKS_FAILED_PRECONDITION, "order_id");
    expect_order("g", "o1", "CANCELLED ");
    expect_unchanged();
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

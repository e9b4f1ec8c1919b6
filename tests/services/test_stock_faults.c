/* What the store can hold or do that it should not: foreign data under our keys
 * changes nothing, an error after a write is told as MAYBE, and without memory stock
 * still comes back. */
#include "functions/library.h"
#include "stock_script.h"

static void call_put(void)
{
    lks_put_item_request request = put_request("g", "a", 20);

    assert_null(put(&request));
}

static void call_put_new(void)
{
    lks_put_item_request request = put_request("g", "new", 20);

    assert_null(put(&request));
}

static void call_get(void)
{
    assert_null(get_item("g", "a"));
}

static void call_list(void)
{
    lks_list_items_request request = message(list_items_request, .group = "g");

    assert_null(answer_to(&request));
}

static void call_adjust(void)
{
    assert_null(adjust("g", "a", 1, "adj"));
}

static void call_deduct(void)
{
    assert_null(deduct("g", "o", "bob", "b:1 a:1"));
}

static void call_get_order(void)
{
    assert_null(get_order("g", "o"));
}

static void call_read(void)
{
    assert_null(read_ledger("g", "", 0));
}

static void call_trim(void)
{
    assert_false(trim_ledger("g", "9007199254740991-0"));
}

static void call_delete(void)
{
    assert_false(delete_item("g", "a"));
}

static void call_reserve(void)
{
    assert_null(reserve("g", "o", "bob", "b:1 a:1", 1000));
}

static void call_confirm(void)
{
    assert_null(confirm("g", "held", false));
}

static void call_extend(void)
{
    assert_null(extend_hold("g", "held", 1000));
}

static void call_cancel(void)
{
    assert_null(cancel("g", "held", ""));
}

static void call_cancel_unseen(void)
{
    assert_null(cancel("g", "o", ""));
}

static void call_return(void)
{
    assert_null(take_back("g", "r", "sold", ""));
}

static void call_get_held(void)
{
    assert_null(get_order("g", "held"));
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const struct foreign {
    const char *command; /* puts foreign data under key */
    const char *key;
    void (*call)(void);
} foreign[] = {
    {"SET %s x", "stock:i:a", call_put},
    {"SET %s x", "stock:i:a", call_get},
    {"SET %s x", "stock:i:a", call_list},
    {"SET %s x", "stock:i:a", call_adjust},
    {"SET %s x", "stock:i:a", call_deduct},
    {"SET %s x", "stock:i:a", call_delete},
    {"HSET %s x y", "stock:i:new", call_put_new},
    {"HSET %s available 1", "stock:i:a", call_put},
    {"APPEND %s x", "stock:i:a", call_put},
    {"APPEND %s x", "stock:i:a", call_deduct},
    {"SETRANGE %s 0 x", "stock:i:a", call_deduct},
    {"SETRANGE %s 0 x", "stock:i:a", call_adjust},
    {"SET %s x", "stock:b:a", call_put},
    {"SET %s x", "stock:b:a", call_deduct},
    {"SET %s x", "stock:b:a", call_delete},
    {"HSET %s bob many", "stock:b:a", call_deduct},
    {"LPUSH %s x", "stock:o:o", call_deduct},
    {"LPUSH %s x", "stock:o:o", call_get_order},
    {"SET %s x", "stock:o:o", call_deduct},
    {"SET %s \x02", "stock:o:o", call_deduct},
    {"SET %s \x02\x01xxxxxxxxxxxxxxxx", "stock:o:o", call_deduct},
    {"SET %s \x02\xff", "stock:o:o", call_deduct},
    {"SET %s x", "stock:o:o", call_get_order},
    {"APPEND %s x", "stock:o:held", call_get_held},
    {"SETRANGE %s 0 x", "stock:o:held", call_get_held},
    {"SETRANGE %s 2 \x09", "stock:o:held", call_get_held},
    {"SETRANGE %s 3 \x09", "stock:o:held", call_get_held},
    {"APPEND %s x", "stock:o:held", call_confirm},
    {"LPUSH %s x", "stock:a:adj", call_adjust},
    {"SET %s x", "stock:a:adj", call_adjust},
    {"SET %s \xc1", "stock:a:adj", call_adjust},
    {"SET %s x", "stock:skus", call_put_new},
    {"SET %s x", "stock:skus", call_list},
    {"SET %s x", "stock:skus", call_trim},
    {"SET %s x", "stock:skus", call_delete},
    {"SET %s x", "stock:ledger", call_put},
    {"SET %s x", "stock:ledger", call_put_new},
    {"SET %s x", "stock:ledger", call_adjust},
    {"SET %s x", "stock:ledger", call_deduct},
    {"SET %s x", "stock:ledger", call_read},
    {"SET %s x", "stock:ledger", call_trim},
    {"SET %s x", "stock:ledger", call_delete},
    {"LPUSH %s x", "stock:v", call_put_new},
    {"SET %s x", "stock:v", call_put_new},
    {"SET %s x", "stock:v", call_delete},
    {"SET %s x", "stock:i:b", call_reserve},
    {"SET %s x", "stock:i:b", call_confirm},
    {"SET %s x", "stock:i:b", call_cancel},
    {"SET %s x", "stock:i:b", call_return},
    {"SETRANGE %s 0 x", "stock:i:b", call_reserve},
    {"SETRANGE %s 0 x", "stock:i:b", call_confirm},
    {"SETRANGE %s 0 x", "stock:i:b", call_cancel},
    {"SETRANGE %s 0 x", "stock:i:b", call_return},
    {"SET %s x", "stock:b:b", call_reserve},
    {"SET %s x", "stock:b:b", call_cancel},
    {"SET %s x", "stock:b:b", call_return},
    {"HSET %s bob many", "stock:b:b", call_reserve},
    {"HSET %s bob many", "stock:b:b", call_cancel},
    {"HSET %s bob many", "stock:b:b", call_return},
    {"LPUSH %s x", "stock:o:o", call_reserve},
    {"LPUSH %s x", "stock:o:o", call_cancel_unseen},
    {"SET %s x", "stock:o:o", call_reserve},
    {"SET %s x", "stock:o:o", call_cancel_unseen},
    {"SET %s x", "stock:o:held", call_confirm},
    {"SET %s x", "stock:o:held", call_extend},
    {"SET %s x", "stock:o:held", call_cancel},
    {"SET %s x", "stock:o:held", call_get_held},
    {"SET %s x", "stock:o:sold", call_return},
    {"LPUSH %s x", "stock:t:r", call_return},
    {"SET %s x", "stock:t:r", call_return},
    {"SET %s \x91\xaa"
     "adjustment",
     "stock:t:r", call_return},
    {"SET %s x", "stock:x", call_put},
    {"SET %s x", "stock:x", call_get},
    {"SET %s x", "stock:x", call_list},
    {"SET %s x", "stock:x", call_adjust},
    {"SET %s x", "stock:x", call_deduct},
    {"SET %s x", "stock:x", call_reserve},
    {"SET %s x", "stock:x", call_confirm},
    {"SET %s x", "stock:x", call_extend},
    {"SET %s x", "stock:x", call_cancel},
    {"SET %s x", "stock:x", call_get_held},
    {"SET %s x", "stock:x", call_delete},
    {"ZADD %s 9e15 other", "stock:x", call_confirm},
    {"ZADD %s 9e15 other", "stock:x", call_extend},
    {"ZADD %s 9e15 other", "stock:x", call_cancel},
    {"ZADD %s 9e15 other", "stock:x", call_get_held},
    {"SET %s x", "stock:ledger", call_reserve},
    {"SET %s x", "stock:ledger", call_confirm},
    {"SET %s x", "stock:ledger", call_cancel},
    {"SET %s x", "stock:ledger", call_return},
};

TEST(foreign_data_changes_nothing)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char key[64];

        script_reset(state);
        put_limited("g", "a", 10, 5);
        put_limited("g", "b", 10, 5);
        reserve("g", "held", "bob", "b:1", 600000);
        deduct("g", "sold", "bob", "b:1 a:1");
        snprintf(key, sizeof key, "ls:{default/g}:%s", foreign[i].key);
        if (!begins(foreign[i].command, "APPEND") && !begins(foreign[i].command, "SETRANGE"))
            harness_redis(h, "DEL %s", key);
        harness_redis(h, foreign[i].command, key);
        remember();
        foreign[i].call();
        if (err.code != LKS_FAILED_PRECONDITION || err.applied != LKS_APPLIED_NO)
            fail_msg("row %zu, %s: %s %s: %s", i, foreign[i].key, lks_code_name(err.code),
                     lks_applied_name(err.applied), err.message);
        expect_unchanged();
    }
}

/* Whoever meets the hold of such an order changes nothing either. */
TEST(a_foreign_order_among_those_that_are_over)
{
    static void (*const calls[])(void) = {call_put, call_get, call_list, call_adjust, call_reserve, call_delete};

    put_item("g", "a", 10);
    put_item("g", "b", 10);
    reserve("g", "o1", "", "a:1", 100000);
    reserve("g", "o2", "", "a:1", 100000);
    harness_advance_ms(h, 100000);
    harness_redis(h, "SET ls:{default/g}:stock:o:o2 x");
    remember();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        calls[i]();
        assert_int_equal(err.code, LKS_FAILED_PRECONDITION);
        assert_int_equal(err.applied, LKS_APPLIED_NO);
        expect_unchanged();
    }
}

static const char *fcall(const char *function, const char *args)
{
    char command[256];

    snprintf(command, sizeof command, "FCALL %s_%s 1 ls:{default/g}: %s", function, functions_digest, args);
    return harness_redis(h, command);
}

/* What takes stock, or leaves a key where there was none, is refused; what gives it back,
 * and what pays for it, is not. */
TEST(stock_comes_back_when_memory_is_short)
{
    const char *refused[5], *over;

    put_limited("g", "a", 10, 10);
    put_item("g", "b", 10);
    reserve("g", "o1", "bob", "a:1", 600000);
    reserve("g", "o2", "bob", "a:1", 600000);
    reserve("g", "o3", "bob", "a:1", 600000);
    reserve("g", "o4", "bob", "a:1", 100000);
    deduct("g", "o5", "bob", "a:3");
    reserve("g", "o6", "bob", "a:1", 100000);
    harness_advance_ms(h, 100000);
    harness_redis(h, "CONFIG SET maxmemory 1");
    refused[0] = fcall("stock_reserve", "5 new bob 1000 a 1");
    refused[1] = fcall("stock_deduct", "5 new bob 0 a 1");
    refused[2] = fcall("stock_put_item", "8 c 1 0 0 0 60000 0 0");
    refused[3] = fcall("stock_adjust", "5 a 1 adj why 0");
    refused[4] = fcall("stock_cancel_unseen", "2 new why");
    over = fcall("stock_expire", "0");
    answers(confirm("g", "o1", false), "CONFIRMED CONFIRMED bob a:1:0");
    answers(cancel("g", "o2", "why"), "CANCELLED CANCELLED bob a:1:0");
    assert_int_equal(extend_hold("g", "o3", 700000)->outcome, LKS_EXTEND_HOLD_OUTCOME_EXTENDED);
    answers(confirm("g", "o4", true), "CONFIRMED CONFIRMED bob a:1:0");
    answers(take_back("g", "r", "o5", "a:2"), "RETURNED CONFIRMED bob a:3:2");
    expect_order("g", "o6", "EXPIRED bob a:1:0");
    assert_true(delete_item("g", "b"));
    expect_stock("g", "a", 6, 1, 3);
    harness_redis(h, "CONFIG SET maxmemory 0");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!begins(refused[i], "OOM "))
            fail_msg("%zu was not refused: %s", i, refused[i]);
    if (!begins(over, "OK\n"))
        fail_msg("%s", over);
    assert_null(get_order("g", "new"));
}

TEST(an_error_after_a_write_is_maybe)
{
    put_item("g", "a", 10);
    harness_alter(h, "write('SET', key, texts[key], 'PX'", "write('NOSUCH', key, texts[key], 'PX'");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
}

/* What is over is given back whole; where that fails in the middle nobody knows. */
TEST(an_error_while_giving_back_is_maybe)
{
    put_item("g", "a", 10);
    reserve("g", "o1", "", "a:1", 100000);
    harness_advance_ms(h, 100000);
    harness_alter(h, "write('ZREM'", "write('NOSUCH'");
    assert_null(reserve("g", "o2", "", "a:1", 100000));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
}

TEST(an_error_before_a_write_is_no)
{
    put_item("g", "a", 10);
    remember();
    harness_alter(h, "redis.call('GET', s.base .. 'stock:i:'", "redis.call('NOSUCH', s.base .. 'stock:i:'");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    expect_unchanged();
}

/* A reply of a shape that finish does not know neither crashes nor passes. */
TEST(a_reply_of_another_shape_is_an_error)
{
    put_item("g", "a", 10);
    harness_alter(h, "if not due then return {'MORE'} end", "if true then return {'OK', 'x'} end");
    assert_null(get_item("g", "a"));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "reply = left", "if true then return {'DEDUCTED'} end");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    harness_alter(h, "reply = left", "if true then return {left, 1} end");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "reply = left", "if true then return {'SOLD_OUT', 1, 1, 0} end");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "reply = left", "if true then return {} end");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_null(reserve("g", "o", "", "a:1", 1000));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "local reply, n = {state, hold_ms, order[BUYER]}, 3",
                  "if true then return {state} end local reply, n");
    deduct("g", "o", "", "a:1");
    assert_null(get_order("g", "o"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    assert_null(confirm("g", "o", false));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_null(take_back("g", "r", "o", ""));
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

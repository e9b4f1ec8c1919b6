/* What the store can hold or do that it should not: foreign data under our keys
 * changes nothing, and an error after a write is told as MAYBE. */
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
    lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;

    request.group = "g";
    assert_null(harness_call(h, &stock_service, "ListItems", &request, &err));
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
    {"HSET %s available 1", "stock:i:a", call_deduct},
    {"HSET %s available many sold 0", "stock:i:a", call_adjust},
    {"SET %s x", "stock:b:a", call_put},
    {"SET %s x", "stock:b:a", call_deduct},
    {"SET %s x", "stock:b:a", call_delete},
    {"HSET %s bob many", "stock:b:a", call_deduct},
    {"LPUSH %s x", "stock:o:o", call_deduct},
    {"LPUSH %s x", "stock:o:o", call_get_order},
    {"SET %s x", "stock:o:o", call_deduct},
    {"SET %s \xc1", "stock:o:o", call_deduct},
    {"SET %s x", "stock:o:o", call_get_order},
    {"SET %s \x91\xaa" "adjustment", "stock:o:o", call_get_order},
    {"LPUSH %s x", "stock:a:adj", call_adjust},
    {"SET %s x", "stock:a:adj", call_adjust},
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
};

static void foreign_data_changes_nothing(void **state)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char key[64];

        empty_harness(state);
        put_limited("g", "a", 10, 5);
        put_item("g", "b", 10);
        snprintf(key, sizeof key, "ls:{default/g}:%s", foreign[i].key);
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

static void an_error_after_a_write_is_maybe(void **state)
{
    (void)state;
    put_item("g", "a", 10);
    harness_alter(h, "write('SET', order_key(base, id)", "write('NOSUCH', order_key(base, id)");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
}

static void an_error_before_a_write_is_no(void **state)
{
    (void)state;
    put_item("g", "a", 10);
    remember();
    harness_alter(h, "redis.call('HMGET'", "redis.call('NOSUCH'");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    expect_unchanged();
}

/* A reply of a shape that finish does not know neither crashes nor passes. */
static void a_reply_of_another_shape_is_an_error(void **state)
{
    (void)state;
    put_item("g", "a", 10);
    harness_alter(h, "if not due then return {'MORE'} end", "if true then return {'OK', 'x'} end");
    assert_null(get_item("g", "a"));
    assert_int_equal(err.code, LKS_INTERNAL);
    harness_alter(h, "local reply = {way.outcome, '0', args[3]}", "if true then return {'DEDUCTED'} end local reply");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    harness_alter(h, "local reply = {way.outcome, '0', args[3]}", "if true then return {} end local reply");
    assert_null(deduct("g", "o", "", "a:1"));
    assert_int_equal(err.code, LKS_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STOCK_TEST(foreign_data_changes_nothing),
        STOCK_TEST(an_error_after_a_write_is_maybe),
        STOCK_TEST(an_error_before_a_write_is_no),
        STOCK_TEST(a_reply_of_another_shape_is_an_error),
    };
    return cmocka_run_group_tests(tests, start_harness, stop_harness);
}

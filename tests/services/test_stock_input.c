/* Bad input: INVALID_ARGUMENT, the field's name first, nothing changed. */
#include "stock_script.h"

static char name_128[129], name_129[130], text_257[258];
static const char *batch_65[65];

#define MAX INT64_C(9007199254740991)

/* An item that every good request would change, and the keys as they are. */
static int with_an_item(void **state)
{
    script_reset(state);
    put_item("g", "a", 10);
    remember();
    return 0;
}

TEST(put_item_names_what_is_wrong)
{
    const lks_put_item_request good = put_request("g", "a", 20);
    lks_put_item_request r;

    REFUSES(r, good, sku, "", "sku");
    REFUSES(r, good, sku, name_129, "sku");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, on_hand, -1, "on_hand");
    REFUSES(r, good, on_hand, MAX + 1, "on_hand");
    REFUSES(r, good, on_hand, INT64_MIN, "on_hand");
    REFUSES(r, good, per_buyer_limit, -1, "per_buyer_limit");
    REFUSES(r, good, per_buyer_limit, INT64_MAX, "per_buyer_limit");
    REFUSES(r, good, opens_in_ms, -1, "opens_in_ms");
    REFUSES(r, good, opens_in_ms, INT64_MAX, "opens_in_ms");
    REFUSES(r, good, closes_in_ms, -1, "closes_in_ms");
    REFUSES(r, good, closes_in_ms, INT64_MAX, "closes_in_ms");
    REFUSES(r, good, order_retain_ms, 59999, "order_retain_ms");
    REFUSES(r, good, order_retain_ms, -1, "order_retain_ms");
    REFUSES(r, good, order_retain_ms, INT64_MAX, "order_retain_ms");
    REFUSES(r, good, expected_version, -1, "expected_version");
    REFUSES(r, good, expected_version, MAX + 1, "expected_version");
    r = good;
    r.opens_in_ms = r.closes_in_ms = 1000;
    refuses(&r, "closes_in_ms");
    /* The ends of what is good. */
    r = put_request(name_128, name_128, MAX);
    r.per_buyer_limit = MAX;
    r.opens_in_ms = INT64_C(36500) * 86400000 - 1;
    r.closes_in_ms = INT64_C(36500) * 86400000;
    r.order_retain_ms = 60000;
    const lks_item *item = put(&r);
    assert_int_equal(item->available, MAX);
    assert_int_equal(item->per_buyer_limit, MAX);
    assert_int_equal(item->opens_in_ms, r.opens_in_ms);
    assert_int_equal(item->closes_in_ms, r.closes_in_ms);
    r.order_retain_ms = INT64_C(36500) * 86400000;
    assert_non_null(put(&r));
}

TEST(get_item_names_what_is_wrong)
{
    lks_get_item_request good = LKS_GET_ITEM_REQUEST_INIT, r;

    good.sku = "a";
    REFUSES(r, good, sku, "", "sku");
    REFUSES(r, good, sku, name_129, "sku");
    REFUSES(r, good, group, name_129, "group");
}

TEST(batch_get_items_names_what_is_wrong)
{
    lks_batch_get_items_request good = LKS_BATCH_GET_ITEMS_REQUEST_INIT, r;
    const char *twice[] = {"a", "b", "a"}, *empty[] = {"a", ""}, *long_one[] = {name_129};

    refuses(&good, "skus");
    good.skus = batch_65;
    good.n_skus = 65;
    refuses(&good, "skus");
    good.n_skus = 64;
    assert_non_null(answer_to(&good));
    REFUSES(r, good, group, name_129, "group");
    good.skus = twice;
    good.n_skus = 3;
    refuses(&good, "skus[2]");
    good.skus = empty;
    good.n_skus = 2;
    refuses(&good, "skus[1]");
    good.skus = long_one;
    good.n_skus = 1;
    refuses(&good, "skus[0]");
}

TEST(list_items_names_what_is_wrong)
{
    lks_list_items_request good = LKS_LIST_ITEMS_REQUEST_INIT, r;

    REFUSES(r, good, page_size, -1, "page_size");
    REFUSES(r, good, page_size, 1001, "page_size");
    REFUSES(r, good, prefix, name_129, "prefix");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, page_token, "garbage", "page_token");
    good.group = "g";
    REFUSES(r, good, page_size, 1001, "page_size");
    REFUSES(r, good, prefix, name_129, "prefix");
    REFUSES(r, good, page_token, "garbage", "page_token");
}

TEST(adjust_names_what_is_wrong)
{
    lks_adjust_request good = LKS_ADJUST_REQUEST_INIT, r;

    good.group = "g";
    good.sku = "a";
    good.delta = 1;
    good.adjustment_id = "adj";
    REFUSES(r, good, sku, "", "sku");
    REFUSES(r, good, sku, name_129, "sku");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, delta, 0, "delta");
    REFUSES(r, good, delta, MAX + 1, "delta");
    REFUSES(r, good, delta, -MAX - 1, "delta");
    REFUSES(r, good, delta, INT64_MIN, "delta");
    REFUSES(r, good, adjustment_id, "", "adjustment_id");
    REFUSES(r, good, adjustment_id, name_129, "adjustment_id");
    REFUSES(r, good, reason, text_257, "reason");
    REFUSES(r, good, expected_version, -1, "expected_version");
    good.reason = text_257 + 1;
    good.adjustment_id = name_128;
    assert_non_null(answer_to(&good));
}

static void invalid_lines(const char *lines, const char *field)
{
    assert_null(deduct("g", "o", "bob", lines));
    expect_error(LKS_INVALID_ARGUMENT, field);
    expect_unchanged();
}

TEST(deduct_names_what_is_wrong)
{
    char lines[65 * 8] = "";

    assert_null(deduct("g", "", "bob", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "order_id");
    assert_null(deduct("g", name_129, "bob", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "order_id");
    assert_null(deduct("g", "o", name_129, "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    assert_null(deduct(name_129, "o", "bob", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "group");
    assert_null(deduct("", "o", "bob", "a:1 b:1"));
    expect_error(LKS_INVALID_ARGUMENT, "group");
    invalid_lines("", "lines");
    for (int i = 0; i < 65; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "s%d:1 ", i);
    invalid_lines(lines, "lines");
    invalid_lines(":1", "lines[0].sku");
    invalid_lines("a:1 :1", "lines[1].sku");
    invalid_lines("a:0", "lines[0].quantity");
    invalid_lines("a:1 b:-1", "lines[1].quantity");
    invalid_lines("a:9007199254740992", "lines[0].quantity");
    invalid_lines("a:9223372036854775807 b:1", "lines[0].quantity");
    invalid_lines("a:9007199254740991 b:1", "lines[1].quantity");
    invalid_lines("a:1 b:1 a:1", "lines[2].sku");
    snprintf(lines, sizeof lines, "%s:1", name_129);
    invalid_lines(lines, "lines[0].sku");
    assert_non_null(deduct("g", name_128, name_128, "a:1"));
}

TEST(reserve_names_what_is_wrong)
{
    static const struct {
        const char *group, *order_id, *buyer_id, *lines;
        int64_t hold_ms;
        const char *field;
    } rows[] = {
        {"g", "", "bob", "a:1", 1000, "order_id"},
        {"g", name_129, "bob", "a:1", 1000, "order_id"},
        {"g", "o", name_129, "a:1", 1000, "buyer_id"},
        {name_129, "o", "bob", "a:1", 1000, "group"},
        {"", "o", "bob", "a:1 b:1", 1000, "group"},
        {"g", "o", "bob", "", 1000, "lines"},
        {"g", "o", "bob", "a:1 :1", 1000, "lines[1].sku"},
        {"g", "o", "bob", "a:0", 1000, "lines[0].quantity"},
        {"g", "o", "bob", "a:1 b:1 a:1", 1000, "lines[2].sku"},
        {"g", "o", "bob", "a:9007199254740991 b:1", 1000, "lines[1].quantity"},
        {"g", "o", "bob", "a:1", 9, "hold_ms"},
        {"g", "o", "bob", "a:1", 0, "hold_ms"},
        {"g", "o", "bob", "a:1", -1, "hold_ms"},
        {"g", "o", "bob", "a:1", INT64_C(2592000001), "hold_ms"},
        {"g", "o", "bob", "a:1", INT64_MAX, "hold_ms"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_null(reserve(rows[i].group, rows[i].order_id, rows[i].buyer_id, rows[i].lines, rows[i].hold_ms));
        expect_error(LKS_INVALID_ARGUMENT, rows[i].field);
        expect_unchanged();
    }
    assert_non_null(reserve("g", "o1", "bob", "a:1", 10));
    assert_non_null(reserve("g", name_128, name_128, "a:1", INT64_C(2592000000)));
}

TEST(confirm_names_what_is_wrong)
{
    lks_confirm_request good = LKS_CONFIRM_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    REFUSES(r, good, group, "", "group");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, order_id, "", "order_id");
    REFUSES(r, good, order_id, name_129, "order_id");
}

TEST(extend_hold_names_what_is_wrong)
{
    lks_extend_hold_request good = LKS_EXTEND_HOLD_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    good.hold_ms = 10;
    REFUSES(r, good, group, "", "group");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, order_id, "", "order_id");
    REFUSES(r, good, order_id, name_129, "order_id");
    REFUSES(r, good, hold_ms, 9, "hold_ms");
    REFUSES(r, good, hold_ms, INT64_MIN, "hold_ms");
    REFUSES(r, good, hold_ms, INT64_C(2592000001), "hold_ms");
    assert_non_null(answer_to(&good));
    good.hold_ms = INT64_C(2592000000);
    assert_non_null(answer_to(&good));
}

TEST(cancel_names_what_is_wrong)
{
    lks_cancel_request good = LKS_CANCEL_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    REFUSES(r, good, group, "", "group");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, order_id, "", "order_id");
    REFUSES(r, good, order_id, name_129, "order_id");
    REFUSES(r, good, reason, text_257, "reason");
    good.reason = text_257 + 1;
    assert_non_null(answer_to(&good));
}

TEST(return_names_what_is_wrong)
{
    static const struct {
        const char *group, *return_id, *order_id, *lines, *field;
    } rows[] = {
        {"g", "", "o", "a:1", "return_id"},
        {"g", name_129, "o", "a:1", "return_id"},
        {"g", "r", "", "a:1", "order_id"},
        {"g", "r", name_129, "a:1", "order_id"},
        {name_129, "r", "o", "a:1", "group"},
        {"", "r", "o", "", "group"},
        {"", "r", "o", "a:1 b:1", "group"},
        {"g", "r", "o", ":1", "lines[0].sku"},
        {"g", "r", "o", "a:-1", "lines[0].quantity"},
        {"g", "r", "o", "a:1 a:1", "lines[1].sku"},
        {"g", "r", "o", "a:9007199254740991 b:1", "lines[1].quantity"},
    };
    char lines[65 * 8] = "";

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_null(take_back(rows[i].group, rows[i].return_id, rows[i].order_id, rows[i].lines));
        expect_error(LKS_INVALID_ARGUMENT, rows[i].field);
        expect_unchanged();
    }
    for (int i = 0; i < 65; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "s%d:1 ", i);
    assert_null(take_back("g", "r", "o", lines));
    expect_error(LKS_INVALID_ARGUMENT, "lines");
    assert_non_null(take_back("g", name_128, name_128, ""));
    expect_unchanged();
}

TEST(get_order_names_what_is_wrong)
{
    lks_get_order_request good = LKS_GET_ORDER_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    REFUSES(r, good, group, "", "group");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, order_id, "", "order_id");
    REFUSES(r, good, order_id, name_129, "order_id");
}

TEST(ledger_calls_name_what_is_wrong)
{
    static char *const ids[] = {"x",
                                "1",
                                "-",
                                "1-",
                                "-1",
                                "1-1-1",
                                "1-x",
                                " 1-1",
                                "+",
                                "$",
                                "01-1",
                                "1-01",
                                "(1-1",
                                "9007199254740992-0",
                                "1-9007199254740992",
                                "99999999999999999999999999-0",
                                "1-1 "};
    lks_read_ledger_request good = LKS_READ_LEDGER_REQUEST_INIT, r;
    lks_trim_ledger_request trim = message(trim_ledger_request, );

    good.group = trim.group = "g";
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        REFUSES(r, good, after, ids[i], "after");
        trim.up_to = ids[i];
        refuses(&trim, "up_to");
    }
    trim.up_to = "";
    refuses(&trim, "up_to");
    trim.up_to = "1-1";
    trim.group = "";
    refuses(&trim, "group");
    REFUSES(r, good, group, "", "group");
    REFUSES(r, good, limit, -1, "limit");
    REFUSES(r, good, limit, 1001, "limit");
    REFUSES(r, good, wait_ms, -1, "wait_ms");
    REFUSES(r, good, wait_ms, 86400001, "wait_ms");
    r = good;
    r.after = "0-0";
    assert_non_null(answer_to(&r));
}

TEST(delete_item_names_what_is_wrong)
{
    lks_delete_item_request good = LKS_DELETE_ITEM_REQUEST_INIT, r;

    good.group = "g";
    good.sku = "a";
    REFUSES(r, good, sku, "", "sku");
    REFUSES(r, good, sku, name_129, "sku");
    REFUSES(r, good, group, name_129, "group");
    REFUSES(r, good, expected_version, -1, "expected_version");
}

/* A good PutItem for "g"/"a" with 20 on hand, then the given bytes; field NULL: they are ignored. */
static void put_bytes(const char *more, size_t len, const char *field)
{
    static const char good[] = "\x0a\x01g\x12\x01"
                               "a\x18\x14";
    char bytes[64];

    memcpy(bytes, good, sizeof good - 1);
    memcpy(bytes + sizeof good - 1, more, len);
    if (!field)
        assert_non_null(harness_call_bytes(h, &stock_service, "PutItem", bytes, sizeof good - 1 + len, &err));
    else
        refuses_bytes(&stock_service, "PutItem", bytes, sizeof good - 1 + len, field);
}

TEST(bytes_that_are_no_request)
{
    put_bytes("\x12\x03"
              "b\xff"
              "c",
              5, "sku"); /* not UTF-8 */
    put_bytes("\x12\x03"
              "b\0c",
              5, "sku"); /* a NUL */
    put_bytes("\x0a\x04\xed\xa0\x80"
              "x",
              6, "group"); /* a surrogate */
    put_bytes("\x12\x09"
              "b",
              3, "sku"); /* cut off */
    put_bytes("\x18", 1, "on_hand");
    put_bytes("\x1a\x01x", 3, "on_hand"); /* another wire type */
    put_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "");
    put_bytes("\xa2\x06\x01x", 4, NULL); /* an unknown field: ignored */
}

int main(void)
{
    memset(name_128, 'n', 128);
    memset(name_129, 'n', 129);
    memset(text_257, 't', 257);
    for (int i = 0; i < 65; i++) {
        static char skus[65][4];
        snprintf(skus[i], sizeof skus[i], "s%d", i);
        batch_65[i] = skus[i];
    }
    return TEST_RUN(.setup_all = script_open, .teardown_all = script_close, .setup = with_an_item);
}

/* Bad input: INVALID_ARGUMENT, the field's name first, nothing changed. */
#include "stock_script.h"

static char name_128[129], name_129[130], text_257[258];
static char *batch_65[65];

#define MAX INT64_C(9007199254740991)

/* An item that every good request would change, and the keys as they are. */
static int with_an_item(void **state)
{
    empty_harness(state);
    put_item("g", "a", 10);
    remember();
    return 0;
}

static void invalid(const char *method, const void *request, const char *field)
{
    if (harness_call(h, &stock_service, method, request, &err))
        fail_msg("%s took a bad %s", method, field);
    expect_error(LKS_INVALID_ARGUMENT, field);
    expect_unchanged();
}

/* Sets one member of a good request `r` to a bad value. */
#define INVALID(method, good, member, value, field) \
    do {                                            \
        r = (good);                                 \
        r.member = (value);                         \
        invalid(method, &r, field);                 \
    } while (0)

TEST(put_item_names_what_is_wrong)
{
    const lks_put_item_request good = put_request("g", "a", 20);
    lks_put_item_request r;

    INVALID("PutItem", good, sku, "", "sku");
    INVALID("PutItem", good, sku, name_129, "sku");
    INVALID("PutItem", good, group, name_129, "group");
    INVALID("PutItem", good, on_hand, -1, "on_hand");
    INVALID("PutItem", good, on_hand, MAX + 1, "on_hand");
    INVALID("PutItem", good, on_hand, INT64_MIN, "on_hand");
    INVALID("PutItem", good, per_buyer_limit, -1, "per_buyer_limit");
    INVALID("PutItem", good, per_buyer_limit, INT64_MAX, "per_buyer_limit");
    INVALID("PutItem", good, opens_in_ms, -1, "opens_in_ms");
    INVALID("PutItem", good, opens_in_ms, INT64_MAX, "opens_in_ms");
    INVALID("PutItem", good, closes_in_ms, -1, "closes_in_ms");
    INVALID("PutItem", good, closes_in_ms, INT64_MAX, "closes_in_ms");
    INVALID("PutItem", good, order_retain_ms, 59999, "order_retain_ms");
    INVALID("PutItem", good, order_retain_ms, -1, "order_retain_ms");
    INVALID("PutItem", good, order_retain_ms, INT64_MAX, "order_retain_ms");
    INVALID("PutItem", good, expected_version, -1, "expected_version");
    INVALID("PutItem", good, expected_version, MAX + 1, "expected_version");
    r = good;
    r.opens_in_ms = r.closes_in_ms = 1000;
    invalid("PutItem", &r, "closes_in_ms");
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
    INVALID("GetItem", good, sku, "", "sku");
    INVALID("GetItem", good, sku, name_129, "sku");
    INVALID("GetItem", good, group, name_129, "group");
}

TEST(batch_get_items_names_what_is_wrong)
{
    lks_batch_get_items_request good = LKS_BATCH_GET_ITEMS_REQUEST_INIT, r;
    char *twice[] = {"a", "b", "a"}, *empty[] = {"a", ""}, *long_one[] = {name_129};

    invalid("BatchGetItems", &good, "skus");
    good.skus = batch_65;
    good.n_skus = 65;
    invalid("BatchGetItems", &good, "skus");
    good.n_skus = 64;
    assert_non_null(harness_call(h, &stock_service, "BatchGetItems", &good, &err));
    INVALID("BatchGetItems", good, group, name_129, "group");
    good.skus = twice;
    good.n_skus = 3;
    invalid("BatchGetItems", &good, "skus[2]");
    good.skus = empty;
    good.n_skus = 2;
    invalid("BatchGetItems", &good, "skus[1]");
    good.skus = long_one;
    good.n_skus = 1;
    invalid("BatchGetItems", &good, "skus[0]");
}

TEST(list_items_names_what_is_wrong)
{
    lks_list_items_request good = LKS_LIST_ITEMS_REQUEST_INIT, r;

    INVALID("ListItems", good, page_size, -1, "page_size");
    INVALID("ListItems", good, page_size, 1001, "page_size");
    INVALID("ListItems", good, prefix, name_129, "prefix");
    INVALID("ListItems", good, group, name_129, "group");
    INVALID("ListItems", good, page_token, "garbage", "page_token");
    good.group = "g";
    INVALID("ListItems", good, page_size, 1001, "page_size");
    INVALID("ListItems", good, prefix, name_129, "prefix");
    INVALID("ListItems", good, page_token, "garbage", "page_token");
}

TEST(adjust_names_what_is_wrong)
{
    lks_adjust_request good = LKS_ADJUST_REQUEST_INIT, r;

    good.group = "g";
    good.sku = "a";
    good.delta = 1;
    good.adjustment_id = "adj";
    INVALID("Adjust", good, sku, "", "sku");
    INVALID("Adjust", good, sku, name_129, "sku");
    INVALID("Adjust", good, group, name_129, "group");
    INVALID("Adjust", good, delta, 0, "delta");
    INVALID("Adjust", good, delta, MAX + 1, "delta");
    INVALID("Adjust", good, delta, -MAX - 1, "delta");
    INVALID("Adjust", good, delta, INT64_MIN, "delta");
    INVALID("Adjust", good, adjustment_id, "", "adjustment_id");
    INVALID("Adjust", good, adjustment_id, name_129, "adjustment_id");
    INVALID("Adjust", good, reason, text_257, "reason");
    INVALID("Adjust", good, expected_version, -1, "expected_version");
    good.reason = text_257 + 1;
    good.adjustment_id = name_128;
    assert_non_null(harness_call(h, &stock_service, "Adjust", &good, &err));
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
    INVALID("Confirm", good, group, "", "group");
    INVALID("Confirm", good, group, name_129, "group");
    INVALID("Confirm", good, order_id, "", "order_id");
    INVALID("Confirm", good, order_id, name_129, "order_id");
}

TEST(extend_hold_names_what_is_wrong)
{
    lks_extend_hold_request good = LKS_EXTEND_HOLD_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    good.hold_ms = 10;
    INVALID("ExtendHold", good, group, "", "group");
    INVALID("ExtendHold", good, group, name_129, "group");
    INVALID("ExtendHold", good, order_id, "", "order_id");
    INVALID("ExtendHold", good, order_id, name_129, "order_id");
    INVALID("ExtendHold", good, hold_ms, 9, "hold_ms");
    INVALID("ExtendHold", good, hold_ms, INT64_MIN, "hold_ms");
    INVALID("ExtendHold", good, hold_ms, INT64_C(2592000001), "hold_ms");
    assert_non_null(harness_call(h, &stock_service, "ExtendHold", &good, &err));
    good.hold_ms = INT64_C(2592000000);
    assert_non_null(harness_call(h, &stock_service, "ExtendHold", &good, &err));
}

TEST(cancel_names_what_is_wrong)
{
    lks_cancel_request good = LKS_CANCEL_REQUEST_INIT, r;

    good.group = "g";
    good.order_id = "o";
    INVALID("Cancel", good, group, "", "group");
    INVALID("Cancel", good, group, name_129, "group");
    INVALID("Cancel", good, order_id, "", "order_id");
    INVALID("Cancel", good, order_id, name_129, "order_id");
    INVALID("Cancel", good, reason, text_257, "reason");
    good.reason = text_257 + 1;
    assert_non_null(harness_call(h, &stock_service, "Cancel", &good, &err));
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
    INVALID("GetOrder", good, group, "", "group");
    INVALID("GetOrder", good, group, name_129, "group");
    INVALID("GetOrder", good, order_id, "", "order_id");
    INVALID("GetOrder", good, order_id, name_129, "order_id");
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
    lks_trim_ledger_request trim = LKS_TRIM_LEDGER_REQUEST_INIT;

    good.group = trim.group = "g";
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        INVALID("ReadLedger", good, after, ids[i], "after");
        trim.up_to = ids[i];
        invalid("TrimLedger", &trim, "up_to");
    }
    trim.up_to = "";
    invalid("TrimLedger", &trim, "up_to");
    trim.up_to = "1-1";
    trim.group = "";
    invalid("TrimLedger", &trim, "group");
    INVALID("ReadLedger", good, group, "", "group");
    INVALID("ReadLedger", good, limit, -1, "limit");
    INVALID("ReadLedger", good, limit, 1001, "limit");
    INVALID("ReadLedger", good, wait_ms, -1, "wait_ms");
    INVALID("ReadLedger", good, wait_ms, 86400001, "wait_ms");
    r = good;
    r.after = "0-0";
    assert_non_null(harness_call(h, &stock_service, "ReadLedger", &r, &err));
}

TEST(delete_item_names_what_is_wrong)
{
    lks_delete_item_request good = LKS_DELETE_ITEM_REQUEST_INIT, r;

    good.group = "g";
    good.sku = "a";
    INVALID("DeleteItem", good, sku, "", "sku");
    INVALID("DeleteItem", good, sku, name_129, "sku");
    INVALID("DeleteItem", good, group, name_129, "group");
    INVALID("DeleteItem", good, expected_version, -1, "expected_version");
}

/* A good PutItem for "g"/"a" with 20 on hand, then the given bytes. */
static void put_bytes(const char *more, size_t len, lks_code code, const char *field)
{
    static const char good[] = "\x0a\x01g\x12\x01"
                               "a\x18\x14";
    char bytes[64];

    memcpy(bytes, good, sizeof good - 1);
    memcpy(bytes + sizeof good - 1, more, len);
    const void *response = harness_call_bytes(h, &stock_service, "PutItem", bytes, sizeof good - 1 + len, &err);
    if (code == LKS_OK) {
        assert_non_null(response);
        return;
    }
    assert_null(response);
    assert_int_equal(err.code, code);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    if (!strstr(err.message, field))
        fail_msg("%s is not named: %s", field, err.message);
    expect_unchanged();
}

TEST(bytes_that_are_no_request)
{
    put_bytes("\x12\x03"
              "b\xff"
              "c",
              5, LKS_INVALID_ARGUMENT, "sku"); /* not UTF-8 */
    put_bytes("\x12\x03"
              "b\0c",
              5, LKS_INVALID_ARGUMENT, "sku"); /* a NUL */
    put_bytes("\x0a\x04\xed\xa0\x80"
              "x",
              6, LKS_INVALID_ARGUMENT, "group"); /* a surrogate */
    put_bytes("\x12\x09"
              "b",
              3, LKS_INVALID_ARGUMENT, "sku"); /* cut off */
    put_bytes("\x18", 1, LKS_INVALID_ARGUMENT, "on_hand");
    put_bytes("\x1a\x01x", 3, LKS_INVALID_ARGUMENT, "on_hand"); /* another wire type */
    put_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, LKS_INVALID_ARGUMENT, "");
    put_bytes("\xa2\x06\x01x", 4, LKS_OK, ""); /* an unknown field: ignored */
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
    return TEST_RUN(.setup_all = start_harness, .teardown_all = stop_harness, .setup = with_an_item);
}

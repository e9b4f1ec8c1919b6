/* Items: PutItem, GetItem, BatchGetItems, Adjust, DeleteItem. */
#include "stock_script.h"

TEST(put_creates_an_item)
{
    const lks_item *item = put_limited("g", "a", 10, 3);

    assert_string_equal(item->group, "g");
    assert_string_equal(item->sku, "a");
    assert_int_equal(item->available, 10);
    assert_int_equal(item->reserved, 0);
    assert_int_equal(item->sold, 0);
    assert_int_equal(item->per_buyer_limit, 3);
    assert_int_equal(item->state, LKS_ITEM_STATE_OPEN);
    assert_int_equal(item->opens_in_ms, 0);
    assert_int_equal(item->closes_in_ms, 0);
    assert_true(item->version > 0);

    const lks_item *again = get_item("g", "a");
    assert_int_equal(again->version, item->version);
    assert_int_equal(again->available, 10);
    change_item("a", ITEM_RESERVED, 3);
    assert_int_equal(get_item("g", "a")->reserved, 3);
    assert_null(get_item("g", "b"));
    expect_error(LKS_NOT_FOUND, "sku");
    assert_null(get_item("other", "a"));
    expect_error(LKS_NOT_FOUND, "sku");
}

TEST(put_over_an_item_changes_on_hand)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:4");
    int64_t version = get_item("g", "a")->version;
    put_item("g", "a", 7);
    expect_item("g", "a", 3, 4);
    put_item("g", "a", 7); /* no difference: no ledger entry */
    put_item("g", "a", 4);
    expect_item("g", "a", 0, 4);
    assert_int_equal(get_item("g", "a")->version, version + 3);
    assert_string_equal(ledger_text(read_ledger("g", "", 0)), "PUT a 10 \nDEDUCTED a 4 o1\nPUT a -3 \nPUT a -3 \n");

    lks_put_item_request request = put_request("g", "a", 3);
    remember();
    assert_null(put(&request));
    expect_error(LKS_FAILED_PRECONDITION, "on_hand");
    expect_unchanged();
    /* What is reserved counts as well. */
    change_item("a", ITEM_RESERVED, 1);
    request.on_hand = 4;
    assert_null(put(&request));
    expect_error(LKS_FAILED_PRECONDITION, "on_hand");
}

TEST(put_keeps_to_its_conditions)
{
    lks_put_item_request request = put_request("g", "a", 10);

    request.expected_version = 1;
    assert_null(put(&request));
    expect_error(LKS_ABORTED, "expected_version");
    request.expected_version = 0;
    request.must_be_new = true;
    int64_t version = put(&request)->version;
    remember();
    assert_null(put(&request));
    expect_error(LKS_ALREADY_EXISTS, "sku");
    request.must_be_new = false;
    request.expected_version = version + 1;
    assert_null(put(&request));
    expect_error(LKS_ABORTED, "expected_version");
    expect_unchanged();
    char current[32];
    snprintf(current, sizeof current, " %lld", (long long)version);
    assert_non_null(strstr(err.message, current));
    request.expected_version = version;
    assert_int_equal(put(&request)->version, version + 1);
}

TEST(an_item_tells_its_window)
{
    lks_put_item_request request = put_request("g", "a", 10);

    request.opens_in_ms = 100000;
    request.closes_in_ms = 200000;
    const lks_item *item = put(&request);
    assert_int_equal(item->state, LKS_ITEM_STATE_NOT_OPEN);
    assert_int_equal(item->opens_in_ms, 100000);
    assert_int_equal(item->closes_in_ms, 200000);
    harness_advance_ms(h, 40000);
    item = get_item("g", "a");
    assert_int_equal(item->state, LKS_ITEM_STATE_NOT_OPEN);
    assert_in_range(item->opens_in_ms, 1, 60000);
    assert_in_range(item->closes_in_ms, 100000, 160000);
    harness_advance_ms(h, 60000);
    item = get_item("g", "a");
    assert_int_equal(item->state, LKS_ITEM_STATE_OPEN);
    assert_int_equal(item->opens_in_ms, 0);
    assert_in_range(item->closes_in_ms, 1, 100000);
    harness_advance_ms(h, 100000);
    item = get_item("g", "a");
    assert_int_equal(item->state, LKS_ITEM_STATE_CLOSED);
    assert_int_equal(item->closes_in_ms, 0);
}

TEST(every_change_has_a_version_of_its_own)
{
    int64_t last = put_item("g", "a", 10)->version;
    deduct("g", "o1", "", "a:1");
    int64_t version = get_item("g", "a")->version;
    assert_true(version > last);
    last = version;
    version = adjust("g", "a", 5, "adj")->item->version;
    assert_true(version > last);
    /* Neither a refusal nor a repeat is a change. */
    deduct("g", "o1", "", "a:1");
    deduct("g", "o2", "", "a:999");
    adjust("g", "a", 5, "adj");
    assert_int_equal(get_item("g", "a")->version, version);
    assert_int_equal(put_item("g", "a", 15)->version, version + 1);
}

static const lks_batch_get_items_response *batch(const char *group, size_t n, const char **skus)
{
    lks_batch_get_items_request request = message(batch_get_items_request, .group = group, .n_skus = n, .skus = skus);

    return answer_to(&request);
}

TEST(a_batch_gives_those_that_exist_in_the_asked_order)
{
    const char *skus[] = {"c", "nowhere", "a", "b"};

    put_item("g", "a", 1);
    put_item("g", "b", 2);
    put_item("g", "c", 3);
    put_item("", "a", 11);
    put_item("", "c", 13);
    const lks_batch_get_items_response *response = batch("g", 4, skus);
    assert_int_equal(response->n_items, 3);
    assert_string_equal(response->items[0]->sku, "c");
    assert_string_equal(response->items[1]->sku, "a");
    assert_int_equal(response->items[2]->available, 2);
    assert_string_equal(response->items[2]->group, "g");
    /* Without a group each is its own. */
    response = batch("", 4, skus);
    assert_int_equal(response->n_items, 2);
    assert_int_equal(response->items[0]->available, 13);
    assert_string_equal(response->items[0]->group, "c");
    assert_int_equal(response->items[1]->available, 11);
    assert_string_equal(response->items[1]->group, "a");
}

TEST(adjust_adds_and_takes)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:4");
    const lks_adjust_response *response = adjust("g", "a", 5, "more");
    assert_int_equal(response->item->available, 11);
    assert_int_equal(response->item->sold, 4);
    assert_string_equal(response->item->group, "g");
    assert_false(response->replayed);
    assert_int_equal(adjust("g", "a", -11, "less")->item->available, 0);
    remember();
    assert_null(adjust("g", "a", -1, "below"));
    expect_error(LKS_FAILED_PRECONDITION, "delta");
    assert_null(adjust("g", "b", 1, "nowhere"));
    expect_error(LKS_NOT_FOUND, "sku");
    expect_unchanged();
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nDEDUCTED a 4 o1\nADJUSTED a 5 more\nADJUSTED a -11 less\n");
}

TEST(adjust_once_an_id)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    const lks_adjust_response *first = adjust("g", "a", 5, "adj");
    deduct("g", "o1", "", "a:15");
    put_limited("g", "a", 99, 7);
    remember();
    const lks_adjust_response *again = adjust("g", "a", 5, "adj");
    assert_true(again->replayed);
    assert_int_equal(again->item->available, 15);
    assert_int_equal(again->item->sold, 0);
    assert_int_equal(again->item->per_buyer_limit, 0);
    assert_int_equal(again->item->version, first->item->version);
    assert_null(adjust("g", "a", 6, "adj"));
    expect_error(LKS_ALREADY_EXISTS, "adjustment_id");
    assert_null(adjust("g", "b", 5, "adj"));
    expect_error(LKS_ALREADY_EXISTS, "adjustment_id");
    expect_unchanged();
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:a:adj")), 30LL * 86400000 - 60000,
                    30LL * 86400000);
}

TEST(adjust_keeps_to_its_conditions)
{
    int64_t version = put_item("g", "a", 10)->version;

    lks_adjust_request request = message(adjust_request, .group = "g", .sku = "a", .delta = 1, .adjustment_id = "adj",
                                         .reason = "found behind the shelf", .expected_version = version - 1);
    remember();
    assert_null(answer_to(&request));
    expect_error(LKS_ABORTED, "expected_version");
    expect_unchanged();
    request.expected_version = version;
    const lks_adjust_response *response = answer_to(&request);
    assert_int_equal(response->item->available, 11);
    const lks_read_ledger_response *ledger = read_ledger("g", "", 10);
    assert_string_equal(ledger->entries[0]->reason, "");
    assert_string_equal(ledger->entries[1]->reason, "found behind the shelf");
    /* A repeat is recognised before its version, which its effect has moved, is looked at. */
    response = answer_to(&request);
    assert_true(response->replayed);
}

TEST(on_hand_has_an_upper_end)
{
    put_item("g", "a", INT64_C(9007199254740990));
    deduct("g", "o1", "", "a:2");
    assert_int_equal(adjust("g", "a", 1, "last")->item->available, INT64_C(9007199254740989));
    remember();
    assert_null(adjust("g", "a", 1, "over"));
    expect_error(LKS_INVALID_ARGUMENT, "delta");
    assert_null(adjust("g", "a", INT64_C(9007199254740991), "far over"));
    expect_error(LKS_INVALID_ARGUMENT, "delta");
    expect_unchanged();
}

TEST(delete_forgets_all_but_the_ledger_and_versions)
{
    put_limited("g", "a", 10, 5);
    deduct("g", "o1", "bob", "a:4");
    int64_t version = get_item("g", "a")->version;
    assert_true(delete_item("g", "a"));
    assert_null(get_item("g", "a"));
    expect_error(LKS_NOT_FOUND, "sku");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)), "PUT a 10 \nDEDUCTED a 4 o1\nDELETED a 6 \n");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:b:a ls:{default/g}:stock:skus"), "0");
    assert_false(delete_item("g", "a"));
    expect_error(LKS_NOT_FOUND, "sku");

    /* Not even when the clock steps back. */
    harness_advance_ms(h, -3600000);
    int64_t next = put_limited("g", "a", 10, 5)->version;
    assert_true(next > version);
    assert_true(delete_item("g", "a"));
    harness_advance_ms(h, -3600000);
    assert_true(put_item("g", "b", 1)->version > next);
    put_limited("g", "a", 10, 5);
    answers(deduct("g", "o2", "bob", "a:5"), "DEDUCTED a:5");
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:v")), 86400000, 86400000 + 7200000);
}

TEST(delete_keeps_to_its_conditions)
{
    lks_delete_item_request request =
        message(delete_item_request, .group = "g", .sku = "a", .expected_version = put_item("g", "a", 10)->version + 1);

    remember();
    assert_null(answer_to(&request));
    expect_error(LKS_ABORTED, "expected_version");
    expect_unchanged();
    change_item("a", ITEM_RESERVED, 1);
    remember();
    assert_false(delete_item("g", "a"));
    expect_error(LKS_FAILED_PRECONDITION, "sku");
    expect_unchanged();
    change_item("a", ITEM_RESERVED, 0);
    request.expected_version--;
    assert_non_null(answer_to(&request));
}

/* No name moves a key or is taken for another. */
TEST(names_are_only_names)
{
    static const char *const names[] = {"a",   "a}",  "{a}", "a:b",       "a/b",  "a%2Fb",
                                        "a%",  "%41", "a b", "a*",        "a?",   "[a]",
                                        "\\a", "\n",  "é",   "e\xcc\x81", "日本", "\xf0\x9f\x94\x92",
                                        "-",   "0"};
    enum { N = sizeof names / sizeof names[0] };

    for (int64_t g = 0; g < N; g++) {
        harness_namespace(h, names[g]);
        put_item(names[g], names[(g + 1) % N], 100 + g);
        for (int64_t s = 0; s < N; s++)
            put_limited("g", names[s], 1000 * g + s + 1, 1);
    }
    for (int64_t g = 0; g < N; g++) {
        harness_namespace(h, names[g]);
        expect_item(names[g], names[(g + 1) % N], 100 + g, 0);
        for (int64_t s = 0; s < N; s++) {
            lks_line line = message(line, .sku = names[s], .quantity = 1);
            lks_line *lines[] = {&line};
            lks_deduct_request request = message(deduct_request, .group = "g", .order_id = line.sku,
                                                 .buyer_id = line.sku, .n_lines = 1, .lines = lines);
            const lks_deduct_response *response = answer_to(&request);
            assert_int_equal(response->outcome, LKS_DEDUCT_OUTCOME_DEDUCTED);
            assert_false(response->replayed);
            assert_string_equal(response->lines[0]->sku, names[s]);
            assert_string_equal(get_order("g", names[s])->buyer_id, names[s]);
            expect_item("g", names[s], 1000 * g + s, 1);
        }
    }
    /* The first braces of a key, by which Redis places it, hold namespace and group. A hash has no others. */
    char *keys = strdup(harness_redis(h, "EVAL %s 0",
                                      "local keys = redis.call('KEYS', 'ls:{*')\n"
                                      "for i, key in ipairs(keys) do\n"
                                      "  keys[i] = redis.call('TYPE', key).ok .. ' ' .. string.gsub(key, '\\n', '_')\n"
                                      "end return keys"));
    for (char *line = strtok(keys, "\n"); line; line = strtok(NULL, "\n")) {
        const char *key = strstr(line, "ls:{") + 4, *end = strchr(key, '}');
        assert_true(!memchr(key, '{', (size_t)(end - key)) && strncmp(end, "}:stock:", 8) == 0);
        if (strncmp(line, "hash ", 5) == 0)
            assert_null(strchr(end + 1, '}'));
    }
    free(keys);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

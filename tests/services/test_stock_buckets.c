/* Groups in buckets: an item that is kept in several groups, and is one item to all who ask. */
#include "services/stock_buckets.h"
#include "functions/library.h"
#include "stock_script.h"

enum { N = SCRIPT_BUCKETS };

/* What a bucket, or the pool (0), has by itself: "available reserved sold". */
static const char *in_bucket(const char *sku, unsigned bucket)
{
    return harness_redis(h, "EVAL %s 1 ls:{default/g/%d/%u}:stock:i:%s",
                         "local text = redis.call('GET', KEYS[1])\n"
                         "if not text then return 'none' end\n"
                         "local i = {struct.unpack('<Bdddddddddd', text)}\n"
                         "return string.format('%d %d %d', i[2], i[10], i[3])",
                         N, stock_bucket_name(bucket), sku);
}

TEST(an_item_is_spread_over_its_buckets)
{
    const lks_item *item = put_in("g", "a", 10, N);

    assert_non_null(item);
    assert_int_equal(item->buckets, N);
    expect_stock("g", "a", 10, 0, 0);
    says(in_bucket("a", 0), "2 0 8");
    for (unsigned k = 1; k <= N; k++)
        says(in_bucket("a", k), "2 0 0");
    says(harness_redis(h, "EXISTS ls:{default/g}:stock:i:a"), "0");
}

/* CRC16 as Redis Cluster has it, of what stands in braces. */
static unsigned slot_of(const char *text)
{
    unsigned crc = 0;

    for (; *text; text++) {
        crc ^= (unsigned)(unsigned char)*text << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc % 16384;
}

TEST(buckets_lie_in_slots_far_apart)
{
    for (unsigned n = 2; n <= 64; n *= 2) {
        bool taken[64] = {false};
        for (unsigned k = 1; k <= n; k++) {
            char tag[64];
            snprintf(tag, sizeof tag, "default/hot/%u/%u", n, stock_bucket_name(k));
            unsigned part = slot_of(tag) * n / 16384;
            assert_false(taken[part]);
            taken[part] = true;
        }
    }
}

TEST(an_order_lives_in_its_bucket)
{
    put_in("g", "a", 40, N);
    const char *id = order_in(3);
    answers(deduct("g", id, "", "a:2"), "DEDUCTED a:8");
    answers(deduct("g", id, "", "a:2"), "DEDUCTED again a:8");
    says(in_bucket("a", 3), "8 0 2");
    expect_stock("g", "a", 38, 0, 2);
    expect_order("g", id, "CONFIRMED  a:2:0");
    assert_null(deduct("g", id, "", "a:3"));
    expect_error(LKS_ALREADY_EXISTS, "order_id");
}

TEST(a_bucket_that_runs_short_pulls_from_the_richest)
{
    put_in("g", "a", 40, N);
    const char *id = order_in(1);
    answers(deduct("g", id, "", "a:11"), "DEDUCTED a:4");
    answers(deduct("g", order_in(1), "", "a:29"), "DEDUCTED a:0");
    for (unsigned k = 1; k <= N; k++)
        answers(deduct("g", order_in(k), "", "a:1"), "SOLD_OUT a:0");
    expect_stock("g", "a", 0, 0, 40);
}

/* What the ledger adds up to: "available reserved sold" of the sku; entries are read `limit` at a time, and their ids increase. */
static const char *ledger_sum(const char *group, const char *sku, int32_t limit)
{
    static const int by[][3] = {
        [LKS_LEDGER_KIND_PUT] = {1, 0, 0},         [LKS_LEDGER_KIND_ADJUSTED] = {1, 0, 0},
        [LKS_LEDGER_KIND_DEDUCTED] = {-1, 0, 1},   [LKS_LEDGER_KIND_RESERVED] = {-1, 1, 0},
        [LKS_LEDGER_KIND_CONFIRMED] = {0, -1, 1},  [LKS_LEDGER_KIND_CANCELLED] = {1, -1, 0},
        [LKS_LEDGER_KIND_EXPIRED] = {1, -1, 0},    [LKS_LEDGER_KIND_RETURNED] = {1, 0, -1},
        [LKS_LEDGER_KIND_TRANSFERRED] = {1, 0, 0},
    };
    int64_t sum[3] = {0, 0, 0};
    long long last_ms = 0, last_seq = 0, ms, seq;
    char *dash;
    char after[64] = "";
    char *line = new_line();

    for (;;) {
        const lks_read_ledger_response *got = read_ledger(group, after, limit);
        assert_non_null(got);
        assert_int_equal(got->outcome, LKS_READ_LEDGER_OUTCOME_OK);
        if (got->n_entries == 0)
            break;
        for (size_t i = 0; i < got->n_entries; i++) {
            const lks_ledger_entry *e = got->entries[i];
            ms = strtoll(e->id, &dash, 10);
            assert_int_equal(*dash, '-');
            seq = strtoll(dash + 1, NULL, 10);
            assert_true(ms > last_ms || (ms == last_ms && seq > last_seq));
            last_ms = ms;
            last_seq = seq;
            for (int n = 0; n < 3 && strcmp(e->sku, sku) == 0; n++)
                sum[n] += by[e->kind][n] * e->quantity;
            snprintf(after, sizeof after, "%s", e->id);
        }
    }
    add_line(line, "%lld %lld %lld", (long long)sum[0], (long long)sum[1], (long long)sum[2]);
    return line;
}

TEST(its_ledgers_are_one_ledger)
{
    put_in("g", "a", 40, N);
    for (int i = 0; i < 30; i++)
        says_begin(answer_line(deduct("g", order_in(1 + (unsigned)i % N), "", "a:1")), "DEDUCTED");
    says(ledger_sum("g", "a", 1000), "10 0 30");
    says(ledger_sum("g", "a", 1), "10 0 30");
    says(ledger_sum("g", "a", 7), "10 0 30");
}

/* ---- units on their way ---- */

#define RECEIVE "put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))"
#define FORGET "if units > 0 and id == tonumber(move_id) then"

/* From now on the part of the library with that text fails, as where a server dies before it is called; then it works again. */
static void lose(const char *text)
{
    char lost[256];

    snprintf(lost, sizeof lost, "fail('INTERNAL', 'lost') %s", text);
    harness_alter(h, text, lost);
}

static void lose_nothing(const char *text)
{
    harness_alter(h, text, text);
}

/* Sum of what is in buckets, without what is on its way. */
static int64_t in_buckets(const char *sku)
{
    int64_t sum = 0; /* "none" is 0 */

    for (unsigned k = 0; k <= N; k++)
        sum += strtoll(in_bucket(sku, k), NULL, 10);
    return sum;
}

TEST(a_move_that_was_lost_is_finished_by_a_repeat)
{
    put_in("g", "a", 40, N);
    const char *id = order_in(1);
    lose(RECEIVE);
    assert_null(deduct("g", id, "", "a:15"));
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    assert_int_equal(in_buckets("a"), 35);
    expect_stock("g", "a", 40, 0, 0);
    lose_nothing(RECEIVE);
    answers(deduct("g", id, "", "a:15"), "DEDUCTED a:0");
    assert_int_equal(in_buckets("a"), 25);
    expect_stock("g", "a", 25, 0, 15);
    says(ledger_sum("g", "a", 100), "25 0 15");
}

TEST(a_move_that_was_lost_is_finished_by_the_next_who_needs_it)
{
    put_in("g", "a", 40, N);
    lose(RECEIVE);
    assert_null(deduct("g", order_in(1), "", "a:15"));
    lose_nothing(RECEIVE);
    /* All there is, so also what is on its way to another bucket. */
    answers(deduct("g", order_in(3), "", "a:40"), "DEDUCTED a:0");
    expect_stock("g", "a", 0, 0, 40);
    says(ledger_sum("g", "a", 100), "0 0 40");
}

TEST(a_move_that_came_is_not_added_again)
{
    put_in("g", "a", 40, N);
    const char *id = order_in(1);
    lose(FORGET);
    /* The order was made with the units that have come; its source has not been told. */
    assert_null(deduct("g", id, "", "a:15"));
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    lose_nothing(FORGET);
    answers(deduct("g", id, "", "a:15"), "DEDUCTED again a:0");
    assert_int_equal(in_buckets("a"), 25);
    answers(deduct("g", order_in(2), "", "a:25"), "DEDUCTED a:0");
    answers(deduct("g", order_in(1), "", "a:1"), "SOLD_OUT a:0");
    expect_stock("g", "a", 0, 0, 40);
    says(ledger_sum("g", "a", 100), "0 0 40");
}

TEST(a_move_that_was_lost_is_found_when_it_is_overdue)
{
    put_in("g", "a%}", 40, N);
    says(overdue("0"), "OK\n\n");
    lose(RECEIVE);
    assert_null(deduct("g", order_in(1), "", "a%}:15"));
    lose_nothing(RECEIVE);
    harness_advance_ms(h, 1000);
    says(overdue("0"), "OK\n\n");
    harness_advance_ms(h, 1001);
    unsigned from;
    int units;
    assert_int_equal(sscanf(overdue("0"), "OK\n\nls:{default/g/4/%u}:\na%%}\n1\n%*d\n%d\n", &from, &units), 2);
    assert_int_equal(units, 5);
    answers(deduct("g", order_in(3), "", "a%}:40"), "DEDUCTED a%}:0");
    says(overdue("0"), "OK\n\n");
}

TEST(sold_out_is_not_told_while_a_unit_is_on_its_way)
{
    put_in("g", "a", 10, N);
    lose(RECEIVE);
    assert_null(deduct("g", order_in(1), "", "a:3"));
    assert_null(deduct("g", order_in(2), "", "a:9"));
    lose_nothing(RECEIVE);
    answers(deduct("g", order_in(4), "", "a:10"), "DEDUCTED a:0");
    answers(deduct("g", order_in(4), "", "a:1"), "SOLD_OUT a:0");
}

/* Two servers look, and then both send: the second one is told the first one's move. */
TEST(a_move_under_way_is_shared)
{
    put_in("d", "a", 40, 2);
    const char *id = order_in(1);
    lose(RECEIVE);
    assert_null(deduct("d", id, "", "a:22"));
    harness_alter(h, "if units > 0 then\n          local n = #found", "if false then\n          local n = #found");
    answers(deduct("d", id, "", "a:22"), "DEDUCTED a:8");
    lose_nothing(RECEIVE);
    answers(deduct("d", order_in(1), "", "a:18"), "DEDUCTED a:0");
}

/* Each time a server looks from bucket to bucket, a unit goes from one that it has not seen yet to one that it has seen. */
TEST(sold_out_is_not_told_of_a_unit_that_moves_behind_the_look)
{
    put_in("g", "a", 4, N);
    for (unsigned k = 1; k <= N; k++)
        if (k != 3)
            deduct("g", order_in(k), "", "a:1");
    says(in_bucket("a", 3), "1 0 0");
    harness_redis(h, "SET ls:test:look 1");
    harness_alter(h, "local reply = {'OK'}\n  for i, sku in ipairs({...}) do\n    local found",
                  "local look, from, to = redis.call('GET', 'ls:test:look'), nil, nil\n"
                  "if look == '1' and string.find(s.base, '/102}:', 1, true) then from, to = '101', '100' end\n"
                  "if look == '2' and string.find(s.base, '/100}:', 1, true) then from, to = '100', '0' end\n"
                  "if from then\n"
                  "  redis.call('INCR', 'ls:test:look')\n"
                  "  for bucket, units in pairs({[to] = 1, [from] = -1}) do\n"
                  "    local key = string.sub(s.base, 1, -6) .. bucket .. '}:stock:i:a'\n"
                  "    local i = {struct.unpack('<Bdddddddddd', redis.call('GET', key))}\n"
                  "    i[2], i[4] = i[2] + units, i[4] + 1\n"
                  "    if bucket == '0' then i[3] = i[3] - units end\n"
                  "    redis.call('SET', key, struct.pack('<Bdddddddddd', unpack(i, 1, 11)))\n"
                  "  end\n"
                  "end\n"
                  "local reply = {'OK'}\n  for i, sku in ipairs({...}) do\n    local found");
    answers(deduct("g", order_in(4), "", "a:1"), "DEDUCTED a:0");
    assert_string_equal(harness_redis(h, "GET ls:test:look"), "3");
    answers(deduct("g", order_in(4), "", "a:1"), "SOLD_OUT a:0");
}

/* What was given back in a bucket ends what is remembered of all of them. */
TEST(a_remembered_sold_out_ends_with_what_comes_back_anywhere)
{
    harness_service_options(h, &(service_options){.sequence_block = 1, .remembers_refusals = true});
    harness_server(h, "remembers");
    put_in("g", "a", 4, N);
    const char *id = order_in(2);
    deduct("g", id, "", "a:4");
    lks_line line = message(line, .sku = "a", .quantity = 1), *lines[] = {&line};
#define first_of(order) ask(deduct, .group = "g", .order_id = (order), .n_lines = 1, .lines = lines, .fresh = true)
    answers(first_of(order_in(1)), "SOLD_OUT a:0");
    fcalls_made();
    answers(first_of(order_in(3)), "SOLD_OUT a:0");
    assert_int_equal(fcalls_made(), 0);
    answers(deduct("g", order_in(3), "", "a:1"), "SOLD_OUT a:0"); /* not fresh: only its bucket is asked */
    assert_int_equal(fcalls_made(), 1);
    take_back("g", "r1", id, "a:1");
    answers(first_of(order_in(4)), "DEDUCTED a:0");
    harness_service_options(h, &(service_options){.sequence_block = 1});
}

/* ---- items ---- */

TEST(the_number_of_buckets_is_for_good)
{
    put_in("g", "a", 10, N);
    remember();
    assert_null(put_in("g", "a", 10, 8));
    expect_error(LKS_FAILED_PRECONDITION, "buckets");
    assert_null(put_in("g", "b", 10, 1));
    expect_error(LKS_FAILED_PRECONDITION, "buckets");
    assert_int_equal(put_in("g", "b", 10, 0)->buckets, N);
    assert_true(delete_item("g", "a"));
    assert_true(delete_item("g", "b"));
    assert_null(put_in("g", "a", 10, 8));
    expect_error(LKS_FAILED_PRECONDITION, "buckets");

    assert_int_equal(put_item("whole", "a", 10)->buckets, 0);
    assert_null(put_in("whole", "a", 10, N));
    expect_error(LKS_FAILED_PRECONDITION, "buckets");
    assert_int_equal(put_in("whole", "a", 10, 1)->buckets, 0);
}

TEST(buckets_are_checked)
{
    lks_put_item_request good = put_request("g", "a", 1), bad;

    good.buckets = 2;
    good.per_buyer_limit = 1000;
    remember();
    REFUSES(bad, good, buckets, 65, "buckets");
    REFUSES(bad, good, buckets, -1, "buckets");
    REFUSES(bad, good, per_buyer_limit, 1001, "per_buyer_limit");
    assert_non_null(put(&good));
    good.buckets = 0;
    remember();
    REFUSES(bad, good, per_buyer_limit, 1001, "per_buyer_limit");
}

TEST(several_lines_are_one_order)
{
    put_in("g", "a", 20, N);
    put_in("g", "b", 20, N);
    const char *id = order_in(2);
    answers(deduct("g", id, "", "a:17 b:9"), "DEDUCTED a:0 b:0");
    answers(deduct("g", order_in(3), "", "a:4 b:1"), "SOLD_OUT a:3");
    expect_stock("g", "a", 3, 0, 17);
    expect_stock("g", "b", 11, 0, 9);
    answers(deduct("g", order_in(3), "", "a:1 x:1"), "UNKNOWN_SKU x:0");
    says_begin(answer_line(take_back("g", "r1", id, "a:17")), "RETURNED");
    expect_stock("g", "a", 20, 0, 0);
}

TEST(adjust_takes_from_all_buckets)
{
    put_in("g", "a", 20, N);
    const lks_adjust_response *done = adjust("g", "a", -19, "j1");
    assert_non_null(done);
    assert_int_equal(done->item->available, 1);
    assert_true(adjust("g", "a", -19, "j1")->replayed);
    assert_null(adjust("g", "a", -2, "j2"));
    expect_error(LKS_FAILED_PRECONDITION, "delta");
    expect_stock("g", "a", 1, 0, 0);
    assert_null(adjust("g", "x", 1, "j3"));
    assert_int_equal(err.code, LKS_NOT_FOUND);
    says(ledger_sum("g", "a", 100), "1 0 0");
}

TEST(an_expected_version_is_of_the_whole_item)
{
    put_in("g", "a", 20, N);
    int64_t version = get_item("g", "a")->version;
    deduct("g", order_in(1), "", "a:1");
    assert_true(get_item("g", "a")->version > version);
    assert_null(ask(adjust, .group = "g", .sku = "a", .delta = 1, .adjustment_id = "j1", .expected_version = version));
    assert_int_equal(err.code, LKS_ABORTED);
    version = get_item("g", "a")->version;
    assert_non_null(
        ask(adjust, .group = "g", .sku = "a", .delta = 1, .adjustment_id = "j1", .expected_version = version));
}

TEST(delete_needs_that_nothing_is_reserved_anywhere)
{
    put_in("g", "a", 20, N);
    const char *id = order_in(3);
    reserve("g", id, "", "a:2", 60000);
    assert_false(delete_item("g", "a"));
    assert_int_equal(err.code, LKS_FAILED_PRECONDITION);
    expect_stock("g", "a", 18, 2, 0);
    cancel("g", id, "");
    assert_true(delete_item("g", "a"));
    assert_null(get_item("g", "a"));
    answers(deduct("g", order_in(1), "", "a:1"), "UNKNOWN_SKU a:0");
    assert_false(delete_item("g", "a"));
    assert_int_equal(err.code, LKS_NOT_FOUND);
    for (unsigned k = 0; k <= N; k++)
        says(in_bucket("a", k), "none");
}

/* The pool's item has ended, and buckets were not told. */
TEST(a_deleted_item_that_a_bucket_still_has_ends_there_too)
{
    put_in("g", "a", 20, N);
    lose("if not item or item[BORN] > tonumber(born) then return {'OK'} end");
    assert_false(delete_item("g", "a"));
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    says(in_bucket("a", 1), "0 0 0");
    lose_nothing("if not item or item[BORN] > tonumber(born) then return {'OK'} end");
    assert_null(get_item("g", "a"));
    assert_false(delete_item("g", "a"));
    for (unsigned k = 0; k <= N; k++)
        says(in_bucket("a", k), "none");
}

/* PutItem was lost between the pool and the buckets. */
TEST(a_bucket_without_the_item_gets_it)
{
    lose("local born, era, item = tonumber(made), tonumber(set), item_of(s, sku)");
    assert_null(put_in("g", "a", 20, N));
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    lose_nothing("local born, era, item = tonumber(made), tonumber(set), item_of(s, sku)");
    expect_stock("g", "a", 20, 0, 0);
    says_begin(answer_line(deduct("g", order_in(1), "", "a:1")), "DEDUCTED");
    expect_stock("g", "a", 19, 0, 1);
}

TEST(lists_tell_one_item)
{
    put_in("g", "b", 20, N);
    put_in("g", "a", 10, N);
    put_item("h", "c", 5);
    deduct("g", order_in(2), "", "a:1 b:1");
    const lks_list_items_response *list = ask(list_items, .group = "g", .page_size = 1);
    assert_int_equal(list->n_items, 1);
    assert_string_equal(list->items[0]->sku, "a");
    assert_int_equal(list->items[0]->available, 9);
    list = ask(list_items, .group = "g", .page_token = list->next_page_token);
    assert_int_equal(list->n_items, 1);
    assert_string_equal(list->items[0]->sku, "b");
    assert_int_equal(list->items[0]->sold, 1);

    int64_t seen = 0;
    char token[512] = "";
    do {
        list = ask(list_items, .page_size = 1, .page_token = token);
        assert_non_null(list);
        for (size_t i = 0; i < list->n_items; i++)
            seen += list->items[i]->available + 100 * (list->items[i]->group[0] == 'g');
        snprintf(token, sizeof token, "%s", list->next_page_token);
    } while (token[0]);
    assert_int_equal(seen, 9 + 19 + 5 + 200);

    const char *skus[] = {"b", "x", "a"};
    const lks_batch_get_items_response *batch = ask(batch_get_items, .group = "g", .n_skus = 3, .skus = skus);
    assert_int_equal(batch->n_items, 2);
    assert_int_equal(batch->items[1]->available, 9);
    put_in("b", "b", 3, 2);
    put_item("x", "x", 4);
    batch = ask(batch_get_items, .n_skus = 3, .skus = skus);
    assert_int_equal(batch->n_items, 2);
    assert_int_equal(batch->items[0]->available, 3);
    assert_int_equal(batch->items[1]->available, 4);
}

TEST(a_hold_of_a_bucket_ends_by_itself)
{
    put_in("g", "a", 4, N);
    const char *id = order_in(1);
    says_begin(answer_line(reserve("g", id, "", "a:4", 60000)), "RESERVED");
    assert_int_equal(lasting_alarm_ms(), 60000);
    harness_advance_ms(h, 60000);
    answers(deduct("g", order_in(2), "", "a:4"), "DEDUCTED a:0");
    expect_order("g", id, "EXPIRED  a:4:0");
    answers(confirm("g", id, true), "SOLD_OUT EXPIRED  a:4:0");
}

/* What it lacks by then is in another bucket. */
TEST(a_hold_that_is_over_takes_units_of_other_buckets)
{
    put_in("g", "a", 8, N);
    const char *id = order_in(1);
    reserve("g", id, "", "a:2", 60000);
    harness_advance_ms(h, 60000);
    deduct("g", order_in(1), "", "a:1");
    answers(confirm("g", id, true), "CONFIRMED CONFIRMED  a:2:0");
    expect_stock("g", "a", 5, 0, 3);
}

/* ---- what a server remembers ---- */

TEST(a_server_that_remembers_wrongly_asks_the_group)
{
    put_in("g", "a", 8, N);
    deduct("g", order_in(1), "", "a:1");
    /* The store was emptied, and the group is another one now. */
    harness_redis(h, "FLUSHALL");
    put_item("g", "a", 5);
    answers(deduct("g", order_in(1), "", "a:1"), "DEDUCTED a:4");

    harness_redis(h, "FLUSHALL");
    put_in("g", "a", 8, 2);
    harness_server(h, "other");
    deduct("g", "o", "", "a:1");
    harness_server(h, "harness");
    answers(deduct("g", "o", "", "a:1"), "DEDUCTED again a:3");
}

/* One call, to the bucket of the order. */
TEST(an_order_that_its_bucket_can_serve_is_one_call)
{
    put_in("g", "a", 400, N);
    deduct("g", order_in(1), "", "a:1");
    fcalls_made();
    deduct("g", order_in(2), "", "a:1");
    assert_int_equal(fcalls_made(), 1);
}

/* ---- limits a buyer ---- */

static void put_with_limit(int64_t on_hand, int64_t limit)
{
    lks_put_item_request request = put_request("g", "a", on_hand);

    request.buckets = N;
    request.per_buyer_limit = limit;
    assert_non_null(put(&request));
}

TEST(a_buyer_has_one_limit_in_all_buckets)
{
    put_with_limit(400, 3);
    const char *first = order_in(1), *second = order_in(2), *third = order_in(3);
    answers(deduct("g", first, "bob", "a:2"), "DEDUCTED a:98");
    says_begin(answer_line(deduct("g", second, "bob", "a:2")), "BUYER_LIMIT a:");
    answers(deduct("g", first, "bob", "a:2"), "DEDUCTED again a:98");
    answers(deduct("g", second, "bob", "a:1"), "DEDUCTED a:99");
    says_begin(answer_line(deduct("g", third, "bob", "a:1")), "BUYER_LIMIT a:");
    answers(deduct("g", third, "eve", "a:3"), "DEDUCTED a:97");
    assert_null(deduct("g", order_in(4), "", "a:1"));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    assert_int_equal(get_item("g", "a")->per_buyer_limit, 3);
}

TEST(what_comes_back_does_not_count_for_the_limit)
{
    put_with_limit(400, 2);
    const char *sold = order_in(1), *held = order_in(2);
    says_begin(answer_line(deduct("g", sold, "bob", "a:1")), "DEDUCTED");
    says_begin(answer_line(reserve("g", held, "bob", "a:1", 60000)), "RESERVED");
    says_begin(answer_line(deduct("g", order_in(3), "bob", "a:1")), "BUYER_LIMIT");
    says_begin(answer_line(take_back("g", "r1", sold, "")), "RETURNED");
    says_begin(answer_line(deduct("g", order_in(4), "bob", "a:1")), "DEDUCTED");
    says_begin(answer_line(deduct("g", order_in(1), "bob", "a:1")), "BUYER_LIMIT");
    harness_advance_ms(h, 60000);
    says_begin(answer_line(deduct("g", order_in(1), "bob", "a:1")), "DEDUCTED");
    says_begin(answer_line(deduct("g", order_in(1), "bob", "a:1")), "BUYER_LIMIT");
}

/* A server dies between the claim and the order. */
TEST(a_claim_without_an_order_counts_for_a_while)
{
    put_with_limit(400, 1);
    const char *lost = order_in(1);
    lose("s.claimed_at = tonumber(claimed_at)");
    assert_null(deduct("g", lost, "bob", "a:1"));
    lose_nothing("s.claimed_at = tonumber(claimed_at)");
    says_begin(answer_line(deduct("g", order_in(2), "bob", "a:1")), "BUYER_LIMIT");
    harness_advance_ms(h, 14000);
    says_begin(answer_line(deduct("g", order_in(2), "bob", "a:1")), "BUYER_LIMIT");
    harness_advance_ms(h, 2000);
    says_begin(answer_line(deduct("g", order_in(2), "bob", "a:1")), "DEDUCTED");
    says_begin(answer_line(deduct("g", lost, "bob", "a:1")), "BUYER_LIMIT");
}

TEST(a_refused_order_leaves_no_claim)
{
    put_with_limit(4, 3);
    says_begin(answer_line(deduct("g", order_in(1), "eve", "a:3")), "DEDUCTED");
    answers(deduct("g", order_in(2), "bob", "a:2"), "SOLD_OUT a:1");
    answers(deduct("g", order_in(3), "bob", "a:2"), "SOLD_OUT a:1");
    says_begin(answer_line(deduct("g", order_in(3), "bob", "a:1")), "DEDUCTED");
}

TEST(a_repeat_that_is_refused_leaves_the_claim_of_the_first)
{
    put_with_limit(4, 3);
    says_begin(answer_line(deduct("g", order_in(1), "eve", "a:3")), "DEDUCTED");
    const char *id = order_in(2);
    lose("s.claimed_at = tonumber(claimed_at)");
    assert_null(deduct("g", id, "bob", "a:2"));
    lose_nothing("s.claimed_at = tonumber(claimed_at)");
    answers(deduct("g", id, "bob", "a:2"), "SOLD_OUT a:1");
    says_begin(answer_line(deduct("g", order_in(3), "bob", "a:2")), "BUYER_LIMIT");
}

/* Nothing would ever end a key that is made without an item. */
TEST(a_late_move_of_an_item_that_is_gone_leaves_no_key)
{
    put_in("g", "a", 40, N);
    assert_true(delete_item("g", "a"));
    remember();
    for (unsigned k = 0; k <= N; k += N)
        harness_redis(h, "FCALL stock_receive_%s 1 ls:{default/g/4/%u}: 6 a 1 %u 7 3 5", functions_digest,
                      stock_bucket_name(k), k);
    expect_unchanged();
}

/* ---- what a failover has lost ---- */

/* What a bucket, or the pool, has of the item now ... */
static void keep(unsigned bucket)
{
    const unsigned name = stock_bucket_name(bucket);

    harness_redis(h, "COPY ls:{default/g/4/%u}:stock:i:a ls:kept:i:%u REPLACE", name, bucket);
    harness_redis(h, "COPY ls:{default/g/4/%u}:stock:m:a ls:kept:m:%u REPLACE", name, bucket);
}

/* ... is what a failover leaves of it. */
static void set_back(unsigned bucket)
{
    const unsigned name = stock_bucket_name(bucket);

    harness_redis(h, "DEL ls:{default/g/4/%u}:stock:m:a", name);
    harness_redis(h, "COPY ls:kept:i:%u ls:{default/g/4/%u}:stock:i:a REPLACE", bucket, name);
    harness_redis(h, "COPY ls:kept:m:%u ls:{default/g/4/%u}:stock:m:a REPLACE", bucket, name);
}

TEST(an_item_of_which_units_were_lost_on_their_way_can_be_deleted)
{
    put_in("g", "a", 40, N);
    keep(2);
    answers(deduct("g", order_in(2), "", "a:20"), "DEDUCTED a:0");
    set_back(2);
    assert_true(delete_item("g", "a"));
    assert_null(get_item("g", "a"));
}

/* It is lost that the first bucket had given units. */
static void sell_twice(void)
{
    put_in("g", "a", 40, N);
    keep(1);
    answers(deduct("g", order_in(2), "", "a:16"), "DEDUCTED a:0");
    set_back(1);
    harness_advance_ms(h, 1000);
    answers(deduct("g", order_in(2), "", "a:30"), "DEDUCTED a:0");
}

TEST(an_item_of_which_too_much_was_sold_can_be_put)
{
    sell_twice();
    assert_non_null(put_in("g", "a", 44, 0));
}

TEST(an_item_of_which_too_much_was_sold_can_be_adjusted)
{
    sell_twice();
    assert_non_null(adjust("g", "a", 1, "j1"));
}

TEST(an_item_of_which_too_much_was_sold_can_be_deleted)
{
    sell_twice();
    assert_true(delete_item("g", "a"));
    for (unsigned k = 0; k <= N; k++)
        says(in_bucket("a", k), "none");
}

static void make_again(int64_t on_hand)
{
    assert_true(delete_item("g", "a"));
    harness_advance_ms(h, 1000);
    put_in("g", "a", on_hand, N);
}

/* The buckets have the item that was made later. */
TEST(a_pool_that_was_set_back_to_a_deleted_item_answers_and_can_be_deleted)
{
    put_in("g", "a", 40, N);
    keep(0);
    make_again(40);
    set_back(0);
    says_begin(answer_line(deduct("g", order_in(2), "", "a:16")), "SOLD_OUT");
    assert_true(delete_item("g", "a"));
    for (unsigned k = 0; k <= N; k++)
        says(in_bucket("a", k), "none");
}

TEST(units_of_an_item_that_was_made_later_are_not_asked_for)
{
    put_in("g", "a", 42, N);
    keep(0);
    keep(2);
    make_again(42);
    set_back(0);
    set_back(2);
    says_begin(answer_line(deduct("g", order_in(2), "", "a:12")), "DEDUCTED");
}

TEST(many_holds_that_are_over_keep_nobody_from_the_item)
{
    put_in("g", "a", 1200, N);
    for (unsigned i = 0; i < 210; i++)
        reserve("g", order_in(1), "", "a:1", 60000);
    harness_advance_ms(h, 60001);
    harness_alter(h, "local HOLDS_MAX, HOLD_LINES_MAX = 300, 600", "local HOLDS_MAX, HOLD_LINES_MAX = 1, 600");
    expect_stock("g", "a", 1200, 0, 0);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

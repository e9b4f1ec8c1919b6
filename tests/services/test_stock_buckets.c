/* Groups in buckets: an item that is kept in several groups, and is one item to all who ask. */
#include "hash.h"
#include "stock_script.h"

enum { N = 4 };

static const lks_item *put_in(const char *group, const char *sku, int64_t on_hand, int32_t buckets)
{
    lks_put_item_request request = put_request(group, sku, on_hand);

    request.buckets = buckets;
    return put(&request);
}

/* An order that lives in that bucket of N; each call another one. */
static const char *order_in(unsigned bucket)
{
    static char ids[64][16];
    static unsigned next, number;
    char *id = ids[next++ % 64];

    do
        snprintf(id, sizeof ids[0], "o%u", number++);
    while (1 + hash_folded(hash_more(HASH_START, id, strlen(id))) % N != bucket);
    return id;
}

/* What a bucket, or the pool (0), has by itself: "available reserved sold". */
static const char *in_bucket(const char *sku, unsigned bucket)
{
    return harness_redis(h, "EVAL %s 1 ls:{default/g/%d/%u}:stock:i:%s",
                         "local text = redis.call('GET', KEYS[1])\n"
                         "if not text then return 'none' end\n"
                         "local i = {struct.unpack('<Bdddddddddd', text)}\n"
                         "return string.format('%d %d %d', i[2], i[10], i[3])",
                         N, bucket, sku);
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
            assert_int_equal(sscanf(e->id, "%lld-%lld", &ms, &seq), 2);
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

TEST(a_refused_order_leaves_no_claim)
{
    put_with_limit(4, 3);
    says_begin(answer_line(deduct("g", order_in(1), "eve", "a:3")), "DEDUCTED");
    answers(deduct("g", order_in(2), "bob", "a:2"), "SOLD_OUT a:1");
    answers(deduct("g", order_in(3), "bob", "a:2"), "SOLD_OUT a:1");
    says_begin(answer_line(deduct("g", order_in(3), "bob", "a:1")), "DEDUCTED");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

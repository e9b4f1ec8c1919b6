/* Random requests against the service and against a model of it (stock_model.h): every
 * answer; after each request the items, and what the ledger adds up to.
 * LOCKSTOCK_SEED=n repeats a run, LOCKSTOCK_STEPS=n makes it longer. */
#include <time.h>
#include <unistd.h>

#include "stock_model.h"
#include "services/stock_buckets.h"
#include "stock_script.h"
#include "support/counts.h"

/* Holds last, and the clock moves, by so much that the run itself takes no time. */
#define UNIT_MS INT64_C(10000000)
#define RUN_MS 3600000

/* One group more, in buckets. What it tells of a line is of one bucket, so only what is told of SOLD_OUT is compared; which was
 * first of two entries of one millisecond in different buckets is not known. */
enum { GROUPS = 3, SPLIT = 2, BUCKETS = 4 };

static const char *const groups[GROUPS] = {"g", "h{}:/", "s{}:/"};
static const char *const encoded[GROUPS] = {"g", "h%7B%7D%3A%2F", "s%7B%7D%3A%2F"};

/* What the ledger adds up to. */
typedef struct account {
    int64_t available, reserved, sold;
} account;

static model_group model[GROUPS];
static account accounts[GROUPS][MODEL_SKUS];
static char ledger_at[GROUPS][64];
static int64_t now_ms;

static int below(int n)
{
    return (int)(random() % n);
}

static int number_of(const char *id)
{
    return atoi(id + 1);
}

/* ---- the ledger ---- */

static account *account_of(int g, const char *sku)
{
    for (int s = 0; s < MODEL_SKUS; s++)
        if (strcmp(model_skus[s], sku) == 0)
            return &accounts[g][s];
    fail_msg("the ledger names %s", sku);
    return NULL;
}

static void add_entry(int g, const lks_ledger_entry *e)
{
    static const account by_kind[] = {
        [LKS_LEDGER_KIND_PUT] = {1, 0, 0},         [LKS_LEDGER_KIND_ADJUSTED] = {1, 0, 0},
        [LKS_LEDGER_KIND_DEDUCTED] = {-1, 0, 1},   [LKS_LEDGER_KIND_RESERVED] = {-1, 1, 0},
        [LKS_LEDGER_KIND_CONFIRMED] = {0, -1, 1},  [LKS_LEDGER_KIND_CANCELLED] = {1, -1, 0},
        [LKS_LEDGER_KIND_EXPIRED] = {1, -1, 0},    [LKS_LEDGER_KIND_RETURNED] = {1, 0, -1},
        [LKS_LEDGER_KIND_TRANSFERRED] = {1, 0, 0},
    };
    account *of = account_of(g, e->sku);

    if (e->kind == LKS_LEDGER_KIND_DELETED && g == SPLIT) {
        of->available -= e->quantity;
        return;
    }
    if (e->kind == LKS_LEDGER_KIND_DELETED) {
        assert_int_equal(e->quantity, of->available);
        assert_int_equal(of->reserved, 0);
        *of = (account){0, 0, 0};
        return;
    }
    of->available += by_kind[e->kind].available * e->quantity;
    of->reserved += by_kind[e->kind].reserved * e->quantity;
    of->sold += by_kind[e->kind].sold * e->quantity;
    if (e->kind == LKS_LEDGER_KIND_EXPIRED)
        model[g].orders[number_of(e->order_id)].in_ledger = true;
}

static void read_on(int g)
{
    const lks_read_ledger_response *got = read_ledger(groups[g], ledger_at[g], 1000);

    assert_non_null(got);
    assert_int_equal(got->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    for (size_t i = 0; i < got->n_entries; i++)
        add_entry(g, got->entries[i]);
    if (got->n_entries > 0)
        snprintf(ledger_at[g], sizeof ledger_at[g], "%s", got->entries[got->n_entries - 1]->id);
}

/* Units of holds that are over and that no writer has met since. */
static int64_t not_in_ledger(int g, int sku)
{
    int64_t sum = 0;

    for (int o = 0; o < MODEL_ORDERS; o++) {
        const model_order *order = &model[g].orders[o];
        for (int i = 0; order->state == LKS_ORDER_STATE_EXPIRED && !order->in_ledger && i < order->n; i++)
            sum += order->lines[i].sku == sku ? order->lines[i].quantity : 0;
    }
    return sum;
}

/* ---- after each request ---- */

static void check_item(int g, int s)
{
    model_item *expected = &model[g].items[s];
    const account *sums = &accounts[g][s];
    const lks_item *got = get_item(groups[g], model_skus[s]);
    int64_t over = not_in_ledger(g, s);

    if (!!got != expected->exists)
        fail_msg("%s exists %s", model_skus[s], got ? "and should not" : "not and should");
    if (!got)
        return;
    if (got->available != expected->available || got->reserved != expected->reserved || got->sold != expected->sold)
        fail_msg("%s: %lld %lld %lld expected, got %lld %lld %lld", model_skus[s], (long long)expected->available,
                 (long long)expected->reserved, (long long)expected->sold, (long long)got->available,
                 (long long)got->reserved, (long long)got->sold);
    bool moved = g == SPLIT && got->version > expected->version; /* a refusal may have moved units */
    if (expected->touched ? got->version <= expected->version : got->version != expected->version && !moved)
        fail_msg("%s: version %lld after %lld, %s", model_skus[s], (long long)got->version,
                 (long long)expected->version, expected->touched ? "changed" : "unchanged");
    expected->version = got->version;
    expected->touched = false;
    if (sums->available + over != got->available || sums->reserved - over != got->reserved || sums->sold != got->sold)
        fail_msg("%s: the ledger adds up to %lld %lld %lld, and %lld are over", model_skus[s],
                 (long long)sums->available, (long long)sums->reserved, (long long)sums->sold, (long long)over);
}

static void check_group(int g)
{
    read_on(g);
    for (int s = 0; s < MODEL_SKUS; s++)
        check_item(g, s);
}

/* ---- items ---- */

static void step_put(int g)
{
    int s = below(MODEL_SKUS);
    model_item *item = &model[g].items[s];
    int64_t on_hand = below(25), limit = below(3) == 0 ? 1 + below(4) : 0;
    model_window next = below(6) == 0 ? (below(2) == 0 ? MODEL_NOT_OPEN : MODEL_CLOSED) : MODEL_OPEN;
    lks_put_item_request request = put_request(groups[g], model_skus[s], on_hand);

    request.per_buyer_limit = limit;
    request.buckets = g == SPLIT ? BUCKETS : 0;
    request.opens_in_ms = next == MODEL_NOT_OPEN ? INT64_C(1000000000000) : 0;
    request.closes_in_ms = next == MODEL_CLOSED ? 1 : 0;
    bool done = put(&request);
    if (next == MODEL_CLOSED)
        harness_advance_ms(h, 1);
    if (item->exists && on_hand < item->reserved + item->sold) {
        assert_false(done);
        expect_error(LKS_FAILED_PRECONDITION, "on_hand");
        return;
    }
    assert_true(done);
    if (!item->exists)
        *item = (model_item){.exists = true, .life = ++model[g].lives, .version = item->version};
    if (limit == 0 || item->limit == 0) {
        memset(item->held, 0, sizeof item->held);
        item->count = ++model[g].lives;
    }
    item->available = on_hand - item->reserved - item->sold;
    item->limit = limit;
    item->window = next;
    item->touched = true;
}

static void step_delete(int g)
{
    int s = below(MODEL_SKUS);
    model_item *item = &model[g].items[s];
    bool done = delete_item(groups[g], model_skus[s]);

    if (!item->exists) {
        expect_error(LKS_NOT_FOUND, "sku");
    } else if (item->reserved > 0) {
        expect_error(LKS_FAILED_PRECONDITION, "sku");
    } else {
        assert_true(done);
        item->exists = false;
        if (g == SPLIT) {
            read_on(g);
            assert_int_equal(accounts[g][s].available, 0);
            assert_int_equal(accounts[g][s].reserved, 0);
            accounts[g][s].sold = 0;
        }
    }
}

static void step_adjust(int g)
{
    int s = below(MODEL_SKUS), a = below(MODEL_ADJUSTMENTS);
    int64_t delta = below(2) == 0 ? -1 - below(8) : 1 + below(8);
    model_adjustment *first = &model[g].adjustments[a];
    char id[16];

    if (first->exists && below(2) == 0) {
        s = first->sku;
        delta = first->delta;
    }
    model_item *item = &model[g].items[s];
    snprintf(id, sizeof id, "a%d", a);
    const lks_adjust_response *got = adjust(groups[g], model_skus[s], delta, id);
    if (first->exists) {
        if (first->sku == s && first->delta == delta && g == SPLIT)
            assert_true(got && got->replayed);
        else if (first->sku == s && first->delta == delta)
            assert_true(got && got->replayed && got->item->available == first->available &&
                        got->item->reserved == first->reserved && got->item->sold == first->sold);
        else
            expect_error(LKS_ALREADY_EXISTS, "adjustment_id");
    } else if (!item->exists) {
        expect_error(LKS_NOT_FOUND, "sku");
    } else if (item->available + delta < 0) {
        expect_error(LKS_FAILED_PRECONDITION, "delta");
    } else {
        assert_true(got && !got->replayed);
        item->available += delta;
        item->touched = true;
        *first = (model_adjustment){.exists = true,
                                    .sku = s,
                                    .delta = delta,
                                    .available = item->available,
                                    .reserved = item->reserved,
                                    .sold = item->sold};
    }
}

/* ---- orders ---- */

static int random_lines(model_line *lines, int max_quantity)
{
    int n = 1 + below(MODEL_SKUS), first = below(MODEL_SKUS);

    for (int i = 0; i < n; i++)
        lines[i] = (model_line){.sku = (first + i) % MODEL_SKUS, .quantity = 1 + below(max_quantity)};
    return n;
}

static const char *lines_text(const model_line *lines, int n)
{
    static char text[MODEL_TEXT_BYTES];
    int len = 0;

    text[0] = '\0';
    for (int i = 0; i < n; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s:%lld ", model_skus[lines[i].sku],
                        (long long)lines[i].quantity);
    return text;
}

static void check_hold(int64_t hold_ms, const model_order *order)
{
    if (order->state == LKS_ORDER_STATE_RESERVED)
        assert_in_range(hold_ms, order->end_ms - now_ms - RUN_MS, order->end_ms - now_ms);
    else
        assert_int_equal(hold_ms, 0);
}

static void expect(const void *got, const ProtobufCEnumDescriptor *type, int outcome, bool again, const char *told)
{
    char expected[MODEL_TEXT_BYTES];

    snprintf(expected, sizeof expected, "%s%s%s%s", harness_word(type, outcome), again ? " again" : "",
             told[0] ? " " : "", told);
    answers(got, expected);
}

static void step_order(int g)
{
    int o = below(MODEL_ORDERS);
    model_order *first = &model[g].orders[o];
    model_order asked = {.how = below(3) == 0 ? MODEL_DEDUCT : MODEL_RESERVE, .buyer = below(MODEL_BUYERS)};
    int64_t hold_ms = (1 + below(3)) * UNIT_MS;
    char id[16], told[MODEL_TEXT_BYTES];
    const void *got;

    asked.n = random_lines(asked.lines, 4);
    asked.end_ms = now_ms + hold_ms;
    if ((first->how == MODEL_DEDUCT || first->how == MODEL_RESERVE) && below(2) == 0)
        asked = *first;
    snprintf(id, sizeof id, "o%d", o);
    const char *text = lines_text(asked.lines, asked.n), *buyer = model_buyers[asked.buyer];
    if (asked.how == MODEL_DEDUCT)
        got = deduct(groups[g], id, buyer, text);
    else
        got = reserve(groups[g], id, buyer, text, hold_ms);
    if (first->how == MODEL_CANCELLED_FIRST && asked.how == MODEL_RESERVE) {
        answers(got, "CANCELLED");
        return;
    }
    if (first->how == MODEL_CANCELLED_FIRST) {
        expect_error(LKS_FAILED_PRECONDITION, "order_id");
        return;
    }
    if (first->how != MODEL_NONE && !model_same_order(first, &asked)) {
        expect_error(LKS_ALREADY_EXISTS, "order_id");
        return;
    }
    if (first->how == MODEL_NONE && model_needs_buyer(&model[g], &asked)) {
        expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
        return;
    }
    bool again = first->how != MODEL_NONE;
    lks_deduct_outcome outcome = LKS_DEDUCT_OUTCOME_DEDUCTED;
    if (again)
        model_first_lines(first, told);
    else
        outcome = model_make_order(&model[g], o, asked, told);
    const ProtobufCEnumDescriptor *type = asked.how == MODEL_DEDUCT ? &lockstock__v1__deduct_outcome__descriptor
                                                                    : &lockstock__v1__reserve_outcome__descriptor;
    if (g == SPLIT && outcome != LKS_DEDUCT_OUTCOME_SOLD_OUT)
        says_begin(answer_line(got), harness_word(type, (int)outcome));
    else
        expect(got, type, (int)outcome, again, told);
    if (asked.how == MODEL_RESERVE)
        check_hold(((const lks_reserve_response *)got)->hold_ms, first);
}

static bool has_limit(const model_group *m, const model_order *order)
{
    for (int i = 0; i < order->n; i++)
        if (m->items[order->lines[i].sku].exists && m->items[order->lines[i].sku].limit > 0)
            return true;
    return false;
}

static void step_confirm(int g)
{
    int o = below(MODEL_ORDERS);
    bool reacquire = below(2) == 0 && !(g == SPLIT && has_limit(&model[g], &model[g].orders[o])), replayed;
    char id[16], told[MODEL_TEXT_BYTES];

    snprintf(id, sizeof id, "o%d", o);
    const lks_confirm_response *got = confirm(groups[g], id, reacquire);
    /* Who takes it again meets all that is over. */
    lks_confirm_outcome outcome = model_confirm(&model[g], o, reacquire, told, &replayed);
    expect(got, &lockstock__v1__confirm_outcome__descriptor, (int)outcome, replayed, told);
}

static void step_cancel(int g)
{
    int o = below(MODEL_ORDERS);
    bool replayed;
    char id[16], told[MODEL_TEXT_BYTES];

    snprintf(id, sizeof id, "o%d", o);
    const lks_cancel_response *got = cancel(groups[g], id, "");
    lks_cancel_outcome outcome = model_cancel(&model[g], o, told, &replayed);
    expect(got, &lockstock__v1__cancel_outcome__descriptor, (int)outcome, replayed, told);
}

static void step_extend(int g)
{
    int o = below(MODEL_ORDERS);
    int64_t hold_ms = (1 + below(3)) * UNIT_MS;
    char id[16];

    snprintf(id, sizeof id, "o%d", o);
    const lks_extend_hold_response *got = extend_hold(groups[g], id, hold_ms);
    assert_non_null(got);
    assert_int_equal(got->outcome, model_extend(&model[g], o, now_ms + hold_ms));
    check_hold(got->hold_ms, &model[g].orders[o]);
}

static bool same_return(const model_return *first, int order, const model_line *lines, int n)
{
    int matches = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < first->n; j++)
            matches += lines[i].sku == first->lines[j].sku && lines[i].quantity == first->lines[j].quantity;
    return first->order == order && first->n == n && matches == n;
}

static void step_return(int g)
{
    int r = below(MODEL_RETURNS), o = below(MODEL_ORDERS), n = 0;
    model_return *first = &model[g].returns[r];
    model_line lines[MODEL_SKUS];
    char id[16], order_id[16], told[MODEL_TEXT_BYTES];

    if (below(2) == 0)
        n = random_lines(lines, 2);
    if (first->exists && g == SPLIT)
        o = first->order; /* in buckets a return_id is one of its order */
    if (first->exists && below(2) == 0) {
        o = first->order;
        n = first->n;
        memcpy(lines, first->lines, sizeof lines);
    }
    snprintf(id, sizeof id, "r%d", r);
    snprintf(order_id, sizeof order_id, "o%d", o);
    const lks_return_response *got = take_back(groups[g], id, order_id, lines_text(lines, n));
    if (first->exists && !same_return(first, o, lines, n)) {
        expect_error(LKS_ALREADY_EXISTS, "return_id");
    } else if (first->exists) {
        expect(got, &lockstock__v1__return_outcome__descriptor, LKS_RETURN_OUTCOME_RETURNED, true, first->answer);
    } else {
        lks_return_outcome outcome = model_take_back(&model[g], o, lines, n, told);
        expect(got, &lockstock__v1__return_outcome__descriptor, (int)outcome, false, told);
        if (outcome == LKS_RETURN_OUTCOME_RETURNED) {
            *first = (model_return){.exists = true, .order = o, .n = n};
            memcpy(first->lines, lines, sizeof lines);
            snprintf(first->answer, sizeof first->answer, "%s", told);
        }
    }
}

static void step_look(int g)
{
    int o = below(MODEL_ORDERS);
    const model_order *order = &model[g].orders[o];
    char id[16], told[MODEL_TEXT_BYTES];

    snprintf(id, sizeof id, "o%d", o);
    const lks_order *got = get_order(groups[g], id);
    if (order->how == MODEL_NONE) {
        assert_null(got);
        expect_error(LKS_NOT_FOUND, "order_id");
        return;
    }
    model_order_text(order, order->state, told);
    assert_string_equal(order_text(got), told);
    check_hold(got->hold_ms, order);
}

/* ---- time ---- */

static void step_time(void)
{
    harness_advance_ms(h, UNIT_MS);
    now_ms += UNIT_MS;
    for (int g = 0; g < GROUPS; g++) {
        model_expire(&model[g], now_ms);
        check_group(g);
    }
}

static void ring_buckets(int g)
{
    char bucket[64];

    for (int k = 0; k <= BUCKETS; k++) {
        snprintf(bucket, sizeof bucket, "%s/%d/%u", encoded[g], BUCKETS, stock_bucket_name((unsigned)k));
        ring_lasting_alarm(bucket);
    }
}

static void step_lasting_alarm(int g)
{
    if (g == SPLIT)
        ring_buckets(g);
    int64_t ms = ring_lasting_alarm(encoded[g]), next = model_next_end(&model[g]);

    if (next < 0 || g == SPLIT)
        assert_int_equal(ms, -1);
    else
        assert_in_range(ms, next - now_ms - RUN_MS, next - now_ms);
    read_on(g);
    for (int s = 0; s < MODEL_SKUS; s++)
        assert_int_equal(not_in_ledger(g, s), 0);
}

/* In buckets an order counts towards a limit as long as it is remembered. */
static void end_limits(void)
{
    for (int s = 0; s < MODEL_SKUS; s++) {
        model_item *item = &model[SPLIT].items[s];
        if (!item->exists || item->limit == 0)
            continue;
        assert_non_null(put_item(groups[SPLIT], model_skus[s], item->available + item->reserved + item->sold));
        memset(item->held, 0, sizeof item->held);
        item->count = ++model[SPLIT].lives;
        item->limit = 0;
        item->window = MODEL_OPEN;
        item->touched = true;
    }
}

/* Records end, as after their retention. */
static void records_end(void)
{
    end_limits();
    for (int g = 0; g < GROUPS; g++) {
        step_lasting_alarm(g);
        model_forget(&model[g]);
    }
    harness_redis(h, "EVAL %s 0",
                  "for _, k in ipairs(redis.call('KEYS', '*}:stock:[oat]:*')) do "
                  "if redis.call('PTTL', k) > 0 then redis.call('DEL', k) end end");
}

/* The group is in buckets from the beginning. */
static void split_group(void)
{
    lks_put_item_request request = put_request(groups[SPLIT], model_skus[0], 0);

    request.buckets = BUCKETS;
    assert_non_null(put(&request));
    assert_true(delete_item(groups[SPLIT], model_skus[0]));
}

static void random_step(int g)
{
    int what = below(40);

    if (what < 3)
        step_put(g);
    else if (what < 7)
        step_adjust(g);
    else if (what < 8)
        step_delete(g);
    else if (what < 19)
        step_order(g);
    else if (what < 24)
        step_confirm(g);
    else if (what < 27)
        step_cancel(g);
    else if (what < 29)
        step_extend(g);
    else if (what < 34)
        step_return(g);
    else if (what < 36)
        step_look(g);
    else if (what < 38)
        step_time();
    else
        step_lasting_alarm(g);
}

TEST(random_requests_do_as_the_model)
{
    const char *seed_text = getenv("LOCKSTOCK_SEED"), *steps_text = getenv("LOCKSTOCK_STEPS");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
    size_t steps = steps_text ? (size_t)atoi(steps_text) : counts_of(8000, 100000);

    print_message("LOCKSTOCK_SEED=%u\n", seed);
    srandom(seed);
    split_group();
    for (size_t i = 0; i < steps; i++) {
        int g = below(GROUPS);
        random_step(g);
        check_group(g);
        if (i % 400 == 399)
            records_end();
        harness_forget(h);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

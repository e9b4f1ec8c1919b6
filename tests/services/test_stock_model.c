/* Random requests against the service and against a model of it: every answer,
 * the items after each request, and at the end what the ledger adds up to.
 * LOCKSTOCK_SEED=n repeats a run, LOCKSTOCK_STEPS=n makes it longer. */
#include <time.h>
#include <unistd.h>

#include "stock_script.h"

enum { GROUPS = 2, SKUS = 3, BUYERS = 3, ORDERS = 60, ADJUSTMENTS = 30, LINES_MAX = SKUS };

static const char *const groups[GROUPS] = {"g", "h{}:/"};
static const char *const skus[SKUS] = {"a", "b:b", "c"};
static const char *const buyers[BUYERS] = {"", "bob", "eve"};

typedef enum window { OPEN, NOT_OPEN, CLOSED } window;

typedef struct item {
    bool exists;
    int64_t available, sold, limit, held[BUYERS], version;
    window window;
    int64_t ledger_available, ledger_sold; /* what the ledger adds up to */
} item;

typedef struct line {
    int sku;
    int64_t quantity, left;
} line;

typedef struct order {
    bool exists;
    int buyer, n;
    line lines[LINES_MAX];
} order;

typedef struct adjustment {
    bool exists;
    int sku;
    int64_t delta, available, sold;
} adjustment;

static item items[GROUPS][SKUS];
static order orders[GROUPS][ORDERS];
static adjustment adjustments[GROUPS][ADJUSTMENTS];

static int below(int n)
{
    return (int)(random() % n);
}

/* A version of its own for each change. */
static void check_item(int g, int s, bool changed)
{
    item *model = &items[g][s];
    const lks_item *got = get_item(groups[g], skus[s]);

    if (!got || !model->exists) {
        if (got || model->exists)
            fail_msg("%s exists %s", skus[s], got ? "and should not" : "not and should");
        return;
    }
    if (got->available != model->available || got->sold != model->sold || got->reserved != 0 ||
        got->available + got->reserved + got->sold != model->available + model->sold)
        fail_msg("%s: available %lld sold %lld expected, got %lld and %lld", skus[s], (long long)model->available,
                 (long long)model->sold, (long long)got->available, (long long)got->sold);
    if (changed ? got->version <= model->version : got->version != model->version)
        fail_msg("%s: version %lld after %lld, %s", skus[s], (long long)got->version, (long long)model->version,
                 changed ? "changed" : "unchanged");
    model->version = got->version;
}

static void step_put(int g)
{
    int s = below(SKUS);
    item *model = &items[g][s];
    int64_t on_hand = below(20), limit = below(3) == 0 ? below(4) : 0;
    window next = below(4) == 0 ? (below(2) == 0 ? NOT_OPEN : CLOSED) : OPEN;
    lks_put_item_request request = put_request(groups[g], skus[s], on_hand);

    request.per_buyer_limit = limit;
    request.opens_in_ms = next == NOT_OPEN ? INT64_C(1000000000000) : 0;
    request.closes_in_ms = next == CLOSED ? 1 : 0;
    bool done = put(&request) != NULL;
    if (next == CLOSED)
        harness_advance_ms(h, 1);
    if (model->exists && on_hand < model->sold) {
        assert_false(done);
        expect_error(LKS_FAILED_PRECONDITION, "on_hand");
        check_item(g, s, false);
        return;
    }
    assert_true(done);
    if (!model->exists)
        model->sold = 0;
    if (limit == 0 || !model->exists)
        memset(model->held, 0, sizeof model->held);
    model->exists = true;
    model->available = on_hand - model->sold;
    model->limit = limit;
    model->window = next;
    check_item(g, s, true);
}

static void step_delete(int g)
{
    int s = below(SKUS);
    bool done = delete_item(groups[g], skus[s]);

    if (done != items[g][s].exists)
        fail_msg("DeleteItem: %s", err.message);
    items[g][s].exists = false;
}

static void step_adjust(int g)
{
    int s = below(SKUS), a = below(ADJUSTMENTS);
    int64_t delta = below(2) == 0 ? -1 - below(8) : 1 + below(8);
    item *model = &items[g][s];
    adjustment *first = &adjustments[g][a];
    char id[16];

    if (first->exists && below(2) == 0) {
        s = first->sku;
        delta = first->delta;
    }
    model = &items[g][s];
    snprintf(id, sizeof id, "adj%d", a);
    const lks_adjust_response *got = adjust(groups[g], skus[s], delta, id);
    if (first->exists) {
        if (first->sku == s && first->delta == delta)
            assert_true(got && got->replayed && got->item->available == first->available &&
                        got->item->sold == first->sold);
        else
            expect_error(LKS_ALREADY_EXISTS, "adjustment_id");
    } else if (!model->exists) {
        expect_error(LKS_NOT_FOUND, "sku");
    } else if (model->available + delta < 0) {
        expect_error(LKS_FAILED_PRECONDITION, "delta");
    } else {
        assert_true(got && !got->replayed);
        model->available += delta;
        *first = (adjustment){
            .exists = true, .sku = s, .delta = delta, .available = model->available, .sold = model->sold};
        check_item(g, s, true);
        return;
    }
    check_item(g, s, false);
}

/* Whether the order asks for what the first of its id asked for. */
static bool same_order(const order *a, const order *b)
{
    size_t matches = 0;

    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            matches += a->lines[i].sku == b->lines[j].sku && a->lines[i].quantity == b->lines[j].quantity;
    return a->buyer == b->buyer && a->n == b->n && matches == (size_t)a->n;
}

static lks_deduct_outcome outcome_of_line(const item *model, const order *asked, const line *l)
{
    if (!model->exists)
        return LKS_DEDUCT_OUTCOME_UNKNOWN_SKU;
    if (model->window == NOT_OPEN)
        return LKS_DEDUCT_OUTCOME_NOT_OPEN;
    if (model->window == CLOSED)
        return LKS_DEDUCT_OUTCOME_CLOSED;
    if (model->limit > 0 && model->held[asked->buyer] + l->quantity > model->limit)
        return LKS_DEDUCT_OUTCOME_BUYER_LIMIT;
    return model->available < l->quantity ? LKS_DEDUCT_OUTCOME_SOLD_OUT : LKS_DEDUCT_OUTCOME_DEDUCTED;
}

/* What the model answers to a new order: the outcome, and the lines told. */
static lks_deduct_outcome decide(int g, const order *asked, char *told, size_t size)
{
    static const lks_deduct_outcome gravest_first[] = {
        LKS_DEDUCT_OUTCOME_UNKNOWN_SKU, LKS_DEDUCT_OUTCOME_NOT_OPEN, LKS_DEDUCT_OUTCOME_CLOSED,
        LKS_DEDUCT_OUTCOME_BUYER_LIMIT, LKS_DEDUCT_OUTCOME_SOLD_OUT, LKS_DEDUCT_OUTCOME_DEDUCTED};

    for (size_t rank = 0; rank < 6; rank++) {
        size_t len = 0;
        told[0] = '\0';
        for (int i = 0; i < asked->n; i++) {
            const line *l = &asked->lines[i];
            const item *model = &items[g][l->sku];
            int64_t left = rank == 5 ? model->available - l->quantity : model->exists ? model->available : 0;
            if (outcome_of_line(model, asked, l) == gravest_first[rank])
                len += (size_t)snprintf(told + len, size - len, "%s%s:%lld", len > 0 ? " " : "", skus[l->sku],
                                        (long long)left);
        }
        if (len > 0)
            return gravest_first[rank];
    }
    return LKS_DEDUCT_OUTCOME_UNSPECIFIED;
}

static order random_order(void)
{
    order asked = {.exists = true, .buyer = below(BUYERS), .n = 1 + below(LINES_MAX)};
    int first = below(SKUS);

    for (int i = 0; i < asked.n; i++)
        asked.lines[i] = (line){.sku = (first + i) % SKUS, .quantity = 1 + below(4)};
    return asked;
}

static void step_deduct(int g)
{
    int o = below(ORDERS);
    order asked = random_order();
    order *first = &orders[g][o];
    char id[16], lines[256] = "", told[256] = "";
    bool buyer_needed = false;

    if (first->exists && below(2) == 0)
        asked = *first;
    snprintf(id, sizeof id, "o%d", o);
    for (int i = 0; i < asked.n; i++) {
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s:%lld ", skus[asked.lines[i].sku],
                 (long long)asked.lines[i].quantity);
        buyer_needed |= items[g][asked.lines[i].sku].exists && items[g][asked.lines[i].sku].limit > 0;
    }
    const lks_deduct_response *got = deduct(groups[g], id, buyers[asked.buyer], lines);
    lks_deduct_outcome outcome = LKS_DEDUCT_OUTCOME_UNSPECIFIED;
    if (first->exists && same_order(first, &asked)) {
        for (int i = 0; i < first->n; i++)
            snprintf(told + strlen(told), sizeof told - strlen(told), "%s%s:%lld", i > 0 ? " " : "",
                     skus[first->lines[i].sku], (long long)first->lines[i].left);
        expect_deduct(got, LKS_DEDUCT_OUTCOME_DEDUCTED, true, told);
    } else if (first->exists) {
        expect_error(LKS_ALREADY_EXISTS, "order_id");
    } else if (buyer_needed && asked.buyer == 0) {
        expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    } else {
        outcome = decide(g, &asked, told, sizeof told);
        expect_deduct(got, outcome, false, told);
    }
    for (int i = 0; i < asked.n; i++) {
        line *l = &asked.lines[i];
        item *model = &items[g][l->sku];
        if (outcome == LKS_DEDUCT_OUTCOME_DEDUCTED) {
            model->available -= l->quantity;
            model->sold += l->quantity;
            l->left = model->available;
            if (model->limit > 0)
                model->held[asked.buyer] += l->quantity;
        }
        check_item(g, l->sku, outcome == LKS_DEDUCT_OUTCOME_DEDUCTED);
    }
    if (outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
        *first = asked;
}

static item *item_named(int g, const char *sku)
{
    for (int s = 0; s < SKUS; s++)
        if (strcmp(skus[s], sku) == 0)
            return &items[g][s];
    fail_msg("the ledger names %s", sku);
    return NULL;
}

static void add_entry(int g, const lks_ledger_entry *e)
{
    item *of = item_named(g, e->sku);

    if (e->kind == LKS_LEDGER_KIND_DEDUCTED) {
        of->ledger_available -= e->quantity;
        of->ledger_sold += e->quantity;
    } else if (e->kind == LKS_LEDGER_KIND_DELETED) {
        assert_int_equal(e->quantity, of->ledger_available);
        of->ledger_available = of->ledger_sold = 0;
    } else {
        of->ledger_available += e->quantity;
    }
}

static void the_ledger_adds_up(int g)
{
    char after[64] = "";

    for (;;) {
        const lks_read_ledger_response *got = read_ledger(groups[g], after, 7);
        assert_non_null(got);
        assert_int_equal(got->outcome, LKS_READ_LEDGER_OUTCOME_OK);
        if (got->n_entries == 0)
            break;
        for (size_t i = 0; i < got->n_entries; i++)
            add_entry(g, got->entries[i]);
        snprintf(after, sizeof after, "%s", got->entries[got->n_entries - 1]->id);
    }
    for (int s = 0; s < SKUS; s++) {
        const item *model = &items[g][s];
        assert_int_equal(model->ledger_available, model->exists ? model->available : 0);
        assert_int_equal(model->ledger_sold, model->exists ? model->sold : 0);
    }
}

static void random_requests_do_as_the_model(void **state)
{
    const char *seed_text = getenv("LOCKSTOCK_SEED"), *steps_text = getenv("LOCKSTOCK_STEPS");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
    int steps = steps_text ? atoi(steps_text) : 6000;

    (void)state;
    print_message("LOCKSTOCK_SEED=%u\n", seed);
    srandom(seed);
    for (int i = 0; i < steps; i++) {
        int g = below(GROUPS), what = below(20);
        if (what < 3)
            step_put(g);
        else if (what < 7)
            step_adjust(g);
        else if (what < 8)
            step_delete(g);
        else
            step_deduct(g);
        /* Ids are used up: orders and adjustments end, as after their retention. */
        if (i % 400 == 399) {
            harness_redis(h, "EVAL %s 0",
                          "for _, k in ipairs(redis.call('KEYS', '*}:stock:[oa]:*')) do redis.call('DEL', k) end");
            memset(orders, 0, sizeof orders);
            memset(adjustments, 0, sizeof adjustments);
        }
        harness_forget(h);
    }
    for (int g = 0; g < GROUPS; g++)
        the_ledger_adds_up(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {STOCK_TEST(random_requests_do_as_the_model)};
    return cmocka_run_group_tests(tests, start_harness, stop_harness);
}

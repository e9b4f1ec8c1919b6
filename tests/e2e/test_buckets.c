/* A sale of an item in eight buckets through two servers, of which one is killed again and again: exact, and what the callers were told,
 * the item and the ledger are the same. LOCKSTOCK_SOAK: 10,000 buyers. */
/* promise SB7 */
#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/counts.h"
#include "support/two_servers.h"
#include "test.h"

enum { BUCKETS = 8, UNITS = 100, THREADS = 16, TIMEOUT_MS = 120000, ID_BYTES = 24, BUYERS_MAX = 10000 };

typedef struct sale {
    two_servers two;
    lks_channel *channels[2]; /* each to both, its own first */
    const char *group;        /* each test its own: the store may be that of all */
    size_t buyers;
    atomic_size_t next, done, faults;
    atomic_bool sold[BUYERS_MAX]; /* as the buyers were told */
    char fault[256];
    bool again, takes_back;
} sale;

static int setup(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", NULL};
    sale *s = calloc(1, sizeof *s);
    char urls[160];

    *state = s;
    if (!two_servers_start(&s->two, &(redis_fixture_options){.append_only = true},
                           (server_fixture_options){.args = args}))
        return -1;
    for (int i = 0; i < 2; i++) {
        snprintf(urls, sizeof urls, "%s,%s", server_fixture_url(s->two.servers[i]),
                 server_fixture_url(s->two.servers[1 - i]));
        if (lks_channel_open(urls, NULL, &s->channels[i], NULL) != LKS_OK)
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    sale *s = *state;

    for (int i = 0; i < 2; i++)
        lks_channel_close(s->channels[i]);
    two_servers_end(&s->two);
    free(s);
    return 0;
}

static void fault(sale *s, const char *what, const char *text)
{
    if (atomic_fetch_add(&s->faults, 1) == 0)
        snprintf(s->fault, sizeof s->fault, "%s: %s", what, text);
}

static const lks_call_options patient = {.timeout_ms = TIMEOUT_MS};

static void put(sale *s, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = s->group;
    request.sku = "hot";
    request.on_hand = on_hand;
    request.buckets = BUCKETS;
    if (lks_stock_put_item(s->channels[0], &request, &patient, NULL, &error) != LKS_OK)
        fail_msg("PutItem: %s", error.message);
}

/* ---- buyers ---- */

static void buy(sale *s, size_t buyer)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_deduct_response *response = NULL;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    char id[ID_BYTES];
    lks_error error;

    snprintf(id, sizeof id, "order-%zu", buyer);
    request.group = s->group;
    request.order_id = id;
    line.sku = "hot";
    line.quantity = 1;
    request.lines = lines;
    request.n_lines = 1;
    if (lks_stock_deduct(s->channels[buyer % 2], &request, &patient, &response, &error) != LKS_OK) {
        fault(s, id, error.message);
        return;
    }
    bool sold = response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED;
    if (!sold && response->outcome != LKS_DEDUCT_OUTCOME_SOLD_OUT)
        fault(s, id, lks_deduct_outcome_name(response->outcome));
    if (s->again && (atomic_load(&s->sold[buyer]) != sold || response->replayed != sold))
        fault(s, id, "a repeat is told something else");
    atomic_store(&s->sold[buyer], sold);
    lks_deduct_response_free(response);
}

static void take_back(sale *s, size_t buyer)
{
    lks_return_request request = LKS_RETURN_REQUEST_INIT;
    lks_return_response *response = NULL;
    char id[ID_BYTES], return_id[ID_BYTES];
    lks_error error;

    snprintf(id, sizeof id, "order-%zu", buyer);
    snprintf(return_id, sizeof return_id, "return-%zu", buyer);
    request.group = s->group;
    request.order_id = id;
    request.return_id = return_id;
    if (lks_stock_return(s->channels[buyer % 2], &request, &patient, &response, &error) != LKS_OK)
        fault(s, return_id, error.message);
    else if (response->outcome != LKS_RETURN_OUTCOME_RETURNED)
        fault(s, return_id, lks_return_outcome_name(response->outcome));
    lks_return_response_free(response);
}

static void *run_buyers(void *arg)
{
    sale *s = arg;

    for (size_t buyer; (buyer = atomic_fetch_add(&s->next, 1)) < s->buyers;) {
        buy(s, buyer);
        /* Every second one that got a unit gives it back, for somebody else. */
        if (s->takes_back && atomic_load(&s->sold[buyer]) && buyer % 2 == 0)
            take_back(s, buyer);
        atomic_fetch_add(&s->done, 1);
    }
    return NULL;
}

static void kill_and_restart(sale *s, int which)
{
    server_fixture_kill(s->two.servers[which]);
    if (!server_fixture_restart(s->two.servers[which]))
        fail_msg("server %d does not start again", which);
}

/* All buyers once; servers are killed in turns as long as they buy, `kills` times at most. */
static void all_buy(sale *s, int kills)
{
    pthread_t threads[THREADS];

    atomic_store(&s->next, 0);
    atomic_store(&s->done, 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_buyers, s), 0);
    for (int i = 0; i < kills && atomic_load(&s->done) < s->buyers; i++) {
        while (atomic_load(&s->done) * (size_t)(kills + 1) < s->buyers * (size_t)(i + 1))
            process_pause();
        kill_and_restart(s, i % 2);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&s->faults) > 0)
        fail_msg("%s", s->fault);
}

static size_t told_sold(sale *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->buyers; i++)
        n += atomic_load(&s->sold[i]);
    return n;
}

/* ---- what is there ---- */

static void expect_item(sale *s, int64_t available, int64_t sold)
{
    for (int i = 0; i < 2; i++) {
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        lks_get_item_response *response = NULL;
        request.group = s->group;
        request.sku = "hot";
        assert_int_equal(lks_stock_get_item(s->channels[i], &request, &patient, &response, NULL), LKS_OK);
        assert_int_equal(response->item->available, available);
        assert_int_equal(response->item->reserved, 0);
        assert_int_equal(response->item->sold, sold);
        lks_get_item_response_free(response);
    }
}

/* The ledger adds up to the item, sells only to those who were told so, each once, and each move has come that was sent, but for
 * those on their way. */
static void expect_ledger(sale *s, int64_t available, int64_t sold)
{
    int64_t sum = 0, sums_sold = 0;
    char after[64] = "";
    bool *named = calloc(s->buyers, sizeof *named);

    for (size_t n = 1; n > 0;) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        lks_read_ledger_response *response = NULL;
        request.group = s->group;
        request.after = after;
        request.limit = 1000;
        assert_int_equal(lks_stock_read_ledger(s->channels[0], &request, &patient, &response, NULL), LKS_OK);
        assert_int_equal(response->outcome, LKS_READ_LEDGER_OUTCOME_OK);
        n = response->n_entries;
        for (size_t i = 0; i < n; i++) {
            const lks_ledger_entry *e = response->entries[i];
            const size_t prefix = strlen("order-");
            if (e->kind == LKS_LEDGER_KIND_DEDUCTED) {
                assert_memory_equal(e->order_id, "order-", prefix);
                size_t buyer = strtoull(e->order_id + prefix, NULL, 10);
                assert_true(buyer < s->buyers && !named[buyer] && atomic_load(&s->sold[buyer]));
                named[buyer] = true;
                sums_sold += e->quantity;
                sum -= e->quantity;
            } else if (e->kind == LKS_LEDGER_KIND_RETURNED) {
                sums_sold -= e->quantity;
                sum += e->quantity;
            } else {
                sum += e->quantity;
            }
            snprintf(after, sizeof after, "%s", e->id);
        }
        lks_read_ledger_response_free(response);
    }
    free(named);
    assert_int_equal(sums_sold, sold);
    assert_int_equal(sum, available);
}

/* Most units are in no bucket when the sale begins, so each has to be pulled, and the last ones from wherever they are. */
static void adjust(sale *s, int64_t delta)
{
    lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
    lks_error error;

    request.group = s->group;
    request.sku = "hot";
    request.adjustment_id = "more";
    request.delta = delta;
    if (lks_stock_adjust(s->channels[0], &request, &patient, NULL, &error) != LKS_OK)
        fail_msg("Adjust: %s", error.message);
}

TEST(ten_thousand_buyers_get_a_hundred_units)
{
    sale *s = *state;

    s->group = "hundred";
    s->buyers = counts_of(1500, BUYERS_MAX);
    put(s, UNITS / 2);
    adjust(s, UNITS / 2);
    all_buy(s, (int)counts_of(2, 6));
    assert_int_equal(told_sold(s), UNITS);
    expect_item(s, 0, UNITS);
    s->again = true;
    all_buy(s, 0);
    assert_int_equal(told_sold(s), UNITS);
    expect_item(s, 0, UNITS);
    expect_ledger(s, 0, UNITS);
}

/* As many units as buyers, half of them taken back: at the end all the others were sold, and the servers were killed while units
 * were under way. */
TEST(nothing_is_lost_on_the_way)
{
    sale *s = *state;

    s->group = "returned";
    s->buyers = counts_of(600, 6000);
    s->takes_back = true;
    put(s, 0);
    adjust(s, (int64_t)s->buyers);
    all_buy(s, (int)counts_of(4, 20));
    assert_int_equal(told_sold(s), s->buyers);
    const int64_t half = (int64_t)s->buyers / 2;
    expect_item(s, half, half);
    /* Everything is still there, wherever it is: one order takes it all. */
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_deduct_response *response = NULL;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    request.group = s->group;
    request.order_id = "rest";
    line.sku = "hot";
    line.quantity = half;
    request.lines = lines;
    request.n_lines = 1;
    assert_int_equal(lks_stock_deduct(s->channels[0], &request, &patient, &response, NULL), LKS_OK);
    assert_int_equal(response->outcome, LKS_DEDUCT_OUTCOME_DEDUCTED);
    lks_deduct_response_free(response);
    expect_item(s, 0, (int64_t)s->buyers);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

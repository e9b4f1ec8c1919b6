/* A thousand threads on two servers, over channels that they share: each answer is the one that a sequential model
 * gives, with calls that ride together, batches that share what they read, and refusals from memory.
 * LOCKSTOCK_SEED=n varies the run. */
/* promise S56: of many calls at once each is answered as in a sequence, with shared FCALLs, shared messages and
 * SOLD_OUT from memory */

#include "sequential.h"
#include "support/counts.h"
#include "support/two_servers.h"
#include "test.h"

enum { THREADS = 200, THREADS_SOAK = 1000, CALLS = 150, CALLS_SOAK = 200 };

typedef struct fixture {
    two_servers two;
    sequential all;
} fixture;

static int setup(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    return two_servers_start(&f->two, NULL, (server_fixture_options){.args = args}) ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < SEQ_CHANNELS; i++)
        lks_channel_close(f->all.channels[i]);
    sequential_close(&f->all);
    two_servers_end(&f->two);
    free(f);
    return 0;
}

/* The first fault, with what the servers say of it. */
static void expect_no_fault(fixture *f)
{
    if (atomic_load(&f->all.n_faults) == 0)
        return;
    for (size_t i = 0; i < SEQ_SERVERS; i++)
        print_message("%s", process_output(server_fixture_process(f->two.servers[i])));
    fail_msg("%s", f->all.fault);
}

static void put_item(fixture *f, int group, int sku, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_put_item_response *response = NULL;
    lks_error error;

    request.group = sequential_groups[group];
    request.sku = model_skus[sku];
    request.on_hand = on_hand;
    request.per_buyer_limit = sku == SEQ_LIMITED ? SEQ_BUYER_LIMIT : 0;
    if (lks_stock_put_item(f->all.channels[0], &request, NULL, &response, &error) != LKS_OK)
        fail_msg("PutItem: %s", error.message);
    f->all.on_hand[sku] = on_hand;
    f->all.versions[group][sku] = response->item->version;
    lks_put_item_response_free(response);
}

static void open_all(fixture *f, size_t n_threads, size_t calls_each)
{
    static const int64_t on_hand[MODEL_SKUS] = {
        [SEQ_SCARCE] = 500, [SEQ_PLENTY] = INT64_C(1) << 40, [SEQ_LIMITED] = 5000};

    assert_true(n_threads * (calls_each + 32) <= MODEL_ORDERS);
    assert_true(sequential_open(&f->all, n_threads, calls_each));
    for (size_t i = 0; i < SEQ_CHANNELS; i++)
        assert_int_equal(
            lks_channel_open(server_fixture_url(f->two.servers[i % SEQ_SERVERS]), NULL, &f->all.channels[i], NULL),
            LKS_OK);
    for (int g = 0; g < SEQ_GROUPS; g++)
        for (int i = 0; i < MODEL_SKUS; i++)
            put_item(f, g, i, on_hand[i]);
}

static void run_threads(fixture *f, size_t n)
{
    const char *seed = getenv("LOCKSTOCK_SEED");
    uint64_t first = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003;
    pthread_t *threads = calloc(n, sizeof *threads);
    sequential_worker *workers = calloc(n, sizeof *workers);

    for (size_t i = 0; i < n; i++) {
        workers[i] = (sequential_worker){.all = &f->all, .seed = (first + i) * UINT64_C(0x9E3779B97F4A7C15) | 1};
        assert_int_equal(pthread_create(&threads[i], NULL, sequential_run, &workers[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(workers);
}

/* promise E1: available >= 0 and on_hand = available + reserved + sold at each look, through two servers, while 200
 * threads reserve, confirm, cancel, return and adjust; also when holds end */
/* promise E2: the ledger never leads below zero at any entry, each line passes through its states, and in the end
 * ledger, items, orders and answers agree */
/* promise E3: no buyer is ever over the limit, by the ledger */
/* promise E4: a repeat of any effect, at once, later, or through another server, changes nothing and gets the first
 * answer */
/* promise E5: a Cancel before its Reserve; more is never returned than was sold */
TEST(each_answer_is_that_of_a_sequential_model)
{
    fixture *f = *state;
    size_t n = counts_of(THREADS, THREADS_SOAK);

    open_all(f, n, counts_of(CALLS, CALLS_SOAK));
    run_threads(f, n);
    expect_no_fault(f);
    sequential_judge(&f->all);
    expect_no_fault(f);
    size_t checks = atomic_load(&f->all.n_checks);
    assert_int_equal(atomic_load(&f->all.n_allowed), checks < SEQ_LIMIT ? checks : SEQ_LIMIT);
    assert_true(f->all.seen.fresh_sold_out > 0 && f->all.seen.replays > 0);
    print_message("    %zu calls, %zu effects, %zu sold out (%zu fresh, %zu of them of before the call), %zu again\n",
                  atomic_load(&f->all.n_ops), f->all.seen.effects, f->all.seen.sold_out, f->all.seen.fresh_sold_out,
                  f->all.seen.older, f->all.seen.replays);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

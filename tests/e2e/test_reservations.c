/* Reservations by sixteen threads on two servers: the equations of stock hold at every
 * look, the ledger adds up to the same, and every effect that is repeated changes
 * nothing and is answered the same. LOCKSTOCK_SEED=n varies the run. */
/* promise E2: the ledger, entry by entry, never leads below zero, each line goes through its states, and in the end
 * it, the items, the orders and what was told are the same */
/* promise E3: no buyer is ever over the limit, by the ledger */
/* promise E4: every effect that is repeated, at once, later, by another thread, by another server, and all of them in
 * the end, changes nothing and is the first answer */
/* promise E5: a Cancel before its Reserve; more is never returned than was sold */

#include "reservations.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { TIMEOUT_MS = 60000, STALL_MS = 300000 };

typedef struct fixture {
    redis_fixture *redis;
    server_fixture *servers[STORM_SERVERS];
    storm storm;
    books books[STORM_GROUPS];
} fixture;

static int start(void **state, bool keeps)
{
    static const char *const args[] = {"--allow-unsafe-store", "--sweep-ms", "500", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    f->redis = redis_fixture_start(&(redis_fixture_options){.append_only = keeps});
    if (!f->redis)
        return -1;
    for (int i = 0; i < STORM_SERVERS; i++) {
        f->servers[i] =
            server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(f->redis), .args = args});
        if (!f->servers[i])
            return -1;
    }
    return 0;
}

static int setup(void **state)
{
    return start(state, false);
}

/* With a Redis that keeps what it answered. */
static int setup_lasting(void **state)
{
    return start(state, true);
}

static int teardown(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < STORM_SERVERS; i++)
        lks_channel_close(f->storm.channels[i]);
    for (int i = 0; i < STORM_GROUPS; i++)
        books_close(&f->books[i]);
    storm_close(&f->storm);
    for (int i = 0; i < STORM_SERVERS; i++)
        server_fixture_free(f->servers[i]);
    redis_fixture_free(f->redis);
    free(f);
    return 0;
}

/* The first fault that a thread wrote down. */
static void expect_no_fault(fixture *f)
{
    if (atomic_load(&f->storm.n_faults) > 0)
        fail_msg("%s", f->storm.fault);
}

static void put_goods(fixture *f)
{
    for (int g = 0; g < STORM_GROUPS; g++)
        for (int i = 0; i < STORM_GOODS; i++) {
            lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
            lks_error error;
            request.group = storm_group(g);
            request.sku = storm_good(i);
            request.on_hand = f->storm.goods[g][i].initial;
            request.per_buyer_limit = storm_limit(i);
            request.must_be_new = true;
            if (lks_stock_put_item(f->storm.channels[0], &request, NULL, NULL, &error) != LKS_OK)
                fail_msg("PutItem: %s", error.message);
        }
}

static void open_storm(fixture *f, size_t n, bool is_lossy)
{
    char urls[160];
    const char *seed = getenv("LOCKSTOCK_SEED");

    assert_true(storm_open(&f->storm, n, seed ? strtoull(seed, NULL, 10) : 1));
    f->storm.is_lossy = is_lossy;
    f->storm.options = (lks_call_options){.timeout_ms = TIMEOUT_MS, .no_retry = !is_lossy};
    for (int i = 0; i < STORM_SERVERS; i++) {
        snprintf(urls, sizeof urls, "%s,%s", server_fixture_url(f->servers[i]), server_fixture_url(f->servers[1 - i]));
        assert_int_equal(lks_channel_open(urls, NULL, &f->storm.channels[i], NULL), LKS_OK);
    }
    for (int i = 0; i < STORM_GROUPS; i++)
        assert_true(books_open(&f->books[i], &f->storm, i));
    put_goods(f);
}

/* Each good as both servers tell it, versions too, in one text. */
static void snapshot(fixture *f, int server, char *text, size_t size)
{
    size_t at = 0;

    for (int g = 0; g < STORM_GROUPS; g++) {
        lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
        lks_list_items_response *response = NULL;
        request.group = storm_group(g);
        assert_int_equal(lks_stock_list_items(f->storm.channels[server], &request, NULL, &response, NULL), LKS_OK);
        assert_int_equal(response->n_items, STORM_GOODS);
        for (size_t i = 0; i < response->n_items; i++) {
            const lks_item *item = response->items[i];
            at += (size_t)snprintf(text + at, size - at, "%s/%s %lld %lld %lld v%lld\n", item->group, item->sku,
                                   (long long)item->available, (long long)item->reserved, (long long)item->sold,
                                   (long long)item->version);
            assert_true(at < size);
        }
        lks_list_items_response_free(response);
    }
}

/* The goods are what the ledger adds up to. */
static void expect_goods_as_booked(fixture *f)
{
    for (int g = 0; g < STORM_GROUPS; g++)
        for (int i = 0; i < STORM_GOODS; i++) {
            lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
            lks_get_item_response *response = NULL;
            request.group = storm_group(g);
            request.sku = storm_good(i);
            assert_int_equal(lks_stock_get_item(f->storm.channels[1], &request, NULL, &response, NULL), LKS_OK);
            assert_int_equal(response->item->available, f->books[g].available[i]);
            assert_int_equal(response->item->reserved, 0);
            assert_int_equal(f->books[g].reserved[i], 0);
            assert_int_equal(response->item->sold, f->books[g].sold[i]);
            lks_get_item_response_free(response);
        }
}

/* Waits until so many orders are done. */
static void until_done(fixture *f, size_t n)
{
    long long end = process_now_ms() + STALL_MS;

    while (atomic_load(&f->storm.done) < n && atomic_load(&f->storm.n_faults) == 0) {
        if (process_now_ms() > end)
            fail_msg("the storm stands still at %zu orders", atomic_load(&f->storm.done));
        process_pause();
    }
}

static void run_all(pthread_t *threads, size_t n, void *(*run)(void *), void *arg)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, arg), 0);
}

static void join_all(pthread_t *threads, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

typedef enum victim { SERVERS, REDIS } victim;

/* One server, then the other; or Redis each time. */
static void kill_one(fixture *f, victim what, size_t turn)
{
    if (what == REDIS) {
        redis_fixture_kill(f->redis);
        assert_true(redis_fixture_restart(f->redis));
    } else {
        server_fixture_kill(f->servers[turn % STORM_SERVERS]);
        assert_true(server_fixture_restart(f->servers[turn % STORM_SERVERS]));
    }
}

/* The whole storm, with `kills` kills. */
static void rage(fixture *f, victim what, size_t kills)
{
    pthread_t workers[STORM_THREADS], looking[STORM_SERVERS], following[STORM_GROUPS];
    reader readers[STORM_SERVERS];
    storm *s = &f->storm;

    run_all(workers, STORM_THREADS, storm_worker, s);
    for (int i = 0; i < STORM_SERVERS; i++) {
        readers[i] = (reader){.storm = s, .server = i, .seed = (uint64_t)i + 1};
        run_all(&looking[i], 1, storm_reader, &readers[i]);
    }
    for (int i = 0; i < STORM_GROUPS; i++)
        run_all(&following[i], 1, books_follow, &f->books[i]);
    for (size_t i = 0; i < kills; i++) {
        until_done(f, (i + 1) * s->n_orders / (kills + 1));
        kill_one(f, what, i);
    }
    join_all(workers, STORM_THREADS);
    atomic_store(&s->over, true);
    join_all(looking, STORM_SERVERS);
    join_all(following, STORM_GROUPS);
    expect_no_fault(f);
}

/* Every effect once more, on the other server: nothing moves. */
static void repeat_all(fixture *f)
{
    char before[2048], after[2048];
    pthread_t checkers[STORM_THREADS];

    snapshot(f, 0, before, sizeof before);
    snapshot(f, 1, after, sizeof after);
    assert_string_equal(before, after);
    atomic_store(&f->storm.taken, 0);
    run_all(checkers, STORM_THREADS, storm_checker, &f->storm);
    join_all(checkers, STORM_THREADS);
    expect_no_fault(f);
    snapshot(f, 1, after, sizeof after);
    assert_string_equal(before, after);
    for (int i = 0; i < STORM_GROUPS; i++)
        assert_int_equal(books_read(&f->books[i], 1), 0);
}

static size_t told_times(const fixture *f, effect_kind kind, int outcome)
{
    return atomic_load(&f->storm.outcomes[kind][outcome]);
}

/* The storm met what it was made for. */
static void expect_variety(fixture *f)
{
    size_t entries = 0;

    for (int i = 0; i < STORM_GROUPS; i++) {
        entries += f->books[i].entries;
        for (int kind = LKS_LEDGER_KIND_ADJUSTED; kind <= LKS_LEDGER_KIND_RETURNED; kind++)
            assert_true(f->books[i].kinds[kind] > 0);
    }
    static const struct {
        effect_kind kind;
        int outcome;
    } wanted[] = {
        {EFFECT_RESERVE, LKS_RESERVE_OUTCOME_RESERVED},        {EFFECT_RESERVE, LKS_RESERVE_OUTCOME_SOLD_OUT},
        {EFFECT_RESERVE, LKS_RESERVE_OUTCOME_BUYER_LIMIT},     {EFFECT_RESERVE, LKS_RESERVE_OUTCOME_CANCELLED},
        {EFFECT_CONFIRM, LKS_CONFIRM_OUTCOME_CONFIRMED},       {EFFECT_CONFIRM, LKS_CONFIRM_OUTCOME_EXPIRED},
        {EFFECT_CONFIRM, LKS_CONFIRM_OUTCOME_SOLD_OUT},        {EFFECT_CONFIRM, LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER},
        {EFFECT_EXTEND, LKS_EXTEND_HOLD_OUTCOME_EXTENDED},     {EFFECT_CANCEL, LKS_CANCEL_OUTCOME_CANCELLED},
        {EFFECT_CANCEL, LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED}, {EFFECT_CANCEL, LKS_CANCEL_OUTCOME_UNKNOWN_ORDER},
        {EFFECT_RETURN, LKS_RETURN_OUTCOME_RETURNED},          {EFFECT_RETURN, LKS_RETURN_OUTCOME_TOO_MANY},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (told_times(f, wanted[i].kind, wanted[i].outcome) == 0)
            fail_msg("kind %d was never told %d", (int)wanted[i].kind, wanted[i].outcome);
    print_message("    %zu orders, %zu reserved, %zu looks, %zu repeats, %zu twice at once, %zu ledger entries\n",
                  f->storm.n_orders, told_times(f, EFFECT_RESERVE, LKS_RESERVE_OUTCOME_RESERVED),
                  atomic_load(&f->storm.reads), atomic_load(&f->storm.repeats), atomic_load(&f->storm.races), entries);
}

static void weather(fixture *f, size_t n, victim what, size_t kills)
{
    open_storm(f, n, kills > 0);
    rage(f, what, kills);
    for (int i = 0; i < STORM_GROUPS; i++)
        books_compare(&f->books[i]);
    expect_no_fault(f);
    expect_goods_as_booked(f);
    repeat_all(f);
    expect_variety(f);
}

/* promise E1 */
TEST(the_books_are_balanced_and_repeats_change_nothing)
{
    weather(*state, counts_of(2000, 140000), SERVERS, 0);
}

/* promise E1: available >= 0 and on_hand = available + reserved + sold at each look, through two servers, while 16
 * threads reserve, confirm, cancel, extend, return, adjust and let holds end */
TEST(the_books_are_balanced_while_servers_are_killed)
{
    weather(*state, counts_of(1500, 20000), SERVERS, counts_of(2, 20));
}

/* promise E1 */
TEST_WITH(the_books_are_balanced_while_redis_is_killed, setup_lasting, teardown)
{
    weather(*state, counts_of(1500, 20000), REDIS, counts_of(2, 10));
}

TEST_MAIN(.setup = setup, .teardown = teardown)

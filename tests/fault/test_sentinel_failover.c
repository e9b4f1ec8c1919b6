/* A real Sentinel set loses its primary in the middle of a sale: the answers that a failover may lose are counted, and
 * a replaced primary gets no more calls. */
/* promise T19: the primary is the one that sentinels name by the newest configuration; a demoted primary is left at
 * once; a lost one is verified before use; a password is sent only where most sentinels of the URL agree */

#include <pthread.h>
#include <signal.h>

#include <lockstock/v1/lock.lks_client.h>

#include "sale.h"
#include "support/counts.h"
#include "support/redis_set_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { PATIENCE_MS = 120000, STALL_MS = 120000, REPLICAS = 2, SENTINELS = 3 };

static redis_set *set;
static server_fixture *server;
static lks_channel *channel;

static int start(void **state)
{
    set = redis_sentinel_start(REPLICAS, SENTINELS);
    return set ? 0 : -1;
}

static int stop(void **state)
{
    redis_set_free(set);
    return 0;
}

static void open_server(const char *const *args)
{
    const lks_channel_options few = {.in_flight_max = 64};

    server = server_fixture_start(&(server_fixture_options){.store = redis_set_url(set), .args = args});
    assert_non_null(server);
    assert_int_equal(lks_channel_open(server_fixture_url(server), &few, &channel, NULL), LKS_OK);
}

static void close_server(void)
{
    lks_channel_close(channel);
    assert_true(server_fixture_stop(server, STALL_MS));
    server_fixture_free(server);
}

typedef struct selling {
    flash_sale sale;
    sale_result result;
    bool started;
    pthread_t thread;
} selling;

static void *sell(void *arg)
{
    selling *s = arg;

    s->started = sell_by_async(&s->sale, channel, &s->result);
    return NULL;
}

static void prepare_sale(selling *s)
{
    lks_error error;

    *s = (selling){.sale = {.n_goods = 1,
                            .stock = (int64_t)counts_of(2000, 8000),
                            .n_buyers = counts_of(2500, 10000),
                            .patience_ms = PATIENCE_MS}};
    if (sale_open(&s->sale, channel, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

static void begin_sale(selling *s)
{
    assert_int_equal(pthread_create(&s->thread, NULL, sell, s), 0);
}

static void wait_answers(selling *s, size_t n)
{
    long long end = process_now_ms() + STALL_MS;

    while (atomic_load(&s->sale.answered) < n) {
        if (process_now_ms() > end)
            fail_msg("the sale stands still at %zu answers", atomic_load(&s->sale.answered));
        process_pause();
    }
}

/* The pids of all nodes but one; call it while all answer. */
static void pids_but(unsigned short but, pid_t pids[REPLICAS])
{
    size_t n = 0;

    for (size_t i = 0; i <= REPLICAS; i++)
        if (redis_set_port(set, i) != but)
            pids[n++] = redis_set_pid(set, redis_set_port(set, i));
}

static void signal_all(const pid_t pids[REPLICAS], int number)
{
    for (size_t i = 0; i < REPLICAS; i++)
        kill(pids[i], number);
}

/* Buyers got more sales than the ledger of the new primary has: the difference is lost. */
static size_t end_sale(selling *s)
{
    sale_result result = {0};
    lks_error error;

    pthread_join(s->thread, NULL);
    assert_true(s->started);
    if (sale_check(&s->sale, channel, &result, &error) != LKS_OK)
        fail_msg("%s", error.message);
    size_t lost = result.sold - result.goods[0].orders;
    print_message("    %zu sold, %zu refused, %zu without an answer, %zu lost%s%s\n", result.sold, result.refused,
                  result.unsettled, lost, result.exact ? "" : ": ", result.why);
    assert_int_equal(result.unsettled, 0);
    assert_true(lost > 0 || result.exact);
    sale_close(&s->sale);
    return lost;
}

/* Calls that this Redis has run, of functions. */
static long calls_of(unsigned short port)
{
    char *text = redis_set_command(set, port, "INFO commandstats");
    const char *at = text ? strstr(text, "cmdstat_fcall:calls=") : NULL;
    long calls = at ? strtol(at + strlen("cmdstat_fcall:calls="), NULL, 10) : 0;

    free(text);
    return calls;
}

TEST(requested_failover_is_followed)
{
    selling s;

    open_server(NULL);
    prepare_sale(&s);
    begin_sale(&s);
    wait_answers(&s, 1000);
    assert_true(redis_set_failover(set, redis_set_primary(set, 0)) > 0);
    end_sale(&s);
    close_server();
    assert_true(redis_set_wait(set));
}

/* It was frozen, so it was not demoted, and acts as the primary when it wakes. */
TEST(a_primary_that_comes_back_gets_no_call)
{
    unsigned short old = redis_set_primary(set, 0);
    pid_t pid = redis_set_pid(set, old);
    selling s;

    open_server(NULL);
    prepare_sale(&s);
    begin_sale(&s);
    wait_answers(&s, 100);
    kill(pid, SIGSTOP);
    assert_true(redis_set_failover(set, old) > 0);
    wait_answers(&s, 1000); /* by the new one */
    pthread_join(s.thread, NULL);
    kill(pid, SIGCONT);
    assert_true(redis_set_wait(set));
    long calls = calls_of(old);
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    get.group = s.sale.group;
    get.sku = s.sale.skus[0];
    for (int i = 0; i < 100; i++)
        assert_int_equal(lks_stock_get_item(channel, &get, NULL, NULL, NULL), LKS_OK);
    assert_int_equal(calls_of(old), calls);
    sale_close(&s.sale);
    close_server();
}

/* The state of a caller from before the loss. */
typedef struct witness {
    uint64_t fence;
    char entry[64];   /* position of the reader of the sale's ledger */
    char split[2304]; /* and that of a group in buckets */
} witness;

static uint64_t take_lock(void)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_response *response = NULL;
    lks_error error;

    target.name = "till";
    request.group = "shop";
    request.targets = targets;
    request.n_targets = 1;
    request.lease_ms = 10; /* it ends by itself */
    request.wait_ms = 5000;
    if (lks_lock_acquire(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(response->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    uint64_t fence = response->fences[0]->fence;
    lks_acquire_response_free(response);
    return fence;
}

static lks_read_ledger_outcome read_ledger(const char *group, const char *after, char *next, size_t size)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_error error;

    request.group = group;
    request.after = after;
    request.limit = 1000;
    if (lks_stock_read_ledger(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    lks_read_ledger_outcome outcome = response->outcome;
    if (next)
        snprintf(next, size, "%s", response->next_after);
    lks_read_ledger_response_free(response);
    return outcome;
}

static void split_group(void)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = "split";
    request.sku = "a";
    request.on_hand = 100;
    request.buckets = 4;
    assert_int_equal(lks_stock_put_item(channel, &request, NULL, NULL, NULL), LKS_OK);
}

/* Some of each bucket, most likely; the last one is of one of them. */
static void sell_split(void)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};

    line.sku = "a";
    line.quantity = 1;
    request.group = "split";
    request.lines = lines;
    request.n_lines = 1;
    for (unsigned i = 0; i < 16; i++) {
        char id[16];
        snprintf(id, sizeof id, "split-%u", i);
        request.order_id = id;
        assert_int_equal(lks_stock_deduct(channel, &request, NULL, NULL, NULL), LKS_OK);
    }
}

static witness see(const selling *s)
{
    witness w = {.fence = take_lock()};

    sell_split();
    assert_int_equal(read_ledger(s->sale.group, "", w.entry, sizeof w.entry), LKS_READ_LEDGER_OUTCOME_OK);
    assert_int_equal(read_ledger("split", "", w.split, sizeof w.split), LKS_READ_LEDGER_OUTCOME_OK);
    assert_string_not_equal(w.entry, "0-0");
    return w;
}

/* The next fence is higher, and a reader of a lost entry gets TRIMMED. */
static void check_witness(const selling *s, const witness *w)
{
    assert_true(take_lock() > w->fence);
    assert_int_equal(read_ledger(s->sale.group, w->entry, NULL, 0), LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("split", w->split, NULL, 0), LKS_READ_LEDGER_OUTCOME_TRIMMED);
}

/* Changes that were answered while no replica had them, before the primary died. */
static size_t lose_unreplicated(bool answered)
{
    unsigned short old = redis_set_primary(set, 0);
    pid_t replicas[REPLICAS];
    witness w = {0};
    selling s;

    pids_but(old, replicas);
    prepare_sale(&s);
    if (answered) {
        split_group();
        assert_true(redis_set_wait(set)); /* all replicas have it */
    }
    long calls = calls_of(old) + 1;
    signal_all(replicas, SIGSTOP);
    free(redis_set_command(set, old, "CLIENT KILL TYPE replica")); /* nor do their sockets get any */
    begin_sale(&s);
    for (long long end = process_now_ms() + STALL_MS; calls_of(old) < calls;)
        assert_true(process_now_ms() < end); /* it has run some that no replica has */
    if (answered)
        w = see(&s);
    assert_true(redis_set_kill(set, old));
    signal_all(replicas, SIGCONT);
    assert_true(redis_set_failover(set, old) > 0);
    if (answered)
        check_witness(&s, &w);
    size_t lost = end_sale(&s);
    assert_true(redis_set_restart(set, old));
    assert_true(redis_set_wait(set));
    return lost;
}

/* promise SB23 */
/* promise T23 */
TEST(unreplicated_writes_are_lost_and_counted)
{
    open_server(NULL);
    assert_true(lose_unreplicated(true) > 0);
    close_server();
}

/* promise T20: with `--wait-replicas` no answer or wake message comes before that many replicas have the change; with
 * fewer confirmations the call is asked again or MAYBE; with fewer connected the server is not ready */
TEST(writes_confirmed_by_a_replica_are_not_lost)
{
    static const char *const wait[] = {"--wait-replicas", "1", NULL};

    open_server(wait);
    assert_int_equal(lose_unreplicated(false), 0);
    close_server();
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)

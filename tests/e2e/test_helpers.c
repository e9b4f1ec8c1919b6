/* lks_once, lks_limiter and lks_reservation on two real servers and one Redis, with
 * processes that are killed and frozen while they use them. */

#include <signal.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

/* LEASE_MS is for leases that must not expire on a busy machine, KEPT_MS for those that must not
 * expire while they are renewed, SHORT_MS for those whose end a test awaits. */
enum { LIMIT_MS = 60000, LEASE_MS = 60000, KEPT_MS = 4000, SHORT_MS = 1500, LONG_MS = 120000 };

static struct {
    redis_fixture *redis;
    server_fixture *servers[2];
    lks_channel *channels[2]; /* each to its own server only */
} two;
static char gate[256];

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};

    two.redis = redis_fixture_start(NULL);
    assert_non_null(two.redis);
    const server_fixture_options options = {.args = unsafe, .store = redis_fixture_url(two.redis)};
    for (int i = 0; i < 2; i++) {
        two.servers[i] = server_fixture_start(&options);
        assert_non_null(two.servers[i]);
        assert_int_equal(lks_channel_open(server_fixture_url(two.servers[i]), NULL, &two.channels[i], NULL), LKS_OK);
    }
    snprintf(gate, sizeof gate, "%s/gate", redis_fixture_dir(two.redis));
    return 0;
}

static int teardown(void **state)
{
    unlink(gate);
    for (int i = 0; i < 2; i++) {
        lks_channel_close(two.channels[i]);
        server_fixture_free(two.servers[i]);
    }
    redis_fixture_free(two.redis);
    return 0;
}

static void open_gate(void)
{
    FILE *file = fopen(gate, "w");

    assert_non_null(file);
    fclose(file);
}

/* ---- once -------------------------------------------------------------------------- */

static process *spawn_once(int server, const char *key, uint32_t lease_ms, const char *name)
{
    char lease[16];

    snprintf(lease, sizeof lease, "%u", lease_ms);
    const char *const argv[] = {HELPER_PATH, "once", server_fixture_url(two.servers[server]), key, lease, name,
                                gate,        NULL};
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    return p;
}

static void assert_line(process *p, const char *text)
{
    if (!process_wait_line(p, text, NULL, 0, LIMIT_MS))
        fail_msg("no \"%s\" in: %s", text, process_output(p));
}

static void assert_ended(process *p, const char *text)
{
    assert_line(p, text);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);
}

/* The result of a run in the test's own process. */
struct run {
    int runs;
    int64_t number;
    uint64_t fence;
    /* Done in the function. */
    uint32_t lasts_ms;
    lks_once_outcome other; /* of another attempt at the end of it */
};

static lks_once_verdict run_here(void *arg, lks_once_attempt *attempt);

static lks_once_outcome once_here(int server, const char *key, uint32_t wait_ms, uint32_t lease_ms, struct run *run,
                                  char body[32])
{
    const lks_once_options options = {.scope = "pay", .key = key, .lease_ms = lease_ms, .wait_ms = wait_ms};
    lks_once_result *result;
    lks_error error;
    lks_once_outcome outcome = lks_once_run(two.channels[server], &options, run_here, run, &result, &error);

    if (outcome == LKS_ONCE_FAILED)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    snprintf(body, 32, "%s", result ? (const char *)result->body : "-");
    lks_once_result_free(result);
    return outcome;
}

static lks_once_verdict run_here(void *arg, lks_once_attempt *attempt)
{
    struct run *run = arg, nested = {.runs = 0};
    char body[32];

    run->runs++;
    run->number = lks_once_number(attempt);
    run->fence = lks_once_fence(attempt);
    for (long long until_ms = process_now_ms() + run->lasts_ms; process_now_ms() < until_ms;)
        process_pause();
    if (run->lasts_ms != 0)
        run->other = once_here(1, "order-1", 0, SHORT_MS, &nested, body);
    lks_once_return(attempt, 200, "here", 4);
    return LKS_ONCE_STORE;
}

/* The second click comes to another server while the first one runs. */
/* promise C13 */
/* promise E9: limiter, once and reservation together: two clicks at two servers are one order, one payment, one lamp */
TEST(test_a_double_click_of_two_processes_runs_once)
{
    struct run late = {.runs = 0};
    char body[32];

    process *first = spawn_once(0, "order-1", LEASE_MS, "first");
    assert_line(first, "running attempt=1");
    process *second = spawn_once(1, "order-1", LEASE_MS, "second");
    assert_line(second, "asking");
    open_gate();
    assert_ended(first, "ended outcome=0 body=first replayed=0");
    assert_line(second, "ended outcome=1 body=first replayed=1");
    assert_null(strstr(process_output(second), "running"));
    assert_true(process_exited_with(second, 0, LIMIT_MS));
    process_free(second);
    assert_int_equal(once_here(0, "order-1", 0, LEASE_MS, &late, body), LKS_ONCE_REPLAYED);
    assert_string_equal(body, "first");
    assert_int_equal(late.runs, 0);
}

/* Whoever wakes late finds the other's result, and cannot overwrite it. */
/* promise C13 */
TEST(test_a_frozen_attempt_wakes_late)
{
    struct run run = {.runs = 0}, late = {.runs = 0};
    char body[32];

    process *frozen = spawn_once(0, "order-1", SHORT_MS, "frozen");
    assert_line(frozen, "running attempt=1");
    process_signal(frozen, SIGSTOP);
    assert_int_equal(once_here(1, "order-1", LONG_MS, LEASE_MS, &run, body), LKS_ONCE_EXECUTED);
    assert_int_equal(run.runs, 1);
    assert_int_equal(run.number, 2);
    open_gate();
    process_signal(frozen, SIGCONT);
    assert_line(frozen, "through lost=1");
    assert_ended(frozen, "ended outcome=3 body=here replayed=1");
    assert_int_equal(once_here(0, "order-1", 0, LEASE_MS, &late, body), LKS_ONCE_REPLAYED);
    assert_string_equal(body, "here");
}

/* promise C13 */
/* promise E12: a worker that follows the ledger and settles by `lks_once` settles each order once, wherever it is
 * killed */
TEST(test_a_killed_attempt_is_taken_over)
{
    struct run run = {.runs = 0};
    char body[32];

    process *killed = spawn_once(0, "order-1", SHORT_MS, "killed");
    assert_line(killed, "running attempt=1");
    process_kill(killed);
    assert_int_equal(once_here(1, "order-1", LONG_MS, LEASE_MS, &run, body), LKS_ONCE_EXECUTED);
    assert_int_equal(run.runs, 1);
    assert_int_equal(run.number, 2);
    assert_string_equal(body, "here");
    process_free(killed);
}

/* promise C13: two processes run once; a frozen process cannot overwrite the result; a killed one is replaced;
 * several leases are kept */
TEST(test_an_attempt_of_several_leases_is_kept)
{
    struct run run = {.lasts_ms = 2 * KEPT_MS, .other = LKS_ONCE_EXECUTED};
    char body[32];

    assert_int_equal(once_here(0, "order-1", 0, KEPT_MS, &run, body), LKS_ONCE_EXECUTED);
    assert_int_equal(run.other, LKS_ONCE_IN_PROGRESS);
    assert_int_equal(run.number, 1);
}

/* ---- limiter --------------------------------------------------------------------------- */

static lks_limiter *new_limiter(bool fail_open)
{
    lks_limit bound = LKS_LIMIT_INIT;
    const lks_limiter_rule rule = {.limit = &bound};
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1, .fail_open = fail_open, .timeout_ms = 300};
    lks_limiter *limiter = NULL;
    lks_error error;

    bound.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    bound.limit = 3;
    bound.period_ms = 3600000;
    if (lks_limiter_new(two.channels[0], &options, &limiter, &error) != LKS_OK)
        fail_msg("%s", error.message);
    return limiter;
}

/* promise C19: a limit holds over two servers; a refund counts once; servers may go and come back */
TEST(test_a_limiter_without_servers)
{
    lks_limiter *closed = new_limiter(false), *open = new_limiter(true);
    lks_limiter_decision decision;

    for (int i = 0; i < 2; i++)
        server_fixture_kill(two.servers[i]);
    assert_false(lks_limiter_allow(closed, "user-1", 1, NULL, NULL));
    assert_true(lks_limiter_allow(open, "user-1", 1, &decision, NULL));
    assert_true(decision.unchecked);
    assert_true(server_fixture_restart(two.servers[0]));
    while (!lks_limiter_allow(closed, "user-1", 1, &decision, NULL))
        process_pause();
    assert_int_equal(decision.outcome, LKS_CHECK_OUTCOME_ALLOWED);
    lks_limiter_free(closed);
    lks_limiter_free(open);
}

/* ---- reservations ------------------------------------------------------------------------- */

static void put_seats(int64_t on_hand)
{
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;

    item.sku = "seat";
    item.on_hand = on_hand;
    assert_int_equal(lks_stock_put_item(two.channels[0], &item, NULL, NULL, NULL), LKS_OK);
}

static int64_t available_seats(void)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;

    request.sku = "seat";
    assert_int_equal(lks_stock_get_item(two.channels[1], &request, NULL, &response, NULL), LKS_OK);
    int64_t available = response->item->available;
    lks_get_item_response_free(response);
    return available;
}

static lks_reserve_outcome reserve(const char *order_id, uint32_t hold_ms, lks_reservation **ret)
{
    const lks_reservation_line line = {.sku = "seat", .quantity = 1};
    const lks_reservation_order order = {.order_id = order_id, .lines = &line, .n_lines = 1, .hold_ms = hold_ms};
    lks_error error;
    lks_reserve_outcome outcome = lks_reservation_make(two.channels[1], &order, ret, &error);

    if (outcome == LKS_RESERVE_OUTCOME_UNSPECIFIED)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    return outcome;
}

/* It is kept while its process runs, for longer than its hold, and not after the process has died. */
/* promise C27 */
TEST(test_reservation_of_a_killed_process_is_returned)
{
    lks_reservation *reservation = NULL;
    char hold[16];

    put_seats(1);
    snprintf(hold, sizeof hold, "%d", KEPT_MS);
    const char *const argv[] = {HELPER_PATH, "reserve", server_fixture_url(two.servers[0]), "order-1", hold, NULL};
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    assert_line(p, "reserved");
    for (long long until_ms = process_now_ms() + 2 * KEPT_MS; process_now_ms() < until_ms;)
        process_pause();
    assert_int_equal(reserve("order-2", LONG_MS, &reservation), LKS_RESERVE_OUTCOME_SOLD_OUT);
    process_kill(p);
    while (reserve("order-3", LONG_MS, &reservation) != LKS_RESERVE_OUTCOME_RESERVED)
        process_pause();
    assert_int_equal(lks_reservation_confirm(reservation, false, NULL), LKS_CONFIRM_OUTCOME_CONFIRMED);
    lks_reservation_free(reservation);
    assert_int_equal(available_seats(), 0);
    process_free(p);
}

/* promise C27: a killed process's reservation comes back at the end of its hold; the end of the block gives back at
 * once */
TEST(test_the_end_of_the_block_gives_back)
{
    put_seats(2);
    {
        LKS_RESERVATION lks_reservation *first = NULL, *second = NULL;
        assert_int_equal(reserve("order-1", LONG_MS, &first), LKS_RESERVE_OUTCOME_RESERVED);
        assert_int_equal(reserve("order-2", LONG_MS, &second), LKS_RESERVE_OUTCOME_RESERVED);
        assert_int_equal(available_seats(), 0);
        assert_int_equal(lks_reservation_confirm(first, false, NULL), LKS_CONFIRM_OUTCOME_CONFIRMED);
    }
    assert_int_equal(available_seats(), 1);
    lks_reservation *again = NULL;
    assert_int_equal(reserve("order-2", LONG_MS, &again), LKS_RESERVE_OUTCOME_RESERVED);
    assert_true(lks_reservation_is_replayed(again)); /* what it was, and it is over */
    assert_true(lks_reservation_is_lost(again));
    assert_int_equal(lks_reservation_confirm(again, true, NULL), LKS_CONFIRM_OUTCOME_CANCELLED);
    lks_reservation_free(again);
    assert_int_equal(available_seats(), 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

/* Calls that wait, on two real servers and one Redis, while a server is killed or frozen
 * and Redis is away or emptied: nobody sleeps on where nothing is in the way any more.
 * None of the waits ends by itself before ctest would end the test. */

#include <signal.h>
#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/two_servers.h"
#include "test.h"

enum { WAIT_MS = 600000, LONG_MS = 600000, PATIENCE_MS = 200000 };

/* One call that waits. The callback records, the main thread asserts. */
typedef struct waiting {
    atomic_bool done;
    lks_code code;
    int outcome;
    char error[256];
} waiting;

static two_servers two;
static waiting calls[4];

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    static const redis_fixture_options options = {.append_only = true};

    two = (two_servers){0};
    memset(calls, 0, sizeof calls);
    return two_servers_start(&two, &options, (server_fixture_options){.args = unsafe}) ? 0 : -1;
}

static int teardown(void **state)
{
    two_servers_end(&two);
    return 0;
}

/* ---- locks ------------------------------------------------------------------------ */

/* The request for the names, words of one letter each. */
typedef struct wanted {
    lks_acquire_request request;
    lks_target target[2], *targets[2];
    char name[2][2];
} wanted;

static void want(wanted *w, const char *token, const char *names, int64_t lease_ms, int64_t wait_ms)
{
    *w = (wanted){.request = LKS_ACQUIRE_REQUEST_INIT};
    w->request.group = "g";
    w->request.token = token;
    w->request.lease_ms = lease_ms;
    w->request.wait_ms = wait_ms;
    w->request.targets = w->targets;
    for (; *names; names++) {
        size_t i = w->request.n_targets++;
        w->target[i] = (lks_target)LKS_TARGET_INIT;
        w->name[i][0] = *names;
        w->target[i].name = w->name[i];
        w->targets[i] = &w->target[i];
    }
}

static int acquire(lks_channel *channel, const char *token, const char *names, int64_t lease_ms)
{
    wanted w;
    lks_error error;
    lks_acquire_response *response = NULL;

    want(&w, token, names, lease_ms, 0);
    if (lks_lock_acquire(channel, &w.request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    int outcome = (int)response->outcome;
    lks_acquire_response_free(response);
    return outcome;
}

static void answered(waiting *call, lks_code code, int outcome, const lks_error *error)
{
    call->code = code;
    call->outcome = outcome;
    snprintf(call->error, sizeof call->error, "%s", error ? error->message : "");
    atomic_store(&call->done, true);
}

static void on_acquired(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    answered(arg, code, response ? (int)response->outcome : 0, error);
}

/* It stands in the queue of the last of its names when this returns. */
static void start_acquire(waiting *call, lks_channel *channel, const char *token, const char *names, int64_t wait_ms)
{
    const lks_call_options once = {.no_retry = true};
    char command[160];
    wanted w;
    lks_error error;

    want(&w, token, names, LONG_MS, wait_ms);
    if (lks_lock_acquire_start(channel, &w.request, &once, on_acquired, call, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
    snprintf(command, sizeof command, "ZSCORE ls:{default/g}:lock:w:%c %s", names[strlen(names) - 1], token);
    for (bool stands = false; !stands;) {
        char *reply = redis_fixture_command(two.redis, command);
        stands = reply && strncmp(reply, "$-1", 3) != 0;
        free(reply);
    }
}

static void expect(waiting *call, int outcome)
{
    while (!atomic_load(&call->done))
        process_pause();
    if (call->code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(call->code), call->error);
    assert_int_equal(call->outcome, outcome);
}

/* promise L50 */
TEST(who_waits_behind_a_killed_server_is_granted)
{
    assert_int_equal(acquire(two.channels[1], "the-holder-of-x-", "x", LONG_MS), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    start_acquire(&calls[0], two.channels[0], "the-first-waiter", "xy", WAIT_MS);
    start_acquire(&calls[1], two.channels[1], "the-other-waiter", "y", WAIT_MS);
    server_fixture_kill(two.servers[0]);
    expect(&calls[1], LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

/* promise L50 */
TEST(who_waits_behind_a_stopped_server_is_granted)
{
    assert_int_equal(acquire(two.channels[1], "the-holder-of-x-", "x", LONG_MS), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    start_acquire(&calls[0], two.channels[0], "the-first-waiter", "xy", WAIT_MS);
    start_acquire(&calls[1], two.channels[1], "the-other-waiter", "y", WAIT_MS);
    assert_true(server_fixture_stop(two.servers[0], PATIENCE_MS));
    expect(&calls[1], LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

/* The frozen server parks the first of both names, and alone looks when the lease ends. */
/* promise L50 */
TEST(who_waits_behind_a_frozen_server_is_granted)
{
    assert_int_equal(acquire(two.channels[1], "the-holder-of-x-", "x", 2000), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    start_acquire(&calls[0], two.channels[0], "the-first-waiter", "xy", WAIT_MS);
    start_acquire(&calls[1], two.channels[1], "the-other-waiter", "y", WAIT_MS);
    process_signal(server_fixture_process(two.servers[0]), SIGSTOP);
    expect(&calls[1], LKS_ACQUIRE_OUTCOME_ACQUIRED);
    process_signal(server_fixture_process(two.servers[0]), SIGCONT);
}

/* Redis is away as the wait ends: the waiter is answered, and what it left goes when
 * Redis is back. It would bar y for 20 minutes. */
/* promise L52 */
TEST(what_a_failed_withdrawal_left_bars_nobody)
{
    assert_int_equal(acquire(two.channels[1], "the-holder-of-x-", "x", LONG_MS), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    start_acquire(&calls[0], two.channels[0], "the-first-waiter", "xy", 2000);
    redis_fixture_kill(two.redis);
    while (!atomic_load(&calls[0].done))
        process_pause();
    assert_int_not_equal(calls[0].code, LKS_OK);
    assert_true(redis_fixture_restart(two.redis));
    long long end = process_now_ms() + PATIENCE_MS;
    int outcome = 0;
    while (outcome != LKS_ACQUIRE_OUTCOME_ACQUIRED && process_now_ms() < end)
        outcome = acquire(two.channels[1], "who-tries-lock-y", "y", LONG_MS);
    assert_int_equal(outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

/* ---- all that wait ----------------------------------------------------------------- */

static void on_ledger(void *arg, lks_code code, const lks_read_ledger_response *response, const lks_error *error)
{
    answered(arg, code, response ? (int)response->outcome : 0, error);
}

static void on_begun(void *arg, lks_code code, const lks_begin_response *response, const lks_error *error)
{
    answered(arg, code, response ? (int)response->outcome : 0, error);
}

static void begin_request(lks_begin_request *request, const char *token, int64_t wait_ms)
{
    *request = (lks_begin_request)LKS_BEGIN_REQUEST_INIT;
    request->scope = "s";
    request->key = "k";
    request->attempt_token = token;
    request->lease_ms = LONG_MS;
    request->wait_ms = wait_ms;
}

static void put_item(void)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = request.sku = "g";
    request.on_hand = 1;
    if (lks_stock_put_item(two.channels[0], &request, NULL, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

static void start_reader(waiting *call)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *all = NULL;
    lks_error error;

    put_item();
    request.group = "g";
    if (lks_stock_read_ledger(two.channels[0], &request, NULL, &all, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_true(all->n_entries > 0);
    request.after = all->entries[all->n_entries - 1]->id;
    request.wait_ms = WAIT_MS;
    if (lks_stock_read_ledger_start(two.channels[0], &request, NULL, on_ledger, call, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
    lks_read_ledger_response_free(all);
}

static void start_begin(waiting *call)
{
    lks_begin_request request;
    lks_begin_response *response = NULL;
    lks_error error;

    begin_request(&request, "the-first-attempt", 0);
    if (lks_idempotency_begin(two.channels[0], &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(response->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    lks_begin_response_free(response);
    begin_request(&request, "the-other-attempt", WAIT_MS);
    if (lks_idempotency_begin_start(two.channels[1], &request, NULL, on_begun, call, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

static void until_there(const char *key)
{
    char command[160];

    snprintf(command, sizeof command, "EXISTS %s", key);
    for (bool there = false; !there;) {
        char *reply = redis_fixture_command(two.redis, command);
        there = reply && strcmp(reply, ":1\r\n") == 0;
        free(reply);
    }
}

/* promise L55: Redis emptied on a living connection: all that wait look again */
TEST(nobody_sleeps_on_when_redis_is_emptied)
{
    assert_int_equal(acquire(two.channels[1], "the-holder-of-x-", "x", LONG_MS), LKS_ACQUIRE_OUTCOME_ACQUIRED);
    start_acquire(&calls[0], two.channels[0], "the-first-waiter", "x", WAIT_MS);
    start_reader(&calls[1]);
    start_begin(&calls[2]);
    until_there("ls:{default/g}:stock:r");
    until_there("ls:{default/s/k}:idem:w");
    free(redis_fixture_command(two.redis, "FLUSHALL"));
    expect(&calls[0], LKS_ACQUIRE_OUTCOME_ACQUIRED);
    expect(&calls[1], LKS_READ_LEDGER_OUTCOME_TRIMMED);
    expect(&calls[2], LKS_BEGIN_OUTCOME_EXECUTE);
}

TEST_MAIN(.setup = setup, .teardown = teardown)

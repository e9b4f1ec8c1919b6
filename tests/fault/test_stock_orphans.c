/* Holds end in time though nobody asks: by the lasting alarm of the server that made them, and
 * when that was killed, by another server's search. The ledger, which is read here, gives
 * nothing back itself. */

#include <lockstock/lockstock.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { LONG_MS = 30000 };

static redis_fixture *redis;
static server_fixture *server;
static lks_channel *channel;

static const lks_call_options patient = {.timeout_ms = LONG_MS};

static void start(const char *const args[])
{
    server = server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = args});
    assert_non_null(server);
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, NULL), LKS_OK);
}

static void forget_server(void)
{
    lks_channel_close(channel);
    server_fixture_free(server);
    channel = NULL;
    server = NULL;
}

static int setup(void **state)
{
    redis = redis_fixture_start(NULL);
    return redis ? 0 : -1;
}

static int teardown(void **state)
{
    forget_server();
    redis_fixture_free(redis);
    return 0;
}

static void put_in(char *group, int64_t on_hand, int32_t buckets)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = group;
    request.sku = "phone";
    request.on_hand = on_hand;
    request.buckets = buckets;
    assert_int_equal(lks_stock_put_item(channel, &request, &patient, NULL, NULL), LKS_OK);
}

static void put(char *group)
{
    put_in(group, 5, 0);
}

static void reserve(char *group, char *order_id, int64_t hold_ms)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
    lks_reserve_response *response;
    lks_error error;

    line.sku = "phone";
    line.quantity = 2;
    request.group = group;
    request.order_id = order_id;
    request.n_lines = 1;
    request.lines = lines;
    request.hold_ms = hold_ms;
    if (lks_stock_reserve(channel, &request, &patient, &response, &error) != LKS_OK)
        fail_msg("Reserve: %s", error.message);
    assert_int_equal(response->outcome, LKS_RESERVE_OUTCOME_RESERVED);
    lks_reserve_response_free(response);
}

/* Waits for the next entry after `id` and expects what it is; its id is written back. */
static void await_entry(char *group, char id[64], lks_ledger_kind kind, const char *order_id)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response;
    lks_error error;

    request.group = group;
    request.after = id;
    request.limit = 1;
    request.wait_ms = LONG_MS;
    if (lks_stock_read_ledger(channel, &request, &patient, &response, &error) != LKS_OK)
        fail_msg("ReadLedger: %s", error.message);
    assert_int_equal(response->n_entries, 1);
    assert_int_equal(response->entries[0]->kind, kind);
    assert_string_equal(response->entries[0]->order_id, order_id);
    snprintf(id, 64, "%s", response->entries[0]->id);
    lks_read_ledger_response_free(response);
}

TEST(a_server_gives_back_in_time)
{
    static const char *const args[] = {"--allow-unsafe-store", "--sweep-ms", "86400000", NULL};
    char id[64] = "";

    start(args);
    put("g");
    reserve("g", "late", 2500);
    reserve("g", "soon", 300);
    await_entry("g", id, LKS_LEDGER_KIND_PUT, "");
    await_entry("g", id, LKS_LEDGER_KIND_RESERVED, "late");
    await_entry("g", id, LKS_LEDGER_KIND_RESERVED, "soon");
    await_entry("g", id, LKS_LEDGER_KIND_EXPIRED, "soon");
    await_entry("g", id, LKS_LEDGER_KIND_EXPIRED, "late");
}

/* promise S42 */
TEST(another_server_gives_back_for_one_that_was_killed)
{
    static const char *const first[] = {"--allow-unsafe-store", "--sweep-ms", "86400000", NULL};
    static const char *const second[] = {"--allow-unsafe-store", "--sweep-ms", "100", NULL};
    char g[64] = "", h[64] = "";

    start(first);
    put("g");
    put("h");
    reserve("g", "soon", 1500);
    reserve("g", "late", 4000);
    reserve("h", "o", 1500);
    server_fixture_kill(server);
    forget_server();
    start(second);
    await_entry("g", g, LKS_LEDGER_KIND_PUT, "");
    await_entry("g", g, LKS_LEDGER_KIND_RESERVED, "soon");
    await_entry("g", g, LKS_LEDGER_KIND_RESERVED, "late");
    await_entry("g", g, LKS_LEDGER_KIND_EXPIRED, "soon");
    await_entry("g", g, LKS_LEDGER_KIND_EXPIRED, "late");
    await_entry("h", h, LKS_LEDGER_KIND_PUT, "");
    await_entry("h", h, LKS_LEDGER_KIND_RESERVED, "o");
    await_entry("h", h, LKS_LEDGER_KIND_EXPIRED, "o");
}

/* What stands between two texts of Redis' answer. */
static void ask_redis(const char *command, const char *before, const char *after, char *ret, size_t size)
{
    char *answer = redis_fixture_command(redis, command);
    const char *at = answer ? strstr(answer, before) : NULL;

    if (!at)
        fail_msg("%s: %s", command, answer ? answer : "no answer");
    at += strlen(before);
    assert_non_null(strstr(at, after));
    snprintf(ret, size, "%.*s", (int)(strstr(at, after) - at), at);
    free(answer);
}

/* As where a server dies after it has had a bucket send units to another one. */
static void send_units(void)
{
    char digest[64], born[32], command[256], sent[64];

    ask_redis("FUNCTION LIST LIBRARYNAME lockstock_*", "lockstock_", "\r\n", digest, sizeof digest);
    ask_redis("EVAL \"return ({struct.unpack('<Bdddddddddd', redis.call('GET', KEYS[1]))})[11]\" 1 "
              "ls:{default/g/2/100}:stock:i:phone",
              ":", "\r\n", born, sizeof born);
    snprintf(command, sizeof command, "FCALL stock_send_%s 1 ls:{default/g/2/100}: 5 phone 1 2 2 %s", digest, born);
    ask_redis(command, "SENT", "\r\n:", sent, sizeof sent);
}

/* promise SB24 */
TEST(units_on_their_way_come_home_though_nobody_orders)
{
    static const char *const first[] = {"--allow-unsafe-store", "--sweep-ms", "86400000", NULL};
    static const char *const second[] = {"--allow-unsafe-store", "--sweep-ms", "100", NULL};
    char after[256] = "";
    int64_t sum = 0;

    start(first);
    put_in("g", 30, 2);
    send_units();
    server_fixture_kill(server);
    forget_server();
    start(second);
    for (bool home = false; !home;) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        lks_read_ledger_response *response;
        lks_error error;
        request.group = "g";
        request.after = after;
        request.wait_ms = LONG_MS;
        if (lks_stock_read_ledger(channel, &request, &patient, &response, &error) != LKS_OK)
            fail_msg("ReadLedger: %s", error.message);
        assert_true(response->n_entries > 0);
        for (size_t i = 0; i < response->n_entries; i++)
            sum += response->entries[i]->quantity;
        const lks_ledger_entry *last = response->entries[response->n_entries - 1];
        home = sum == 30 && last->kind == LKS_LEDGER_KIND_TRANSFERRED && last->quantity == 2;
        snprintf(after, sizeof after, "%s", response->next_after);
        lks_read_ledger_response_free(response);
    }
}

TEST_MAIN(.setup = setup, .teardown = teardown)

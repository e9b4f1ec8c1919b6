/* Two ways in which reservations are made by hand, each at the point where it fails, and
 * lockstock at the same point: a counter that only a sweeper puts up again, and a counter
 * without a record of who counted. */
/* promise E6: a hold that is over is back though the server that would give it back is dead; a counter with a sweeper
 * is late, one without a record counts twice */

#include <lockstock/v1/stock.lks_client.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/two_servers.h"
#include "test.h"

enum { BRIEF_MS = 50, LONG_MS = 3600000 };

static char group[] = "shop", sku[] = "lamp";

typedef two_servers fixture;

/* Neither looks for what the other leaves behind. */
static int setup(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", "--sweep-ms", "86400000", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    return two_servers_start(f, NULL, (server_fixture_options){.args = args}) ? 0 : -1;
}

static int teardown(void **state)
{
    two_servers_end(*state);
    free(*state);
    return 0;
}

/* ---- by hand --------------------------------------------------------------------- */

static void says(fixture *f, const char *command, const char *expected)
{
    char *reply = redis_fixture_command(f->redis, command);

    assert_non_null(reply);
    if (strcmp(reply, expected) != 0)
        fail_msg("%s: %s", command, reply);
    free(reply);
}

/* Milliseconds of Redis' clock. */
static long long redis_now_ms(fixture *f)
{
    long long seconds, microseconds;
    char *reply = redis_fixture_command(f->redis, "TIME");

    assert_non_null(reply);
    assert_int_equal(sscanf(reply, "*2\r\n$%*d\r\n%lld\r\n$%*d\r\n%lld", &seconds, &microseconds), 2);
    free(reply);
    return seconds * 1000 + microseconds / 1000;
}

/* ---- with lockstock ---------------------------------------------------------------- */

static void put(fixture *f, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = group;
    request.sku = sku;
    request.on_hand = on_hand;
    assert_int_equal(lks_stock_put_item(f->channels[0], &request, NULL, NULL, NULL), LKS_OK);
}

static bool reserve(fixture *f, int server, const char *order_id, int64_t hold_ms)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
    lks_reserve_response *response = NULL;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};

    line.sku = sku;
    line.quantity = 1;
    request.group = group;
    request.order_id = order_id;
    request.buyer_id = order_id;
    request.n_lines = 1;
    request.lines = lines;
    request.hold_ms = hold_ms;
    assert_int_equal(lks_stock_reserve(f->channels[server], &request, NULL, &response, NULL), LKS_OK);
    assert_int_equal(response->outcome, LKS_RESERVE_OUTCOME_RESERVED);
    bool replayed = response->replayed;
    lks_reserve_response_free(response);
    return replayed;
}

static lks_order_state state_of(fixture *f, int server, const char *order_id)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    lks_get_order_response *response = NULL;

    request.group = group;
    request.order_id = order_id;
    assert_int_equal(lks_stock_get_order(f->channels[server], &request, NULL, &response, NULL), LKS_OK);
    lks_order_state state = response->order->state;
    lks_get_order_response_free(response);
    return state;
}

static void expect_item(fixture *f, int server, int64_t available, int64_t reserved, int64_t sold)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;

    request.group = group;
    request.sku = sku;
    assert_int_equal(lks_stock_get_item(f->channels[server], &request, NULL, &response, NULL), LKS_OK);
    assert_int_equal(response->item->available, available);
    assert_int_equal(response->item->reserved, reserved);
    assert_int_equal(response->item->sold, sold);
    lks_get_item_response_free(response);
}

/* The kinds of the ledger's entries, a letter each: P, R, E, C. */
static void expect_ledger(fixture *f, int server, const char *expected)
{
    static const char letters[] = "?PADRCXETx";
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    char kinds[32] = "";

    request.group = group;
    assert_int_equal(lks_stock_read_ledger(f->channels[server], &request, NULL, &response, NULL), LKS_OK);
    for (size_t i = 0; i < response->n_entries && i < sizeof kinds - 1; i++)
        kinds[i] = letters[response->entries[i]->kind];
    assert_string_equal(kinds, expected);
    lks_read_ledger_response_free(response);
}

/* ---- tests -------------------------------------------------------------------------- */

/* A hold ends, and the sweeper has not come yet. */
TEST(a_sweeper_is_late_and_lockstock_is_not)
{
    fixture *f = *state;
    char command[96];
    long long end = redis_now_ms(f) + BRIEF_MS;

    says(f, "SET stock 1", "+OK\r\n");
    says(f, "DECR stock", ":0\r\n");
    snprintf(command, sizeof command, "ZADD holds %lld alice", end);
    says(f, command, ":1\r\n");
    while (redis_now_ms(f) <= end)
        process_pause();
    says(f, "GET stock", "$1\r\n0\r\n"); /* bob is told that it is sold out; it is not */
    snprintf(command, sizeof command, "ZREMRANGEBYSCORE holds 0 %lld", redis_now_ms(f));
    says(f, command, ":1\r\n"); /* the sweeper */
    says(f, "INCR stock", ":1\r\n");

    /* The server that would give it back in time dies, so that nobody does. */
    put(f, 1);
    reserve(f, 0, "alice", BRIEF_MS);
    server_fixture_kill(f->servers[0]);
    while (state_of(f, 1, "alice") != LKS_ORDER_STATE_EXPIRED)
        process_pause();
    expect_ledger(f, 1, "PR");
    expect_item(f, 1, 1, 0, 0);
    reserve(f, 1, "bob", LONG_MS);
    expect_item(f, 1, 0, 1, 0);
    expect_ledger(f, 1, "PRER");
}

/* A reply is lost, and the call is sent again. */
TEST(a_counter_without_a_record_counts_twice_and_lockstock_does_not)
{
    fixture *f = *state;

    says(f, "SET stock 3", "+OK\r\n");
    says(f, "DECR stock", ":2\r\n"); /* the reply is lost */
    says(f, "DECR stock", ":1\r\n"); /* one order, two units */

    put(f, 3);
    assert_false(reserve(f, 0, "alice", LONG_MS)); /* the reply is lost */
    assert_true(reserve(f, 1, "alice", LONG_MS));
    expect_item(f, 1, 2, 1, 0);
    expect_ledger(f, 1, "PR");
}

TEST_MAIN(.setup = setup, .teardown = teardown)

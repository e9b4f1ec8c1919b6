/* Readers of the ledger that wait, on two real servers and one Redis: a reader is
 * answered by what is sold through the other server, and by nothing else. */

#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { READERS = 200, WAIT_MS = 600000 };

/* One ReadLedger. The callback records, the main thread asserts. */
typedef struct reader {
    atomic_bool done;
    lks_code code;
    lks_read_ledger_outcome outcome;
    size_t n_entries;
    char id[48], order_id[32]; /* of the last entry */
    char error[256];
} reader;

static redis_fixture *redis;
static server_fixture *servers[2];
static lks_channel *channels[2];
static reader readers[READERS];

static char *group(void)
{
    static char name[] = "sale";
    return name;
}

static void on_answer(void *arg, lks_code code, const lks_read_ledger_response *response, const lks_error *error)
{
    reader *r = arg;

    r->code = code;
    if (response) {
        r->outcome = response->outcome;
        r->n_entries = response->n_entries;
    }
    if (response && response->n_entries > 0) {
        const lks_ledger_entry *last = response->entries[response->n_entries - 1];
        snprintf(r->id, sizeof r->id, "%s", last->id);
        snprintf(r->order_id, sizeof r->order_id, "%s", last->order_id);
    }
    snprintf(r->error, sizeof r->error, "%s", error ? error->message : "");
    atomic_store(&r->done, true);
}

static void start(reader *r, lks_channel *channel, const char *after, int64_t wait_ms)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_error error;

    memset(r, 0, sizeof *r);
    request.group = group();
    request.after = after;
    request.wait_ms = wait_ms;
    if (lks_stock_read_ledger_start(channel, &request, NULL, on_answer, r, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

/* ctest ends the test if it is never answered. */
static void expect_answer(reader *r, size_t n_entries, const char *order_id)
{
    while (!atomic_load(&r->done))
        process_pause();
    if (r->code != LKS_OK)
        fail_msg("%s: %s", lks_code_name(r->code), r->error);
    assert_int_equal(r->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    assert_int_equal(r->n_entries, n_entries);
    assert_string_equal(r->order_id, order_id);
}

static void put(lks_channel *channel, int64_t on_hand)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = group();
    request.sku = group();
    request.on_hand = on_hand;
    if (lks_stock_put_item(channel, &request, NULL, NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
}

static void deduct(lks_channel *channel, char *order_id)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_deduct_response *response = NULL;
    lks_error error;

    line.sku = group();
    line.quantity = 1;
    request.group = group();
    request.order_id = order_id;
    request.lines = lines;
    request.n_lines = 1;
    if (lks_stock_deduct(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(response->outcome, LKS_DEDUCT_OUTCOME_DEDUCTED);
    lks_deduct_response_free(response);
}

/* The id of the last entry there is. */
static const char *last_id(reader *r)
{
    start(r, channels[0], "", 0);
    while (!atomic_load(&r->done))
        process_pause();
    return r->id;
}

static long long number_after(const char *command, const char *text)
{
    char *reply = redis_fixture_command(redis, command);
    assert_non_null(reply);
    const char *at = strstr(reply, text);
    long long n = at ? strtoll(at + strlen(text), NULL, 10) : 0;
    free(reply);
    return n;
}

/* Readers that were parked so far, on any server. */
static void until_parked(long long n)
{
    while (number_after("INFO commandstats", "cmdstat_sadd:calls=") < n)
        process_pause();
}

static long long servers_with_readers(void)
{
    return number_after("SCARD ls:{default/sale}:stock:r", ":");
}

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};

    redis = redis_fixture_start(NULL);
    if (!redis)
        return -1;
    for (int i = 0; i < 2; i++) {
        servers[i] = server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = unsafe});
        if (!servers[i] || lks_channel_open(server_fixture_url(servers[i]), NULL, &channels[i], NULL) != LKS_OK)
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < 2; i++) {
        lks_channel_close(channels[i]);
        channels[i] = NULL;
        server_fixture_free(servers[i]);
        servers[i] = NULL;
    }
    redis_fixture_free(redis);
    redis = NULL;
    return 0;
}

/* promise SL1 */
TEST(a_sale_elsewhere_answers_the_reader)
{
    reader last;

    start(&readers[0], channels[0], "", WAIT_MS); /* the group is not there yet */
    until_parked(1);
    put(channels[1], 10);
    expect_answer(&readers[0], 1, "");
    start(&readers[0], channels[0], last_id(&last), WAIT_MS);
    until_parked(2);
    deduct(channels[1], "o1");
    expect_answer(&readers[0], 1, "o1");
    assert_int_equal(servers_with_readers(), 0);
}

/* promise SL5 */
TEST(nothing_to_read_is_an_answer_too)
{
    reader last;

    put(channels[0], 10);
    start(&readers[0], channels[0], last_id(&last), 50);
    expect_answer(&readers[0], 0, "");
}

/* Time itself is under test: a reader that polls would do so within a second. Each second a server sends eleven commands, however
 * many callers wait: three ask for the mark of the store, three probe it, five are its note. */
/* promise SL13 */
TEST(many_wait_and_nobody_asks)
{
    reader last;

    put(channels[0], 10);
    last_id(&last);
    for (int i = 0; i < READERS; i++)
        start(&readers[i], channels[i % 2], last.id, WAIT_MS);
    until_parked(READERS);
    assert_int_equal(servers_with_readers(), 2);
    long long before = number_after("INFO stats", "total_commands_processed:"), start_ms = process_now_ms();
    while (process_now_ms() < start_ms + 1000)
        process_pause();
    long long looks = 2 * (1 + (process_now_ms() - start_ms) / 1000);
    assert_in_range(number_after("INFO stats", "total_commands_processed:") - before, 1, 1 + (3 + 3 + 5) * looks);
    long long told = number_after("INFO commandstats", "cmdstat_publish:calls=");
    deduct(channels[0], "o1");
    for (int i = 0; i < READERS; i++)
        expect_answer(&readers[i], 1, "o1");
    assert_int_equal(number_after("INFO commandstats", "cmdstat_publish:calls=") - told, 2);
}

/* promise SL13 */
TEST(readers_outlive_their_server)
{
    lks_channel *either;
    char urls[256];
    reader last;

    put(channels[0], 10);
    last_id(&last);
    snprintf(urls, sizeof urls, "%s,%s", server_fixture_url(servers[0]), server_fixture_url(servers[1]));
    server_fixture_kill(servers[1]); /* so that it waits at the first */
    assert_int_equal(lks_channel_open(urls, NULL, &either, NULL), LKS_OK);
    start(&readers[0], either, last.id, WAIT_MS);
    until_parked(1);
    assert_true(server_fixture_restart(servers[1]));
    server_fixture_kill(servers[0]);
    until_parked(2); /* at the server that is left */
    deduct(channels[1], "o1");
    expect_answer(&readers[0], 1, "o1");
    /* What the dead one left is gone. */
    assert_int_equal(servers_with_readers(), 0);
    lks_channel_close(either);
}

TEST(a_server_that_stops_lets_its_readers_go)
{
    start(&readers[0], channels[0], "", WAIT_MS);
    until_parked(1);
    assert_true(server_fixture_stop(servers[0], 60000));
    /* The client asks again for as long as the reader wanted to wait. */
    assert_true(server_fixture_restart(servers[0]));
    put(channels[1], 10);
    expect_answer(&readers[0], 1, "");
}

/* promise SL13: no reader is forgotten when its server dies or misses a message; nobody polls */
TEST(a_message_that_is_missed_is_made_up_for)
{
    reader last;

    put(channels[0], 10);
    last_id(&last);
    start(&readers[0], channels[0], last.id, WAIT_MS);
    until_parked(1);
    /* Redis forgets who reads, and who listens: the server looks again by itself. */
    free(redis_fixture_command(redis, "DEL ls:{default/sale}:stock:r"));
    free(redis_fixture_command(redis, "CLIENT KILL TYPE pubsub"));
    until_parked(2);
    deduct(channels[1], "o1");
    expect_answer(&readers[0], 1, "o1");
}

TEST_MAIN(.setup = setup, .teardown = teardown)

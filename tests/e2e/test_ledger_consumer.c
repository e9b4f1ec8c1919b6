/* examples/ledger: the consumer is killed at named points and at random, with two
 * lockstockd selling, and every row of its database equals the item; the naive one, killed
 * at the same point, counts twice. */

#include <signal.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/counts.h"
#include "support/mariadb_fixture.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { LIMIT_MS = 100000, ORDERS = 40 };

static bool installed;
static mariadb_fixture *database;
static const char *database_socket;
static char urls[256], group[32];
static redis_fixture *redis;
static server_fixture *servers[2];
static lks_channel *channel;

/* ---- what runs ------------------------------------------------------------------------ */

static int setup_all(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};

    installed = mariadb_fixture_is_installed();
    if (!installed)
        return 0;
    redis = redis_fixture_start(NULL);
    database = mariadb_fixture_start();
    if (!redis || !database)
        return -1;
    database_socket = mariadb_fixture_socket(database);
    for (int i = 0; i < 2; i++) {
        servers[i] = server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = unsafe});
        if (!servers[i])
            return -1;
    }
    snprintf(urls, sizeof urls, "%s,%s", server_fixture_url(servers[0]), server_fixture_url(servers[1]));
    return lks_channel_open(urls, NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown_all(void **state)
{
    lks_channel_close(channel);
    for (int i = 0; i < 2; i++)
        server_fixture_free(servers[i]);
    redis_fixture_free(redis);
    mariadb_fixture_free(database);
    return 0;
}

static process *start(const char *const argv[], const char *const env[])
{
    process *p = process_spawn(argv, env);

    assert_non_null(p);
    return p;
}

static void run(const char *const argv[], int code)
{
    process *p = start(argv, NULL);

    assert_true(process_exited_with(p, code, LIMIT_MS));
    process_free(p);
}

static void sql(const char *text)
{
    run((const char *const[]){"mariadb", "--no-defaults", "--socket", database_socket, "-u", "root", "-e", text, NULL},
        0);
}

/* Goods on sale in a group of the test's own, of which the database has nothing. */
static int fill(void **state)
{
    static int groups;

    if (!installed)
        return 0;
    snprintf(group, sizeof group, "shop %d", ++groups);
    sql("DROP DATABASE IF EXISTS shop");
    run((const char *const[]){LEDGER_PATH, "fill", urls, group, NULL}, 0);
    return 0;
}

static process *start_selling(int server, int orders)
{
    char count[16];

    snprintf(count, sizeof count, "%d", orders);
    return start((const char *const[]){LEDGER_PATH, "sell", server_fixture_url(servers[server]), group, count, NULL},
                 NULL);
}

static void sell(int orders)
{
    process *p = start_selling(0, orders);

    assert_true(process_exited_with(p, 0, LIMIT_MS));
    process_free(p);
}

/* A consumer; halt: "<point>:<n>" where it stops, or NULL. */
static process *start_copy(const char *halt, bool naive)
{
    const char *const argv[] = {
        LEDGER_PATH, "copy", urls, database_socket, group, "--limit", "7", naive ? "--naive" : NULL, NULL};
    char variable[64];
    const char *const env[] = {variable, NULL};

    snprintf(variable, sizeof variable, "LEDGER_HALT=%s", halt ? halt : "");
    return start(argv, env);
}

static void kill_copy(process *copy)
{
    process_kill(copy);
    process_free(copy);
}

/* One that has come to the point for the n-th time, and stands still there. */
static process *halted_copy(const char *point, int n, bool naive)
{
    char halt[32], line[64];

    snprintf(halt, sizeof halt, "%s:%d", point, n);
    snprintf(line, sizeof line, "halted at %s", point);
    process *copy = start_copy(halt, naive);
    if (!process_wait_line(copy, line, NULL, 0, LIMIT_MS))
        fail_msg("never at %s: %s", halt, process_output(copy));
    return copy;
}

static void kill_copy_at(const char *point, int n, bool naive)
{
    kill_copy(halted_copy(point, n, naive));
}

/* ---- what is compared ------------------------------------------------------------------ */

static lks_list_items_response *list(void)
{
    lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
    lks_list_items_response *items = NULL;

    request.group = group;
    assert_int_equal(lks_stock_list_items(channel, &request, NULL, &items, NULL), LKS_OK);
    assert_true(items->n_items > 0);
    return items;
}

/* What buyers left to expire has expired: nothing changes by itself from now on. */
static void until_nothing_is_held(void)
{
    int64_t held = 1;

    while (held > 0) {
        lks_list_items_response *items = list();
        held = 0;
        for (size_t i = 0; i < items->n_items; i++)
            held += items->items[i]->reserved;
        lks_list_items_response_free(items);
        process_pause();
    }
}

static process *check(int code)
{
    until_nothing_is_held();
    process *p = start((const char *const[]){LEDGER_PATH, "check", urls, database_socket, group, NULL}, NULL);
    assert_true(process_exited_with(p, code, LIMIT_MS));
    return p;
}

/* The program's output has each item as it is, and beside it the same row. */
static void expect_rows(const char *output)
{
    lks_list_items_response *items = list();
    char row[256];

    for (size_t i = 0; i < items->n_items; i++) {
        const lks_item *item = items->items[i];
        long long n[] = {item->available, item->reserved, item->sold};
        snprintf(row, sizeof row, "%-12s %10lld %10lld %10lld   %10lld %10lld %10lld\n", item->sku, n[0], n[1], n[2],
                 n[0], n[1], n[2]);
        if (!strstr(output, row))
            fail_msg("no line\n%sin\n%s", row, output);
    }
    lks_list_items_response_free(items);
}

/* All consumers together have brought the copy to where the items are. */
static void expect_copied(void)
{
    process *checked = check(0);

    expect_rows(process_output(checked));
    process_free(checked);
}

static lks_read_ledger_response *oldest_entry(void)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;

    request.group = group;
    request.limit = 1;
    assert_int_equal(lks_stock_read_ledger(channel, &request, NULL, &response, NULL), LKS_OK);
    return response;
}

static void expect_trimmed_whole(void)
{
    bool empty;

    do {
        lks_read_ledger_response *oldest = oldest_entry();
        empty = oldest->n_entries == 0;
        lks_read_ledger_response_free(oldest);
        process_pause();
    } while (!empty);
}

/* A consumer that nobody kills brings the copy to where the items are, and trims behind
 * itself all there is. */
static void expect_equal(void)
{
    process *copy = start_copy(NULL, false);

    expect_copied();
    expect_trimmed_whole();
    kill_copy(copy);
}

static void trim_all(void)
{
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;

    request.group = group;
    request.up_to = "9007199254740991-0";
    assert_int_equal(lks_stock_trim_ledger(channel, &request, NULL, NULL, NULL), LKS_OK);
}

/* ---- tests ----------------------------------------------------------------------------- */

#define NEEDS_MARIADB() \
    do {                \
        if (!installed) \
            skip();     \
    } while (0)

TEST(killed_at_each_point)
{
    static const char *const points[] = {"begun", "read", "applied", "committed"};

    NEEDS_MARIADB();
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        for (int n = 1; n <= 3; n++) {
            sell(ORDERS);
            kill_copy_at(points[i], n, false);
        }
    expect_equal();
}

TEST(what_is_not_committed_is_not_trimmed)
{
    NEEDS_MARIADB();
    kill_copy_at("applied", 1, false);
    lks_read_ledger_response *first = oldest_entry();
    kill_copy_at("committed", 1, false);
    lks_read_ledger_response *still = oldest_entry();
    assert_string_equal(first->entries[0]->id, still->entries[0]->id);
    assert_int_equal(first->entries[0]->kind, LKS_LEDGER_KIND_PUT);
    lks_read_ledger_response_free(first);
    lks_read_ledger_response_free(still);
    expect_equal();
}

TEST(killed_at_random)
{
    int kills = (int)counts_of(15, 300);

    NEEDS_MARIADB();
    srandom((unsigned)getpid());
    process *sellers[] = {start_selling(0, 40 * kills), start_selling(1, 40 * kills)};
    for (int i = 0; i < kills; i++) {
        process *copy = start_copy(NULL, false);
        for (long lines = random() % 8; lines > 0; lines--)
            process_wait_line(copy, "copied", NULL, 0, 100);
        kill_copy(copy);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(process_exited_with(sellers[i], 0, LIMIT_MS));
        process_free(sellers[i]);
    }
    expect_equal();
}

TEST(two_consumers_copy_once)
{
    int rounds = (int)counts_of(2, 30);

    NEEDS_MARIADB();
    process *steady = start_copy(NULL, false);
    for (int i = 0; i < rounds; i++) {
        process *seller = start_selling(1, 2 * ORDERS);
        kill_copy_at("committed", 2, false);
        process *other = start_copy(NULL, false);
        assert_true(process_exited_with(seller, 0, LIMIT_MS));
        process_free(seller);
        kill_copy(other);
    }
    expect_copied();
    kill_copy(steady);
}

/* It finds its entries copied, or even trimmed, by another one, and copies what is next. */
TEST(an_overtaken_consumer_goes_on)
{
    static const char *const points[] = {"begun", "read"};

    NEEDS_MARIADB();
    for (size_t i = 0; i < 2; i++) {
        sell(ORDERS);
        process *copy = halted_copy(points[i], 1, false);
        expect_equal();
        process_signal(copy, SIGCONT);
        sell(ORDERS);
        expect_copied();
        kill_copy(copy);
    }
}

/* One of goods-1. */
static void buy_one(void)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    line.sku = "goods-1";
    line.quantity = 1;
    request.group = group;
    request.order_id = "one";
    request.lines = lines;
    request.n_lines = 1;
    assert_int_equal(lks_stock_deduct(channel, &request, NULL, NULL, NULL), LKS_OK);
}

TEST(a_naive_consumer_counts_twice)
{
    NEEDS_MARIADB();
    expect_equal();
    buy_one();
    kill_copy_at("applied", 1, true);
    process *copy = start_copy(NULL, true), *checked = check(1);
    assert_non_null(strstr(process_output(checked), "goods-1          999998          0          2       "
                                                    "999999          0          1   DIFFERS\n"));
    process_free(checked);
    kill_copy(copy);
}

TEST(where_the_naive_one_counts_twice_the_example_does_not)
{
    NEEDS_MARIADB();
    expect_equal();
    buy_one();
    kill_copy_at("applied", 1, false);
    expect_equal();
}

TEST(every_kind_is_copied)
{
    lks_adjust_request adjust = LKS_ADJUST_REQUEST_INIT;
    lks_put_item_request put = LKS_PUT_ITEM_REQUEST_INIT;
    lks_delete_item_request deletion = LKS_DELETE_ITEM_REQUEST_INIT;

    NEEDS_MARIADB();
    put.group = adjust.group = deletion.group = group;
    put.sku = adjust.sku = deletion.sku = "Goods\xc3\xa9 ";
    put.on_hand = 0;
    assert_int_equal(lks_stock_put_item(channel, &put, NULL, NULL, NULL), LKS_OK);
    put.on_hand = 10;
    assert_int_equal(lks_stock_put_item(channel, &put, NULL, NULL, NULL), LKS_OK);
    adjust.delta = -3;
    assert_int_equal(lks_stock_adjust(channel, &adjust, NULL, NULL, NULL), LKS_OK);
    sell(ORDERS);
    expect_equal();
    put.on_hand = 5;
    assert_int_equal(lks_stock_put_item(channel, &put, NULL, NULL, NULL), LKS_OK);
    assert_int_equal(lks_stock_delete_item(channel, &deletion, NULL, NULL, NULL), LKS_OK);
    expect_equal();
    assert_int_equal(lks_stock_put_item(channel, &put, NULL, NULL, NULL), LKS_OK);
    put.sku = "goods\xc3\xa9"; /* another one, though a text column might not know */
    assert_int_equal(lks_stock_put_item(channel, &put, NULL, NULL, NULL), LKS_OK);
    expect_equal();
}

static void expect_lost(void)
{
    process *copy = start_copy(NULL, false);

    assert_true(process_exited_with(copy, 3, LIMIT_MS));
    assert_non_null(strstr(process_output(copy), "were trimmed before they were copied"));
    process_free(copy);
}

TEST(what_was_trimmed_unread_is_said)
{
    NEEDS_MARIADB();
    /* Before the first start too: a copy of a part is none. */
    trim_all();
    expect_lost();
    fill(state);
    expect_equal();
    sell(2);
    trim_all();
    expect_lost();
}

/* The same names in two groups are two goods. */
TEST(groups_share_a_database)
{
    char first[sizeof group];

    NEEDS_MARIADB();
    memcpy(first, group, sizeof first);
    sell(ORDERS);
    expect_equal();
    snprintf(group, sizeof group, "%.20s of another", first);
    run((const char *const[]){LEDGER_PATH, "fill", urls, group, NULL}, 0);
    expect_equal();
    sell(ORDERS);
    expect_equal();
    memcpy(group, first, sizeof group);
    sell(ORDERS);
    expect_equal();
}

static void delete_all(void)
{
    lks_delete_item_request deletion = LKS_DELETE_ITEM_REQUEST_INIT;
    lks_list_items_response *items = list();

    deletion.group = group;
    for (size_t i = 0; i < items->n_items; i++) {
        deletion.sku = items->items[i]->sku;
        assert_int_equal(lks_stock_delete_item(channel, &deletion, NULL, NULL, NULL), LKS_OK);
    }
    lks_list_items_response_free(items);
}

static void forget_ledger(void)
{
    char command[128];

    snprintf(command, sizeof command, "DEL ls:{default/shop%%20%s}:stock:ledger", group + strlen("shop "));
    free(redis_fixture_command(redis, command));
}

/* Nothing is lost where the group and its copy are empty; where the copy is not, it is. */
TEST(a_forgotten_ledger_is_begun_anew)
{
    NEEDS_MARIADB();
    process *copy = start_copy(NULL, false);
    expect_copied();
    delete_all();
    expect_trimmed_whole();
    kill_copy(copy);
    forget_ledger();
    copy = start_copy(NULL, false);
    run((const char *const[]){LEDGER_PATH, "fill", urls, group, NULL}, 0);
    expect_copied();
    kill_copy(copy);
    forget_ledger();
    expect_lost();
}

TEST(the_database_is_killed)
{
    NEEDS_MARIADB();
    process *seller = start_selling(0, ORDERS);
    for (int i = 0; i < 3; i++) {
        process *copy = start_copy(NULL, false);
        process_wait_line(copy, "copied", NULL, 0, 200);
        mariadb_fixture_kill(database);
        kill_copy(copy);
        assert_true(mariadb_fixture_restart(database));
    }
    assert_true(process_exited_with(seller, 0, LIMIT_MS));
    process_free(seller);
    expect_equal();
}

TEST_WITH(the_example_runs_by_hand, NULL, NULL)
{
    NEEDS_MARIADB();
    const char *const argv[] = {RUN_SH, NULL}, *const env[] = {"BUILD=" BUILD_DIR, "KILLS=3", NULL};
    process *p = start(argv, env);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    assert_non_null(strstr(process_output(p), "\nequal\n"));
    process_free(p);
}

/* Blocks of the page are parts of the files, to the letter. */
TEST_WITH(the_page_shows_the_files, NULL, NULL)
{
    static char page[1 << 18], source[1 << 18];
    char path[512], name[64];
    int blocks = 0;

    FILE *file = fopen(SOURCE_DIR "/docs/ledger.md", "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (char *at = page; (at = strstr(at, "<!-- from examples/ledger/")); blocks++) {
        at += strlen("<!-- from ");
        assert_int_equal(sscanf(at, "%63s", name), 1);
        snprintf(path, sizeof path, SOURCE_DIR "/%s", name);
        char *block = strstr(at, "```c\n") + strlen("```c\n");
        char *end = strstr(block, "```\n");
        assert_true(block < end);
        *end = '\0';
        file = fopen(path, "r");
        assert_non_null(file);
        source[fread(source, 1, sizeof source - 1, file)] = '\0';
        fclose(file);
        if (!strstr(source, block))
            fail_msg("%s has no\n%s", name, block);
        at = end + 1;
    }
    assert_true(blocks > 0);
}

TEST_MAIN(.setup_all = setup_all, .teardown_all = teardown_all, .setup = fill)

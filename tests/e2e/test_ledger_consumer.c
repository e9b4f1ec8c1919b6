/* examples/ledger: the consumer is killed at named points and at random, with two
 * lockstockd selling, and every row of its database equals the item; the naive one, killed
 * at the same point, counts twice. */

#include <signal.h>
#include <time.h>
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

/* A statement in the database; its output is rows of columns with tabs between, or an error. */
static process *query(const char *text)
{
    const char *const argv[] = {
        "mariadb", "--no-defaults", "--socket", database_socket, "-u", "root", "-N", "-B", "-e", text, NULL};
    process *p = start(argv, NULL);
    int status;

    assert_true(process_wait(p, LIMIT_MS, &status));
    return p;
}

/* ---- the shop ---------------------------------------------------------------------------- */

enum { GOODS = 8, ON_HAND = 1000000, HOLD_MS = 100 };

static const char *const names[GOODS] = {"goods-1", "goods-2", "goods-3", "goods-4",
                                         "goods-5", "goods-6", "goods-7", "goods-8"};

static void put_goods(void)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = group;
    request.on_hand = ON_HAND;
    request.must_be_new = true;
    for (int i = 0; i < GOODS; i++) {
        request.sku = names[i];
        assert_int_equal(lks_stock_put_item(channel, &request, NULL, NULL, NULL), LKS_OK);
    }
}

/* An order at random: deducted, or reserved and then confirmed, cancelled or left to expire. Some are returned. */
static bool make_order(lks_channel *to, const char *shop, const char *id)
{
    lks_line line[2] = {LKS_LINE_INIT, LKS_LINE_INIT}, *lines[] = {&line[0], &line[1]};
    lks_deduct_request deduct = LKS_DEDUCT_REQUEST_INIT;
    lks_reserve_request reserve = LKS_RESERVE_REQUEST_INIT;
    lks_confirm_request confirm = LKS_CONFIRM_REQUEST_INIT;
    lks_cancel_request cancel = LKS_CANCEL_REQUEST_INIT;
    lks_return_request give_back = LKS_RETURN_REQUEST_INIT;
    long first = random() % GOODS, fate = random() % 8;
    bool good = true;

    for (int i = 0; i < 2; i++) {
        line[i].sku = names[(first + 3 * i) % GOODS];
        line[i].quantity = 1 + random() % 3;
    }
    deduct.group = reserve.group = confirm.group = cancel.group = give_back.group = shop;
    deduct.order_id = reserve.order_id = confirm.order_id = cancel.order_id = give_back.order_id = id;
    deduct.lines = reserve.lines = give_back.lines = lines;
    deduct.n_lines = reserve.n_lines = 1 + (size_t)(random() % 2);
    reserve.hold_ms = HOLD_MS;
    give_back.n_lines = 1;
    if (fate < 3)
        good = lks_stock_deduct(to, &deduct, NULL, NULL, NULL) == LKS_OK;
    else
        good = lks_stock_reserve(to, &reserve, NULL, NULL, NULL) == LKS_OK;
    if (good && fate >= 3 && fate < 6)
        good = lks_stock_confirm(to, &confirm, NULL, NULL, NULL) == LKS_OK;
    if (good && fate == 6)
        good = lks_stock_cancel(to, &cancel, NULL, NULL, NULL) == LKS_OK;
    if (good && fate < 6 && random() % 4 == 0)
        good = lks_stock_return(to, &give_back, NULL, NULL, NULL) == LKS_OK;
    return good;
}

/* This program with "sell URL GROUP ORDERS". */
static int sell_orders(const char *url, const char *shop, int n)
{
    const lks_channel_options options = {.timeout_ms = LIMIT_MS};
    lks_channel *to = NULL;
    bool good = lks_channel_open(url, &options, &to, NULL) == LKS_OK;
    char id[64];

    srandom((unsigned)getpid());
    for (int i = 0; good && i < n; i++) {
        snprintf(id, sizeof id, "order-%llx-%d-%d", (long long)time(NULL), (int)getpid(), i);
        good = make_order(to, shop, id);
    }
    lks_channel_close(to);
    return good ? 0 : 1;
}

/* Goods on sale in a group of the test's own, of which the database has nothing. */
static int fill(void **state)
{
    static int groups;

    if (!installed)
        return 0;
    snprintf(group, sizeof group, "shop %d", ++groups);
    process_free(query("DROP DATABASE IF EXISTS shop"));
    put_goods();
    return 0;
}

static process *start_selling(int server, int orders)
{
    char count[16];

    snprintf(count, sizeof count, "%d", orders);
    return start(
        (const char *const[]){"/proc/self/exe", "sell", server_fixture_url(servers[server]), group, count, NULL}, NULL);
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
    const char *const argv[] = {LEDGER_PATH, urls, database_socket,          group,
                                "--limit",   "7",  naive ? "--naive" : NULL, NULL};
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

/* Rows of the copy, or items, as text. */
static process *rows_of_copy(void)
{
    char text[256];

    snprintf(text, sizeof text, "SELECT id, num, reserved, sold FROM shop.goods WHERE ledger = '%s' ORDER BY id",
             group);
    return query(text);
}

static char *rows_of_items(void)
{
    lks_list_items_response *items = list();
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    for (size_t i = 0; i < items->n_items; i++) {
        const lks_item *item = items->items[i];
        fprintf(file, "%s\t%lld\t%lld\t%lld\n", item->sku, (long long)item->available, (long long)item->reserved,
                (long long)item->sold);
    }
    fclose(file);
    lks_list_items_response_free(items);
    return text;
}

/* All consumers together bring the copy to where the items are. */
static void expect_copied(void)
{
    long long end_ms = process_now_ms() + LIMIT_MS;
    bool equal = false;

    until_nothing_is_held();
    char *items = rows_of_items();
    while (!equal) {
        process *copied = rows_of_copy();
        equal = strcmp(process_output(copied), items) == 0;
        if (!equal && process_now_ms() > end_ms)
            fail_msg("the copy has\n%sand the items are\n%s", process_output(copied), items);
        process_free(copied);
    }
    free(items);
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

/* promise SL14 */
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

/* promise SL16: it trims what is committed, no more and no less */
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

/* promise SL14: the consumer copies each entry once, killed wherever; the naive one does not */
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

/* promise SL15: ... also when several run */
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
/* promise SL15 */
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

/* promise SL14 */
TEST(a_naive_consumer_counts_twice)
{
    NEEDS_MARIADB();
    expect_equal();
    buy_one();
    kill_copy_at("applied", 1, true);
    process *copy = start_copy(NULL, true);
    assert_true(process_wait_line(copy, "copied 1 entries", NULL, 0, LIMIT_MS)); /* once more */
    process *copied = rows_of_copy();
    assert_non_null(strstr(process_output(copied), "goods-1\t999998\t0\t2\n"));
    process_free(copied);
    char *items = rows_of_items();
    assert_non_null(strstr(items, "goods-1\t999999\t0\t1\n"));
    free(items);
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

/* promise SL17: what was trimmed unread is said, before the first start too */
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
/* promise SL18: groups that share the consumer's database are copied each by itself */
TEST(groups_share_a_database)
{
    char first[sizeof group];

    NEEDS_MARIADB();
    memcpy(first, group, sizeof first);
    sell(ORDERS);
    expect_equal();
    snprintf(group, sizeof group, "%.20s of another", first);
    put_goods();
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
/* promise SL19: a ledger that was forgotten is begun anew where the copy is empty, and nowhere else */
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
    put_goods();
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

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "sell") == 0)
        return sell_orders(argv[2], argv[3], atoi(argv[4]));
    return TEST_RUN(.setup_all = setup_all, .teardown_all = teardown_all, .setup = fill);
}

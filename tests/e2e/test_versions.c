/* Scene l of docs/scenes.md: the same buyers want the same lamps in lockstock and in a MariaDB of the test's own. */
/* promise E13: Adjust by the version that was looked at sells as exactly as a row lock, and looks again when somebody
 * was faster */

#include <mysql.h>
#include <pthread.h>

#include "e2e/scene.h"
#include "support/mariadb_fixture.h"

enum { BUYERS = 10, LAMPS = 5 };

static mariadb_fixture *database;
static MYSQL *sql;

static MYSQL *connect_database(void)
{
    MYSQL *connection = mysql_init(NULL);

    if (!mysql_real_connect(connection, NULL, "root", NULL, NULL, 0, mariadb_fixture_socket(database), 0))
        fprintf(stderr, "MariaDB: %s\n", mysql_error(connection));
    return connection;
}

static int start(void **state)
{
    if (!mariadb_fixture_is_installed())
        return 0;
    database = mariadb_fixture_start();
    if (!database || scene_start(state) != 0)
        return -1;
    sql = connect_database();
    return 0;
}

static int stop(void **state)
{
    if (!database)
        return 0;
    mysql_close(sql);
    mysql_library_end();
    mariadb_fixture_free(database);
    return scene_stop(state);
}

/* Rows that were changed; a failure is printed and is -1. */
static long long run(MYSQL *connection, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (mysql_query(connection, text) == 0)
        return (long long)mysql_affected_rows(connection);
    fprintf(stderr, "MariaDB: %s: %s\n", text, mysql_error(connection));
    return -1;
}

/* What a buyer sees: lamps, and the version of their row or item. */
typedef struct seen {
    long long lamps, version;
} seen;

static seen look_in_database(MYSQL *connection, const char *lock)
{
    char text[128];
    seen ret = {-1, -1};

    snprintf(text, sizeof text, "SELECT num, version FROM versions.lamps WHERE id = 1%s", lock);
    MYSQL_RES *result = mysql_query(connection, text) == 0 ? mysql_store_result(connection) : NULL;
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row)
        ret = (seen){strtoll(row[0], NULL, 10), strtoll(row[1], NULL, 10)};
    mysql_free_result(result);
    return ret;
}

static seen look_at_row(void)
{
    return look_in_database(sql, "");
}

static seen look_at_item(void)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;
    lks_error error = {0};

    request.group = "versions";
    request.sku = "lamp";
    scene_ok(lks_stock_get_item(s.channels[0], &request, NULL, &response, &error), &error);
    seen ret = {response->item->available, response->item->version};
    lks_get_item_response_free(response);
    return ret;
}

/* ---- ways whose look and write are apart: false when another buyer was faster --------- */

static bool write_item_by_version(seen before)
{
    lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
    lks_error error = {0};

    request.group = "versions";
    request.sku = "lamp";
    request.delta = -1;
    request.expected_version = before.version;
    lks_code code = lks_stock_adjust(s.channels[0], &request, NULL, NULL, &error);
    if (code != LKS_ABORTED)
        scene_ok(code, &error);
    return code == LKS_OK;
}

static bool write_row_by_version(seen before)
{
    long long changed =
        run(sql, "UPDATE versions.lamps SET num = %lld, version = version + 1 WHERE id = 1 AND version = %lld",
            before.lamps - 1, before.version);

    assert_true(changed >= 0);
    return changed == 1;
}

static bool write_row(seen before)
{
    assert_true(run(sql, "UPDATE versions.lamps SET num = %lld WHERE id = 1", before.lamps - 1) >= 0);
    return true;
}

/* ---- ways that are one step; buyers are threads ----------------------------------------- */

static pthread_barrier_t all_here;

/* Returns a buyer's number if it bought. */
static void *buy_by_row_lock(void *arg)
{
    MYSQL *connection = connect_database();

    pthread_barrier_wait(&all_here);
    bool good = run(connection, "START TRANSACTION") >= 0;
    seen before = look_in_database(connection, " FOR UPDATE");
    good = good && (before.lamps <= 0 ||
                    run(connection, "UPDATE versions.lamps SET num = %lld WHERE id = 1", before.lamps - 1) == 1);
    good = run(connection, "COMMIT") >= 0 && good;
    mysql_close(connection);
    mysql_thread_end();
    return good && before.lamps > 0 ? arg : NULL;
}

static void *buy_by_deduct(void *arg)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_response *response = NULL;

    line.sku = "lamp";
    line.quantity = 1;
    request.group = "versions";
    request.order_id = arg;
    request.lines = lines;
    request.n_lines = 1;
    pthread_barrier_wait(&all_here);
    bool bought = lks_stock_deduct(s.channels[0], &request, NULL, &response, NULL) == LKS_OK &&
                  response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED;
    lks_deduct_response_free(response);
    return bought ? arg : NULL;
}

/* ---- the table ---------------------------------------------------------------------------- */

static void fill(void)
{
    scene_put_item("versions", "lamp", LAMPS, 0);
    assert_true(run(sql, "CREATE DATABASE IF NOT EXISTS versions") >= 0);
    assert_true(run(sql, "CREATE TABLE IF NOT EXISTS versions.lamps (id INT PRIMARY KEY, num INT NOT NULL,"
                         " version BIGINT NOT NULL) ENGINE=InnoDB") >= 0);
    assert_true(run(sql, "REPLACE INTO versions.lamps VALUES (1, %d, 1)", LAMPS) >= 0);
}

static void print_way(const char *way, int sold, long long left, int retries)
{
    fprintf(s.table, "  %-36s  %4d  %8d  %13d  %4lld  %7d\n", way, sold, sold > LAMPS ? sold - LAMPS : 0, BUYERS - sold,
            left, retries);
}

/* Rounds: all who have no answer look, then all of them write, one after the other. */
static void play_rounds(const char *way, seen (*look)(void), bool (*write)(seen))
{
    int waiting = BUYERS, sold = 0, retries = 0;

    fill();
    while (waiting > 0) {
        seen before[BUYERS];
        int failed = 0;
        for (int i = 0; i < waiting; i++)
            before[i] = look();
        assert_true(before[0].lamps >= 0);
        for (int i = 0; i < waiting && before[0].lamps > 0; i++) {
            bool bought = write(before[i]);
            sold += bought;
            failed += !bought;
        }
        retries += failed;
        waiting = failed;
    }
    print_way(way, sold, look().lamps, retries);
}

static void play_at_once(const char *way, seen (*look)(void), void *(*buy)(void *))
{
    pthread_t threads[BUYERS];
    char orders[BUYERS][16];
    int sold = 0;

    fill();
    assert_int_equal(pthread_barrier_init(&all_here, NULL, BUYERS), 0);
    for (int i = 0; i < BUYERS; i++) {
        snprintf(orders[i], sizeof orders[i], "order-%d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, buy, orders[i]), 0);
    }
    for (int i = 0; i < BUYERS; i++) {
        void *bought = NULL;
        pthread_join(threads[i], &bought);
        sold += bought != NULL;
    }
    pthread_barrier_destroy(&all_here);
    print_way(way, sold, look().lamps, 0);
}

TEST(same_buyers_by_each_way)
{
    if (!database)
        skip();
    scene_begin();
    fprintf(s.table, "scene l: %d buyers, %d lamps; all of them look, then all of them write\n", BUYERS, LAMPS);
    fprintf(s.table, "  %-36s  %4s  %8s  %13s  %4s  %7s\n", "way", "sold", "oversold", "told sold out", "left",
            "retries");
    play_rounds("GetItem, then Adjust by its version", look_at_item, write_item_by_version);
    play_rounds("MariaDB: a version column", look_at_row, write_row_by_version);
    play_at_once("MariaDB: SELECT ... FOR UPDATE", look_at_row, buy_by_row_lock);
    play_at_once("Deduct", look_at_item, buy_by_deduct);
    play_rounds("MariaDB: SELECT, then UPDATE", look_at_row, write_row);
    scene_end();
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)

/* Invariant: the rows of `goods` and the row of `consumer` change in one transaction. The copy always equals the ledger
 * up to consumer.last_id. */
#include "goods.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what an entry does ----------------------------------------------------------- */

/* Names are bytes, because in a text column 'a' may equal 'A' or 'a '. */
static const char *const schema[] = {
    "CREATE DATABASE IF NOT EXISTS shop",
    "USE shop",
    ("CREATE TABLE IF NOT EXISTS goods (ledger VARBINARY(128), id VARBINARY(128), num BIGINT NOT NULL CHECK (num >= 0),"
     " reserved BIGINT NOT NULL CHECK (reserved >= 0), sold BIGINT NOT NULL CHECK (sold >= 0),"
     " PRIMARY KEY (ledger, id)) ENGINE=InnoDB"),
    ("CREATE TABLE IF NOT EXISTS consumer (ledger VARBINARY(128) PRIMARY KEY, last_id VARBINARY(2304) NOT NULL)"
     " ENGINE=InnoDB"),
};

typedef enum statement { MOVE_ON, TAKE, ADD, DROP, START_OVER, N_STATEMENTS } statement;

static const char *const texts[N_STATEMENTS] = {
    [MOVE_ON] = "UPDATE consumer SET last_id = ? WHERE ledger = ? AND last_id = ?",
    [TAKE] = "UPDATE goods SET num = num - ?, reserved = reserved - ?, sold = sold - ?"
             " WHERE ledger = ? AND id = ? AND num >= ? AND reserved >= ? AND sold >= ?",
    [ADD] = "INSERT INTO goods (num, ledger, id, reserved, sold) VALUES (?, ?, ?, 0, 0)",
    [DROP] = "DELETE FROM goods WHERE ledger = ? AND id = ? AND num = ? AND reserved = 0",
    [START_OVER] = "UPDATE consumer SET last_id = '" GOODS_NOTHING_READ "' WHERE ledger = ? AND last_id = ?"
                   " AND last_id <> '" GOODS_NOTHING_READ "'"
                   " AND NOT EXISTS (SELECT 1 FROM goods WHERE goods.ledger = consumer.ledger)",
};

/* What a unit of each kind takes from num, reserved and sold: the table in stock.proto. */
static const int takes[][3] = {
    [LKS_LEDGER_KIND_PUT] = {-1, 0, 0},       [LKS_LEDGER_KIND_ADJUSTED] = {-1, 0, 0},
    [LKS_LEDGER_KIND_DEDUCTED] = {1, 0, -1},  [LKS_LEDGER_KIND_RESERVED] = {1, -1, 0},
    [LKS_LEDGER_KIND_CONFIRMED] = {0, 1, -1}, [LKS_LEDGER_KIND_CANCELLED] = {-1, 1, 0},
    [LKS_LEDGER_KIND_EXPIRED] = {-1, 1, 0},   [LKS_LEDGER_KIND_RETURNED] = {-1, 0, 1},
    [LKS_LEDGER_KIND_DELETED] = {0, 0, 0},    [LKS_LEDGER_KIND_TRANSFERRED] = {-1, 0, 0},
};
enum { KINDS = sizeof takes / sizeof takes[0] };

struct goods {
    MYSQL *connection;
    const char *group;
    MYSQL_STMT *statements[N_STATEMENTS];
};

/* ---- SQL --------------------------------------------------------------------------- */

static MYSQL_BIND number(const int64_t *value)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = (void *)(uintptr_t)value};
}

static MYSQL_BIND text(const char *value)
{
    return (MYSQL_BIND){
        .buffer_type = MYSQL_TYPE_STRING, .buffer = (void *)(uintptr_t)value, .buffer_length = strlen(value)};
}

static bool query(goods *db, const char *sql)
{
    if (mysql_query(db->connection, sql) == 0)
        return true;
    fprintf(stderr, "MariaDB: %s\n", mysql_error(db->connection));
    return false;
}

/* Returns the number of rows that a statement found, or -1 if it failed. */
static long long run(goods *db, statement which, MYSQL_BIND *values)
{
    MYSQL_STMT *s = db->statements[which];

    if (mysql_stmt_bind_param(s, values) == 0 && mysql_stmt_execute(s) == 0)
        return (long long)mysql_stmt_affected_rows(s);
    fprintf(stderr, "MariaDB: %s\n", mysql_stmt_error(s));
    return -1;
}

/* ---- copying ------------------------------------------------------------------------ */

static bool take(goods *db, const lks_ledger_entry *e, long long *found)
{
    int64_t num = takes[e->kind][0] * e->quantity, reserved = takes[e->kind][1] * e->quantity,
            sold = takes[e->kind][2] * e->quantity;
    MYSQL_BIND values[] = {number(&num), number(&reserved), number(&sold),     text(db->group),
                           text(e->sku), number(&num),      number(&reserved), number(&sold)};

    *found = run(db, TAKE, values);
    return *found >= 0;
}

static bool apply(goods *db, const lks_ledger_entry *e)
{
    MYSQL_BIND values[] = {number(&e->quantity), text(db->group), text(e->sku)};
    MYSQL_BIND dropped[] = {text(db->group), text(e->sku), number(&e->quantity)};
    long long found = 0;

    if ((int)e->kind <= 0 || (int)e->kind >= KINDS) {
        fprintf(stderr, "entry %s is of a kind that this program does not know\n", e->id);
        return false;
    }
    if (e->kind == LKS_LEDGER_KIND_DELETED)
        found = run(db, DROP, dropped);
    else if (take(db, e, &found) && found == 0 && e->kind == LKS_LEDGER_KIND_PUT)
        found = run(db, ADD, values);
    if (found == 0)
        fprintf(stderr, "entry %s, %lld of %s, contradicts the copy\n", e->id, (long long)e->quantity, e->sku);
    return found == 1;
}

static long long move_on(goods *db, const char *from, const char *to)
{
    MYSQL_BIND values[] = {text(to), text(db->group), text(from)};

    return run(db, MOVE_ON, values);
}

goods_result goods_copy(goods *db, const char *after, const lks_read_ledger_response *news)
{
    goods_result result = GOODS_FAILED;
    long long found;

    if (!query(db, "START TRANSACTION"))
        return result;
    /* First, for it locks the row: another consumer waits here, and then finds that
     * these entries are copied. */
    found = move_on(db, after, news->next_after);
    if (found == 0)
        result = GOODS_OVERTAKEN;
    if (found != 1)
        goto cleanup;
    for (size_t i = 0; i < news->n_entries; i++)
        if (!apply(db, news->entries[i]))
            goto cleanup;
    if (query(db, "COMMIT"))
        return GOODS_COPIED;

cleanup:
    query(db, "ROLLBACK");
    return result;
}

bool goods_start_over(goods *db, const char *position)
{
    MYSQL_BIND values[] = {text(db->group), text(position)};

    return run(db, START_OVER, values) == 1;
}

/* ---- reading ------------------------------------------------------------------------- */

bool goods_position(goods *db, char id[GOODS_ID_SIZE])
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    char escaped[2 * GOODS_NAME_SIZE], sql[512];

    mysql_real_escape_string(db->connection, escaped, db->group, strlen(db->group));
    snprintf(sql, sizeof sql, "SELECT last_id FROM consumer WHERE ledger = '%s'", escaped);
    if (!query(db, sql) || !(result = mysql_store_result(db->connection)))
        return false;
    if ((row = mysql_fetch_row(result)))
        snprintf(id, GOODS_ID_SIZE, "%s", row[0]);
    else
        fprintf(stderr, "the consumer's row is gone\n");
    mysql_free_result(result);
    return row;
}

/* ---- opening -------------------------------------------------------------------------- */

static bool make_tables(goods *db)
{
    char escaped[2 * GOODS_NAME_SIZE], sql[512];

    for (size_t i = 0; i < sizeof schema / sizeof schema[0]; i++)
        if (!query(db, schema[i]))
            return false;
    mysql_real_escape_string(db->connection, escaped, db->group, strlen(db->group));
    snprintf(sql, sizeof sql, "INSERT IGNORE INTO consumer VALUES ('%s', '" GOODS_NOTHING_READ "')", escaped);
    return query(db, sql);
}

static bool prepare(goods *db)
{
    for (int i = 0; i < N_STATEMENTS; i++) {
        db->statements[i] = mysql_stmt_init(db->connection);
        if (!db->statements[i] || mysql_stmt_prepare(db->statements[i], texts[i], strlen(texts[i])) != 0) {
            fprintf(stderr, "MariaDB: %s\n", mysql_error(db->connection));
            return false;
        }
    }
    return true;
}

goods *goods_open(const char *socket_path, const char *group)
{
    goods *db = calloc(1, sizeof *db);

    if (!db || strlen(group) >= GOODS_NAME_SIZE || !(db->connection = mysql_init(NULL)))
        goto failed;
    db->group = group;
    /* CLIENT_FOUND_ROWS: an UPDATE returns the rows that it found, changed or not. */
    if (!mysql_real_connect(db->connection, NULL, "root", NULL, NULL, 0, socket_path, CLIENT_FOUND_ROWS)) {
        fprintf(stderr, "MariaDB: %s\n", mysql_error(db->connection));
        goto failed;
    }
    if (make_tables(db) && prepare(db))
        return db;

failed:
    goods_close(db);
    return NULL;
}

void goods_close(goods *db)
{
    if (!db)
        return;
    for (int i = 0; i < N_STATEMENTS; i++)
        if (db->statements[i])
            mysql_stmt_close(db->statements[i]);
    if (db->connection)
        mysql_close(db->connection);
    free(db);
}

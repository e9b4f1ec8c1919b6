/* The same in SQL: a column that counts the row's changes; a lock on the row; and neither. */
#include <mysql.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "way.h"

/* Runs a statement; how many rows it changed or brought, -1: it failed. */
static long long run(MYSQL *database, lks_error *error, const char *format, ...)
{
    char sql[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    if (mysql_query(database, sql) == 0)
        return (long long)mysql_affected_rows(database);
    lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "MariaDB: %s", mysql_error(database));
    return -1;
}

/* Looks at the lamp's row; `how` ends the SELECT. */
static bool look(MYSQL *database, const char *how, int64_t *num, int64_t *version, lks_error *error)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;

    if (mysql_query(database, how) == 0 && (result = mysql_store_result(database)))
        row = mysql_fetch_row(result);
    if (row) {
        *num = strtoll(row[0], NULL, 10);
        *version = strtoll(row[1], NULL, 10);
    } else {
        lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "MariaDB: no lamp: %s", mysql_error(database));
    }
    if (result)
        mysql_free_result(result);
    return row != NULL;
}

#define LOOK "SELECT num, version FROM versions.lamps WHERE id = 1"

MYSQL *database_open(const char *socket_path, lks_error *error)
{
    MYSQL *database = mysql_init(NULL);

    if (database && mysql_real_connect(database, NULL, "root", NULL, NULL, 0, socket_path, 0))
        return database;
    lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "MariaDB at %s: %s", socket_path,
                  database ? mysql_error(database) : "no memory");
    database_close(database);
    return NULL;
}

void database_close(MYSQL *database)
{
    if (database)
        mysql_close(database);
}

void database_thread_end(void)
{
    mysql_thread_end();
}

bool database_fill(MYSQL *database, lks_error *error)
{
    return run(database, error, "CREATE DATABASE IF NOT EXISTS versions") >= 0 &&
           run(database, error,
               "CREATE TABLE IF NOT EXISTS versions.lamps (id INT PRIMARY KEY, num INT NOT NULL,"
               " version BIGINT NOT NULL) ENGINE=InnoDB") >= 0 &&
           run(database, error, "REPLACE INTO versions.lamps VALUES (1, %d, 1)", LAMPS) >= 0;
}

bool database_left(MYSQL *database, int64_t *ret, lks_error *error)
{
    int64_t version;

    return look(database, LOOK, ret, &version, error);
}

purchase buy_by_column(buyer *b)
{
    for (;; b->retries++) {
        int64_t num = 0, version = 0;
        if (!look(b->database, LOOK, &num, &version, &b->error))
            return FAILED;
        if (num == 0)
            return SOLD_OUT;
        meeting_wait(b->looked);
        long long changed = run(b->database, &b->error,
                                "UPDATE versions.lamps SET num = %lld, version = version + 1"
                                " WHERE id = 1 AND version = %lld",
                                (long long)num - 1, (long long)version);
        if (changed != 0)
            return changed == 1 ? BOUGHT : FAILED;
    }
}

/* Who looks waits until who looked before has written. */
purchase buy_by_row_lock(buyer *b)
{
    int64_t num = 0, version = 0;

    meeting_wait(b->looked);
    if (run(b->database, &b->error, "START TRANSACTION") < 0 ||
        !look(b->database, LOOK " FOR UPDATE", &num, &version, &b->error) ||
        (num > 0 &&
         run(b->database, &b->error, "UPDATE versions.lamps SET num = %lld WHERE id = 1", (long long)num - 1) != 1) ||
        run(b->database, &b->error, "COMMIT") < 0)
        return FAILED;
    return num > 0 ? BOUGHT : SOLD_OUT;
}

/* Read, think, write. */
purchase buy_by_select_update(buyer *b)
{
    int64_t num = 0, version = 0;

    if (!look(b->database, LOOK, &num, &version, &b->error))
        return FAILED;
    if (num == 0)
        return SOLD_OUT;
    meeting_wait(b->looked);
    return run(b->database, &b->error, "UPDATE versions.lamps SET num = %lld WHERE id = 1", (long long)num - 1) >= 0
               ? BOUGHT
               : FAILED;
}

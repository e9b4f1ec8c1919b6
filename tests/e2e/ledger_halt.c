/* Linked with examples/ledger. LEDGER_HALT=POINT:N in the environment stops the process with SIGSTOP when it comes to
 * the point for the N-th time; its statements show where it is. */
#include <mysql.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_mysql_query(MYSQL *connection, const char *sql);
int __wrap_mysql_query(MYSQL *connection, const char *sql);

static void halt_at(const char *point)
{
    static long times;
    const char *wanted = getenv("LEDGER_HALT");
    size_t len = strlen(point);

    if (!wanted || strncmp(wanted, point, len) != 0 || wanted[len] != ':' || ++times != atol(wanted + len + 1))
        return;
    printf("halted at %s\n", point);
    fflush(stdout);
    raise(SIGSTOP);
}

int __wrap_mysql_query(MYSQL *connection, const char *sql)
{
    bool commits = strcmp(sql, "COMMIT") == 0;

    if (strcmp(sql, "START TRANSACTION") == 0)
        halt_at("read");
    if (commits)
        halt_at("applied");
    int status = __real_mysql_query(connection, sql);
    if (strncmp(sql, "SELECT last_id", strlen("SELECT last_id")) == 0)
        halt_at("begun");
    if (commits)
        halt_at("committed");
    return status;
}

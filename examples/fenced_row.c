/* A lock for a row of a database: the row has the fence of its last writer and refuses a lower one. The first holder
 * freezes for longer than its lease, the second writes, and the late write of the first changes nothing. */
#include <lockstock/lockstock.h>
#include <sqlite3.h>
#include <stdio.h>

/* Waits for the lock "report", at most 10 s; 0 if it was not available. */
static uint64_t lock(lks_channel *channel, const char *owner, int64_t lease_ms)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;
    uint64_t fence = 0;

    target.name = "report";
    request.targets = targets;
    request.n_targets = 1;
    request.owner = owner;
    request.lease_ms = lease_ms;
    request.wait_ms = 10000;
    if (lks_lock_acquire(channel, &request, NULL, &response, NULL) == LKS_OK &&
        response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED)
        fence = response->fences[0]->fence; /* and response->token, to renew and release */
    lks_acquire_response_free(response);
    return fence;
}

/* The condition is part of the write, so no other write can come between. */
static void write_report(sqlite3 *db, const char *body, uint64_t fence)
{
    sqlite3_stmt *update = NULL;

    sqlite3_prepare_v2(db, "UPDATE report SET body = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2", -1, &update, NULL);
    sqlite3_bind_text(update, 1, body, -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 2, (sqlite3_int64)fence);
    sqlite3_step(update);
    sqlite3_finalize(update);
    printf("%s: %s\n", body, sqlite3_changes(db) == 1 ? "written" : "too late");
}

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    sqlite3 *db = NULL;
    lks_error error;

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    sqlite3_open(":memory:", &db);
    sqlite3_exec(db,
                 "CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT, fence INTEGER NOT NULL);"
                 "INSERT INTO report VALUES (1, 'empty', 0)",
                 NULL, NULL, NULL);
    uint64_t first = lock(channel, "the first", 100);    /* and freezes until its lease has ended */
    uint64_t second = lock(channel, "the second", 1000); /* waits until then, and gets the lock */
    write_report(db, "by the second", second);
    write_report(db, "by the first", first);
    sqlite3_close(db);
    lks_channel_close(channel);
    return first == 0 || second <= first;
}

/* ledger URLS SOCKET GROUP [LIMIT]: copies the ledger of a group into the MariaDB on a unix socket, at most LIMIT (500)
 * entries in a transaction.
 *
 * Invariant, at whatever line this process is killed: entries are committed before they are trimmed, and committed
 * entries are never applied again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "goods.h"

enum { WAIT_MS = 60000, EXIT_LOST = 3 };

/* Trims the entries that the database has. */
static bool trim(lks_channel *channel, const char *group, const char *up_to)
{
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;
    lks_error error;

    request.group = group;
    request.up_to = up_to;
    if (lks_stock_trim_ledger(channel, &request, NULL, NULL, &error) == LKS_OK)
        return true;
    fprintf(stderr, "TrimLedger: %s: %s\n", lks_code_name(error.code), error.message);
    return false;
}

/* Returns the next entries, or none after a minute. */
static lks_read_ledger_response *read_after(lks_channel *channel, const char *group, const char *after, int limit)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_error error;

    request.group = group;
    request.after = after;
    request.limit = limit;
    request.wait_ms = WAIT_MS;
    if (lks_stock_read_ledger(channel, &request, NULL, &response, &error) != LKS_OK)
        fprintf(stderr, "ReadLedger: %s: %s\n", lks_code_name(error.code), error.message);
    return response;
}

/* TRIMMED means lost, with two exceptions: another consumer of this database copied the entries meanwhile; or the group
 * was emptied and its ledger forgotten after 30 days. Then the copy is empty too, and the new ledger is read from its
 * beginning. */
static bool is_lost(goods *db, const char *position)
{
    char now[GOODS_ID_SIZE];

    if (goods_position(db, now) && strcmp(now, position) != 0)
        return false;
    if (goods_start_over(db, position))
        return false;
    fprintf(stderr,
            "entries after %s were trimmed before they were copied: the database stays wrong.\n"
            "Rebuild it from the items: docs/ledger.md.\n",
            position);
    return true;
}

/* Returns if anything fails: a restart is the only recovery. */
static int copy_ledger(lks_channel *channel, goods *db, const char *group, int limit)
{
    lks_read_ledger_response *news = NULL;
    char position[GOODS_ID_SIZE];
    goods_result result = GOODS_COPIED;

    while (result != GOODS_FAILED) {
        if (!goods_position(db, position) || !trim(channel, group, position) ||
            !(news = read_after(channel, group, position, limit)))
            return EXIT_FAILURE;
        if (news->outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED) {
            lks_read_ledger_response_free(news);
            if (is_lost(db, position))
                return EXIT_LOST;
            continue;
        }
        if (news->n_entries > 0 && (result = goods_copy(db, position, news)) == GOODS_COPIED)
            printf("copied %zu entries up to %s\n", news->n_entries, news->entries[news->n_entries - 1]->id);
        lks_read_ledger_response_free(news);
    }
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const lks_channel_options options = {.timeout_ms = 30000};
    int limit = argc > 4 ? atoi(argv[4]) : 500, status = EXIT_FAILURE;
    lks_channel *channel = NULL;
    lks_error error = {0};

    if (argc < 4 || limit <= 0) {
        fprintf(stderr, "usage: ledger URLS SOCKET GROUP [LIMIT]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (lks_channel_open(argv[1], &options, &channel, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    goods *db = goods_open(argv[2], argv[3]);
    if (db)
        status = copy_ledger(channel, db, argv[3], limit);
    goods_close(db);
    lks_channel_close(channel);
    return status;
}

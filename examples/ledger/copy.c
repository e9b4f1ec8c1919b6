/* ledger URLS SOCKET GROUP [--naive] [--limit N]: copies the ledger of a group into the MariaDB on a unix socket.
 *
 * Invariant, at whatever line this process is killed: entries are committed before they are trimmed, and committed
 * entries are never applied again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "goods.h"

enum { WAIT_MS = 60000, EXIT_LOST = 3 };

typedef struct copy_options {
    int limit; /* entries of one transaction */
    bool naive;
} copy_options;

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
static int copy_ledger(lks_channel *channel, goods *db, const char *group, const copy_options *options)
{
    lks_read_ledger_response *news = NULL;
    char position[GOODS_ID_SIZE];
    goods_result result;

    for (;;) {
        if (!goods_position(db, position))
            return EXIT_FAILURE;
        halt_at("begun");
        if (!trim(channel, group, position) || !(news = read_after(channel, group, position, options->limit)))
            return EXIT_FAILURE;
        halt_at("read");
        if (news->outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED) {
            lks_read_ledger_response_free(news);
            if (is_lost(db, position))
                return EXIT_LOST;
            continue;
        }
        result = GOODS_COPIED;
        if (news->n_entries > 0)
            result = (options->naive ? goods_copy_naively : goods_copy)(db, position, news);
        if (result == GOODS_COPIED && news->n_entries > 0)
            printf("copied %zu entries up to %s\n", news->n_entries, news->entries[news->n_entries - 1]->id);
        lks_read_ledger_response_free(news);
        if (result == GOODS_FAILED)
            return EXIT_FAILURE;
        halt_at("committed");
    }
}

/* ---- the program -------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, copy_options *options)
{
    bool good = argc > 3;

    for (int i = 4; good && i < argc; i++)
        if (strcmp(argv[i], "--naive") == 0)
            options->naive = true;
        else
            good = strcmp(argv[i], "--limit") == 0 && ++i < argc && (options->limit = atoi(argv[i])) > 0;
    if (!good)
        fprintf(stderr, "usage: ledger URLS SOCKET GROUP [--naive] [--limit N]\n");
    return good;
}

int main(int argc, char **argv)
{
    const lks_channel_options options = {.timeout_ms = 30000};
    copy_options how = {.limit = 500};
    lks_channel *channel = NULL;
    lks_error error = {0};
    int status = EXIT_FAILURE;

    if (!parse(argc, argv, &how))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (lks_channel_open(argv[1], &options, &channel, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    goods *db = goods_open(argv[2], argv[3]);
    if (db)
        status = copy_ledger(channel, db, argv[3], &how);
    goods_close(db);
    lks_channel_close(channel);
    return status;
}

/* The consumer. Invariant: what is trimmed was committed before, and what is committed
 * is never applied again, at whatever line this process is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "halt.h"
#include "ledger.h"

enum { WAIT_MS = 60000 };

/* Forgets what is safe in the database. */
static bool trim(lks_channel *channel, char *group, char *up_to)
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

/* The entries that follow, or none after a minute. */
static lks_read_ledger_response *read_after(lks_channel *channel, char *group, char *after, int limit)
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

/* TRIMMED means lost, unless another consumer of this database copied them meanwhile, or there
 * is nothing that could be wrong: of a group that was emptied, and whose ledger was forgotten
 * after 30 days, the copy is empty too, and a new ledger is read from its beginning. */
static bool is_lost(goods *db, const char *position)
{
    char now[GOODS_ID_SIZE];

    if (goods_position(db, now) && strcmp(now, position) != 0)
        return false;
    if (goods_start_over(db, position))
        return false;
    fprintf(stderr,
            "entries after %s were trimmed before they were copied: what the database says is wrong for\n"
            "good. Make it anew from the items; examples/ledger/README.md says how.\n",
            position);
    return true;
}

int copy_ledger(lks_channel *channel, goods *db, char *group, const copy_options *options)
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

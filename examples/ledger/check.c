/* Both sides compared. Invariant: rows and items are compared only when the ledger had no
 * entry that the copy had not, before and after the items were read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ledger.h"

enum { ROWS_MAX = 1000, SETTLE_MS = 3000, PATIENCE_S = 20 };

/* Whether the ledger has an entry after that one, or gets one within wait_ms; -1: failed. */
static int has_more(lks_channel *channel, char *group, char *after, int64_t wait_ms)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_error error;

    request.group = group;
    request.after = after;
    request.limit = 1;
    request.wait_ms = wait_ms;
    if (lks_stock_read_ledger(channel, &request, NULL, &response, &error) != LKS_OK) {
        fprintf(stderr, "ReadLedger: %s: %s\n", lks_code_name(error.code), error.message);
        return -1;
    }
    /* TRIMMED: the copy went on, and trimmed. */
    int more = response->n_entries > 0 || response->outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED;
    lks_read_ledger_response_free(response);
    return more;
}

static lks_list_items_response *list(lks_channel *channel, char *group)
{
    lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
    lks_list_items_response *response = NULL;
    lks_error error;

    request.group = group;
    request.page_size = ROWS_MAX;
    if (lks_stock_list_items(channel, &request, NULL, &response, &error) != LKS_OK)
        fprintf(stderr, "ListItems: %s: %s\n", lks_code_name(error.code), error.message);
    return response;
}

static bool is_equal(const goods_row *row, const lks_item *item)
{
    return strcmp(row->id, item->sku) == 0 && row->num == item->available && row->reserved == item->reserved &&
           row->sold == item->sold;
}

/* Both are in the order of their names' bytes. */
static bool are_equal(const goods_row *rows, int n, const lks_list_items_response *items)
{
    bool equal = (size_t)n == items->n_items;

    for (int i = 0; equal && i < n; i++)
        equal = is_equal(&rows[i], items->items[i]);
    return equal;
}

static void print(const goods_row *rows, int n, const lks_list_items_response *items)
{
    printf("%-12s %32s   %32s\n", "", "the database says", "lockstock says");
    printf("%-12s %10s %10s %10s   %10s %10s %10s\n", "", "num", "reserved", "sold", "available", "reserved", "sold");
    for (int i = 0; i < n && (size_t)i < items->n_items; i++) {
        const lks_item *item = items->items[i];
        printf("%-12s %10lld %10lld %10lld   %10lld %10lld %10lld%s\n", rows[i].id, rows[i].num, rows[i].reserved,
               rows[i].sold, (long long)item->available, (long long)item->reserved, (long long)item->sold,
               is_equal(&rows[i], item) ? "" : "   DIFFERS");
    }
    if ((size_t)n != items->n_items)
        printf("%d rows, %zu items\n", n, items->n_items);
}

/* A database cannot be waited for. */
static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* Reads rows that hold all of the ledger; how many, or -1. Gives up when the copy stands
 * still. */
static int caught_up(lks_channel *channel, goods *db, char *group, goods_row *rows, char position[GOODS_ID_SIZE])
{
    char before[GOODS_ID_SIZE] = "";
    time_t end = 0;

    for (;;) {
        int n = goods_rows(db, rows, ROWS_MAX, position);
        int more = n < 0 ? -1 : has_more(channel, group, position, 0);
        if (more <= 0)
            return more < 0 ? -1 : n;
        if (strcmp(position, before) != 0)
            end = time(NULL) + PATIENCE_S;
        strcpy(before, position);
        if (time(NULL) > end) {
            fprintf(stderr, "the copy stands still at %s\n", position);
            return -1;
        }
        pause_a_little();
    }
}

int check_copy(lks_channel *channel, goods *db, char *group)
{
    static goods_row rows[ROWS_MAX];
    char position[GOODS_ID_SIZE];

    for (;;) {
        int n = caught_up(channel, db, group, rows, position);
        lks_list_items_response *items = n < 0 ? NULL : list(channel, group);
        if (!items)
            return EXIT_FAILURE;
        bool equal = are_equal(rows, n, items);
        /* A hold that is over is no hold any more for who reads items, and in the ledger
         * a moment later. */
        int more = has_more(channel, group, position, equal ? 0 : SETTLE_MS);
        if (more == 0)
            print(rows, n, items);
        lks_list_items_response_free(items);
        if (more < 0)
            return EXIT_FAILURE;
        if (more == 0) {
            printf("%s\n", equal ? "equal" : "not equal");
            return equal ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
}

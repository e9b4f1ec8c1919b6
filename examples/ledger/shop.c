#include "shop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GOODS = 8, ON_HAND = 1000000, HOLD_MS = 100, ROWS_MAX = 1000, SETTLE_MS = 3000, PATIENCE_S = 20 };

static const char *const names[GOODS] = {"goods-1", "goods-2", "goods-3", "goods-4",
                                         "goods-5", "goods-6", "goods-7", "goods-8"};

static int failed(const char *what, const lks_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, lks_code_name(error->code), error->message);
    return EXIT_FAILURE;
}

int shop_fill(lks_channel *channel, const char *group)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = group;
    request.on_hand = ON_HAND;
    request.must_be_new = true;
    for (int i = 0; i < GOODS; i++) {
        request.sku = names[i];
        if (lks_stock_put_item(channel, &request, NULL, NULL, &error) != LKS_OK)
            return failed("PutItem", &error);
    }
    return EXIT_SUCCESS;
}

/* ---- selling -------------------------------------------------------------------------- */

typedef struct order {
    lks_channel *channel;
    const char *group;
    char id[64];
    lks_line line[2], *lines[2];
    size_t n_lines;
} order;

static lks_code deduct(order *o, lks_error *error)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = o->n_lines;
    return lks_stock_deduct(o->channel, &request, NULL, NULL, error);
}

static lks_code reserve(order *o, lks_error *error)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = o->n_lines;
    request.hold_ms = HOLD_MS;
    return lks_stock_reserve(o->channel, &request, NULL, NULL, error);
}

static lks_code confirm(order *o, lks_error *error)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    return lks_stock_confirm(o->channel, &request, NULL, NULL, error);
}

static lks_code cancel(order *o, lks_error *error)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    return lks_stock_cancel(o->channel, &request, NULL, NULL, error);
}

/* One line of it. TOO_MANY, or UNKNOWN_ORDER where nothing was sold, is an answer too. */
static lks_code take_back(order *o, lks_error *error)
{
    lks_return_request request = LKS_RETURN_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = 1;
    return lks_stock_return(o->channel, &request, NULL, NULL, error);
}

/* What becomes of orders; a reserved one without a next step expires. */
typedef lks_code step(order *o, lks_error *error);
static step *const fates[][3] = {{deduct},           {deduct},           {deduct, take_back},
                                 {reserve, confirm}, {reserve, confirm}, {reserve, confirm, take_back},
                                 {reserve, cancel},  {reserve}};

int shop_sell(lks_channel *channel, const char *group, int n)
{
    order o = {.channel = channel, .group = group, .lines = {&o.line[0], &o.line[1]}};
    long long run = (long long)time(NULL) << 32 | getpid();
    lks_error error;

    srandom((unsigned)getpid());
    for (int i = 0; i < n; i++) {
        long first = random() % GOODS, fate = random() % (long)(sizeof fates / sizeof *fates);
        snprintf(o.id, sizeof o.id, "order-%llx-%d", run, i); /* the channel may send a call again */
        o.n_lines = 1 + (size_t)(random() % 2);
        for (size_t k = 0; k < o.n_lines; k++) {
            o.line[k] = (lks_line)LKS_LINE_INIT;
            o.line[k].sku = names[(first + 3 * (long)k) % GOODS];
            o.line[k].quantity = 1 + random() % 3;
        }
        for (int k = 0; k < 3 && fates[fate][k]; k++)
            if (fates[fate][k](&o, &error) != LKS_OK)
                return failed(o.id, &error);
    }
    printf("sold: %d orders\n", n);
    return EXIT_SUCCESS;
}

/* ---- both sides compared ------------------------------------------------------------------ */

/* Whether the ledger has an entry after that one, or gets one within wait_ms; -1: it cannot be read. */
static int has_more(lks_channel *channel, const char *group, const char *after, int64_t wait_ms)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_error error;

    request.group = group;
    request.after = after;
    request.limit = 1;
    request.wait_ms = wait_ms;
    if (lks_stock_read_ledger(channel, &request, NULL, &response, &error) != LKS_OK) {
        failed("ReadLedger", &error);
        return -1;
    }
    /* TRIMMED: the consumer went on, and trimmed. */
    int more = response->n_entries > 0 || response->outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED;
    lks_read_ledger_response_free(response);
    return more;
}

static bool is_equal(const goods_row *row, const lks_item *item)
{
    return strcmp(row->id, item->sku) == 0 && row->num == item->available && row->reserved == item->reserved &&
           row->sold == item->sold;
}

/* Prints both where `prints`. They are in the order of their names. */
static bool compare(const goods_row *rows, size_t n, const lks_list_items_response *items, bool prints)
{
    bool equal = n == items->n_items;

    if (prints)
        printf("%-12s %32s   %32s\n%-12s %10s %10s %10s   %10s %10s %10s\n", "", "the database says", "lockstock says",
               "", "num", "reserved", "sold", "available", "reserved", "sold");
    for (size_t i = 0; i < n && i < items->n_items; i++) {
        const lks_item *item = items->items[i];
        bool same = is_equal(&rows[i], item);
        equal = equal && same;
        if (prints)
            printf("%-12s %10lld %10lld %10lld   %10lld %10lld %10lld%s\n", rows[i].id, rows[i].num, rows[i].reserved,
                   rows[i].sold, (long long)item->available, (long long)item->reserved, (long long)item->sold,
                   same ? "" : "   DIFFERS");
    }
    if (prints)
        printf("%s\n", equal ? "equal" : "not equal");
    return equal;
}

/* Rows and items are compared when the ledger has no entry that the copy has not, before and after the items are read. A
 * hold that ended is gone from the items at once, and from the ledger a moment later. */
int shop_check(lks_channel *channel, goods *db, const char *group)
{
    static goods_row rows[ROWS_MAX];
    char position[GOODS_ID_SIZE], before[GOODS_ID_SIZE] = "";
    time_t end = 0;

    for (;;) {
        int n = goods_rows(db, rows, ROWS_MAX, position), more = n < 0 ? -1 : has_more(channel, group, position, 0);
        if (strcmp(position, before) != 0)
            end = time(NULL) + PATIENCE_S;
        strcpy(before, position);
        if (more < 0 || time(NULL) > end) {
            fprintf(stderr, "the copy is at %s and does not follow\n", position);
            return EXIT_FAILURE;
        }
        if (more > 0) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            continue;
        }
        lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
        lks_list_items_response *items = NULL;
        lks_error error;
        request.group = group;
        request.page_size = ROWS_MAX;
        if (lks_stock_list_items(channel, &request, NULL, &items, &error) != LKS_OK)
            return failed("ListItems", &error);
        bool equal = compare(rows, (size_t)n, items, false);
        more = has_more(channel, group, position, equal ? 0 : SETTLE_MS);
        if (more == 0)
            compare(rows, (size_t)n, items, true);
        lks_list_items_response_free(items);
        if (more <= 0)
            return more == 0 && equal ? EXIT_SUCCESS : EXIT_FAILURE;
    }
}

/* A sale is exact if the items, the orders and the ledger each agree with the answers, and no buyer was refused while
 * goods were left. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sale.h"

enum { CHECK_TIMEOUT_MS = 60000, LEDGER_PAGE = 1000 };

typedef struct checking {
    flash_sale *sale;
    lks_channel *channel;
    sale_result *result;
    unsigned *entries; /* of the ledger, for each order */
} checking;

static const lks_call_options patient = {.timeout_ms = CHECK_TIMEOUT_MS};

/* Records the first error. */
static void complain(sale_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(sale_result *result, const char *format, ...)
{
    va_list args;

    if (result->why[0] == '\0') {
        va_start(args, format);
        vsnprintf(result->why, sizeof result->why, format, args);
        va_end(args);
    }
}

static void count_answers(flash_sale *sale, sale_result *result)
{
    for (size_t i = 0; i < sale->n_orders; i++) {
        const sale_order *order = &sale->orders[i];
        result->sold += order->state == ORDER_SOLD;
        result->by_later_choice += order->state == ORDER_SOLD && i >= sale->n_buyers;
        result->refused += order->state == ORDER_REFUSED;
        result->unsettled += order->state == ORDER_UNKNOWN;
        if (order->state == ORDER_WRONG) {
            complain(result, "order %s got an unexpected outcome", order->id);
        } else if (order->state == ORDER_UNKNOWN) {
            complain(result, "order %s has no answer: %s %s", order->id, lks_code_name(order->error.code),
                     order->error.message);
        }
    }
}

static lks_code check_items(checking *c, lks_error *error)
{
    for (size_t i = 0; i < c->sale->n_goods; i++) {
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        lks_get_item_response *response = NULL;
        request.group = c->sale->group;
        request.sku = c->sale->skus[i];
        lks_code code = lks_stock_get_item(c->channel, &request, &patient, &response, error);
        if (code != LKS_OK)
            return code;
        const lks_item *item = response->item;
        if (!item || item->reserved != 0 || item->available < 0 || item->available + item->sold != c->sale->stock)
            complain(c->result, "%s does not add up to its stock", c->sale->skus[i]);
        else
            c->result->goods[i] = (good_result){.sold = item->sold, .left = item->available};
        lks_get_item_response_free(response);
    }
    return LKS_OK;
}

/* Returns the index of the order of an entry, or -1 if it is not of this sale. */
static long order_of_entry(const flash_sale *sale, const lks_ledger_entry *entry)
{
    const char *dash = strrchr(entry->order_id, '-');
    size_t index = dash ? strtoul(dash + 1, NULL, 10) : sale->n_orders;

    bool is_ours = index < sale->n_orders && strcmp(sale->orders[index].id, entry->order_id) == 0 &&
                   entry->quantity == 1 && strcmp(sale->skus[sale->orders[index].good], entry->sku) == 0;
    return is_ours ? (long)index : -1;
}

static void check_entry(checking *c, const lks_ledger_entry *entry)
{
    if (entry->kind == LKS_LEDGER_KIND_PUT)
        return;
    long index = entry->kind == LKS_LEDGER_KIND_DEDUCTED ? order_of_entry(c->sale, entry) : -1;
    if (index < 0) {
        complain(c->result, "the ledger has an entry that no buyer sent");
        return;
    }
    c->entries[index]++;
    c->result->goods[c->sale->orders[index].good].orders += c->entries[index] == 1;
}

static lks_code check_ledger(checking *c, lks_error *error)
{
    char after[2304] = "";

    for (bool more = true; more;) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        lks_read_ledger_response *response = NULL;
        request.group = c->sale->group;
        request.after = after;
        request.limit = LEDGER_PAGE;
        lks_code code = lks_stock_read_ledger(c->channel, &request, &patient, &response, error);
        if (code != LKS_OK)
            return code;
        if (response->outcome != LKS_READ_LEDGER_OUTCOME_OK)
            complain(c->result, "the ledger was trimmed");
        for (size_t i = 0; i < response->n_entries; i++)
            check_entry(c, response->entries[i]);
        snprintf(after, sizeof after, "%s", response->next_after);
        more = response->n_entries > 0;
        lks_read_ledger_response_free(response);
    }
    for (size_t i = 0; i < c->sale->n_orders; i++) {
        const sale_order *order = &c->sale->orders[i];
        unsigned expected = order->state == ORDER_SOLD;
        if (c->entries[i] != expected && order->state != ORDER_UNKNOWN)
            complain(c->result, "order %s: %u entries in the ledger, not %u", order->id, c->entries[i], expected);
    }
    return LKS_OK;
}

static bool is_recorded(const sale_order *order, const lks_order *record)
{
    return record && record->state == LKS_ORDER_STATE_CONFIRMED && record->n_lines == 1 &&
           record->lines[0]->quantity == 1 && record->lines[0]->returned == 0 &&
           strcmp(record->lines[0]->sku, order->sale->skus[order->good]) == 0 &&
           strcmp(record->order_id, order->id) == 0 && strcmp(record->buyer_id, order->buyer) == 0;
}

static lks_code check_order(checking *c, const sale_order *order, lks_error *error)
{
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    lks_get_order_response *response = NULL;

    request.group = c->sale->group;
    request.order_id = order->id;
    lks_code code = lks_stock_get_order(c->channel, &request, &patient, &response, error);
    if (code != LKS_OK && code != LKS_NOT_FOUND)
        return code;
    if (order->state == ORDER_SOLD && (code != LKS_OK || !is_recorded(order, response->order)))
        complain(c->result, "order %s was sold and is not recorded", order->id);
    else if (order->state == ORDER_REFUSED && code != LKS_NOT_FOUND)
        complain(c->result, "order %s was refused and is recorded", order->id);
    lks_get_order_response_free(response);
    return LKS_OK;
}

/* Compares the answers for each good with the records of the server. */
static void compare(flash_sale *sale, sale_result *result)
{
    int64_t told[SALE_GOODS_MAX] = {0};
    bool refused[SALE_GOODS_MAX] = {false};

    for (size_t i = 0; i < sale->n_orders; i++) {
        told[sale->orders[i].good] += sale->orders[i].state == ORDER_SOLD;
        refused[sale->orders[i].good] |= sale->orders[i].state == ORDER_REFUSED;
    }
    for (size_t i = 0; i < sale->n_goods; i++) {
        good_result *good = &result->goods[i];
        bool adds_up =
            good->sold == told[i] && (int64_t)good->orders == told[i] && good->sold + good->left == sale->stock;
        if (!adds_up) {
            complain(result, "%s: %lld sold by its item, %zu by the ledger, %lld by its buyers", sale->skus[i],
                     (long long)good->sold, good->orders, (long long)told[i]);
        } else if (refused[i] && good->left > 0) {
            complain(result, "%s: a buyer was refused and %lld are left", sale->skus[i], (long long)good->left);
        }
        good->exact = adds_up && !(refused[i] && good->left > 0) && result->why[0] == '\0';
    }
    result->exact = result->why[0] == '\0';
}

lks_code sale_check(flash_sale *sale, lks_channel *channel, sale_result *result, lks_error *error)
{
    checking c = {sale, channel, result, calloc(sale->n_orders, sizeof(unsigned))};

    if (!c.entries)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    count_answers(sale, result);
    lks_code code = check_items(&c, error);
    if (code == LKS_OK)
        code = check_ledger(&c, error);
    for (size_t i = 0; code == LKS_OK && i < sale->n_orders; i++)
        if (sale->orders[i].state == ORDER_SOLD || sale->orders[i].state == ORDER_REFUSED)
            code = check_order(&c, &sale->orders[i], error);
    if (code == LKS_OK)
        compare(sale, result);
    free(c.entries);
    return code;
}

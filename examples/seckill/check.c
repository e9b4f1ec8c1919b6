/* Exact means: the items, the orders and the ledger each say what the buyers were
 * told, and nobody was refused what was left. Counters alone prove nothing. */
#include "sale.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_TIMEOUT_MS = 60000, LEDGER_PAGE = 1000 };

typedef struct checking {
    flash_sale *sale;
    lks_channel *channel;
    sale_result *result;
    unsigned *entries; /* of the ledger, for each order */
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    size_t under_way;
    lks_error failure; /* the first GetOrder that could not be asked */
} checking;

typedef struct order_question {
    checking *checking;
    sale_order *order;
} order_question;

/* Keeps the first complaint only. */
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

static const lks_call_options patient = {.timeout_ms = CHECK_TIMEOUT_MS};

static void count_answers(flash_sale *sale, sale_result *result)
{
    for (size_t i = 0; i < sale->n_orders; i++) {
        const sale_order *order = &sale->orders[i];
        result->sold += order->state == ORDER_SOLD;
        result->refused += order->state == ORDER_REFUSED;
        result->replayed += order->state == ORDER_SOLD && order->replayed;
        result->unsettled += order->state == ORDER_UNKNOWN;
        if (order->state == ORDER_WRONG) {
            complain(result, "order %s got an outcome that fits no flash sale", order->id);
        } else if (order->state == ORDER_UNKNOWN) {
            complain(result, "order %s has no answer: %s %s", order->id, lks_code_name(order->error.code),
                     order->error.message);
        }
    }
}

/* By the last good that each buyer asked for. */
static void count_buyers(const flash_sale *sale, sale_result *result)
{
    for (size_t b = 0; b < sale->n_buyers; b++) {
        size_t last = b;
        while (last + sale->n_buyers < sale->n_orders && sale->orders[last + sale->n_buyers].state != ORDER_UNUSED)
            last += sale->n_buyers;
        order_state state = sale->orders[last].state;
        result->bought += state == ORDER_SOLD;
        result->by_later_choice += state == ORDER_SOLD && last != b;
        result->told_sold_out += state == ORDER_REFUSED;
        result->no_answer += state != ORDER_SOLD && state != ORDER_REFUSED;
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
        good_result *good = &c->result->goods[i];
        if (!item || item->reserved != 0 || item->available < 0 || item->available + item->sold != c->sale->stock)
            complain(c->result, "%s does not add up to its stock", c->sale->skus[i]);
        else
            *good = (good_result){.sold = item->sold, .left = item->available};
        lks_get_item_response_free(response);
    }
    return LKS_OK;
}

/* An entry's order is found by the index that ends its id; -1 = not of this sale. */
static long order_of_entry(const flash_sale *sale, const lks_ledger_entry *entry)
{
    size_t run = strlen(sale->run);

    if (strncmp(entry->order_id, sale->run, run) != 0 || entry->order_id[run] != '-')
        return -1;
    long index = strtol(entry->order_id + run + 1, NULL, 10);
    bool is_ours = index >= 0 && (size_t)index < sale->n_orders &&
                   strcmp(sale->orders[index].id, entry->order_id) == 0 && entry->quantity == 1 &&
                   strcmp(sale->skus[sale->orders[index].good], entry->sku) == 0;
    return is_ours ? index : -1;
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

static void on_order(void *arg, lks_code code, const lks_get_order_response *response, const lks_error *error)
{
    order_question *question = arg;
    checking *c = question->checking;
    const sale_order *order = question->order;

    pthread_mutex_lock(&c->mutex);
    if (code != LKS_OK && code != LKS_NOT_FOUND) {
        if (c->failure.code == LKS_OK)
            c->failure = *error;
    } else if (order->state == ORDER_SOLD && (code != LKS_OK || !is_recorded(order, response->order))) {
        complain(c->result, "order %s was sold and is not recorded", order->id);
    } else if (order->state == ORDER_REFUSED && code != LKS_NOT_FOUND) {
        complain(c->result, "order %s was refused and is recorded", order->id);
    }
    c->under_way--;
    if (c->under_way == 0)
        pthread_cond_signal(&c->idle);
    pthread_mutex_unlock(&c->mutex);
}

static void ask(order_question *question)
{
    checking *c = question->checking;
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    lks_error error = {0};

    request.group = c->sale->group;
    request.order_id = question->order->id;
    pthread_mutex_lock(&c->mutex);
    c->under_way++;
    pthread_mutex_unlock(&c->mutex);
    lks_code code = lks_stock_get_order_start(c->channel, &request, &patient, on_order, question, NULL, &error);
    if (code != LKS_OK)
        on_order(question, code, NULL, &error);
}

static lks_code check_orders(checking *c, lks_error *error)
{
    order_question *questions = calloc(c->sale->n_orders, sizeof *questions);

    if (!questions)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    for (size_t i = 0; i < c->sale->n_orders; i++) {
        if (c->sale->orders[i].state == ORDER_SOLD || c->sale->orders[i].state == ORDER_REFUSED) {
            questions[i] = (order_question){.checking = c, .order = &c->sale->orders[i]};
            ask(&questions[i]);
        }
    }
    pthread_mutex_lock(&c->mutex);
    while (c->under_way > 0)
        pthread_cond_wait(&c->idle, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    free(questions);
    if (c->failure.code != LKS_OK)
        *error = c->failure;
    return c->failure.code;
}

/* What was told for each good against what the server has of it. */
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
    checking c = {.sale = sale,
                  .channel = channel,
                  .result = result,
                  .mutex = PTHREAD_MUTEX_INITIALIZER,
                  .idle = PTHREAD_COND_INITIALIZER,
                  .entries = calloc(sale->n_orders, sizeof *c.entries)};
    lks_code code;

    if (!c.entries)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    count_answers(sale, result);
    count_buyers(sale, result);
    code = check_items(&c, error);
    if (code == LKS_OK)
        code = check_ledger(&c, error);
    if (code == LKS_OK)
        code = check_orders(&c, error);
    if (code == LKS_OK)
        compare(sale, result);
    pthread_cond_destroy(&c.idle);
    pthread_mutex_destroy(&c.mutex);
    free(c.entries);
    return code;
}

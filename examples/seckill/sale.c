/* Order ids end in the order's index, so that a ledger entry finds its order. */
#include "sale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { PUT_TIMEOUT_MS = 30000, ORDER_RETAIN_MS = 3600000 };

static lks_code put_goods(lks_channel *channel, flash_sale *sale, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = PUT_TIMEOUT_MS};

    for (size_t i = 0; i < sale->n_goods; i++) {
        lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
        snprintf(sale->skus[i], sizeof sale->skus[i], "good-%zu", i);
        request.group = sale->group;
        request.sku = sale->skus[i];
        request.on_hand = sale->stock;
        request.order_retain_ms = ORDER_RETAIN_MS;
        lks_code code = lks_stock_put_item(channel, &request, &options, NULL, error);
        if (code != LKS_OK)
            return code;
    }
    return LKS_OK;
}

sale_order sale_order_at(flash_sale *sale, size_t index)
{
    size_t buyer = index % sale->n_buyers, choice = index / sale->n_buyers;
    /* First choices are uneven, so that there is something to fight for. */
    sale_order order = {.sale = sale, .good = (buyer % (sale->n_goods + 1) + choice) % sale->n_goods};

    snprintf(order.id, sizeof order.id, "%s-%zu", sale->run, index);
    snprintf(order.buyer, sizeof order.buyer, "buyer-%zu", buyer);
    return order;
}

lks_code sale_open(lks_channel *channel, const sale_plan *plan, flash_sale *ret, lks_error *error)
{
    uint64_t random = 0;

    if (plan->n_goods == 0 || plan->n_goods > SALE_GOODS_MAX || plan->n_buyers == 0 || plan->stock < 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "a sale needs goods and buyers");
    *ret = (flash_sale){.n_goods = plan->n_goods,
                        .stock = plan->stock,
                        .n_buyers = plan->n_buyers,
                        .n_orders = plan->n_buyers * plan->n_goods,
                        .patience_ms = plan->patience_ms};
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "no random numbers");
    snprintf(ret->run, sizeof ret->run, "%016llx", (unsigned long long)random);
    snprintf(ret->group, sizeof ret->group, "seckill-%s", ret->run);
    ret->orders = calloc(ret->n_orders, sizeof *ret->orders);
    if (!ret->orders)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    for (size_t i = 0; i < ret->n_orders; i++)
        ret->orders[i] = sale_order_at(ret, i);
    lks_code code = put_goods(channel, ret, error);
    if (code != LKS_OK)
        sale_close(ret);
    return code;
}

void sale_close(flash_sale *sale)
{
    free(sale->orders);
    sale->orders = NULL;
}

lks_deduct_request order_request(sale_order *order, lks_line *line, lks_line **lines)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    *line = (lks_line)LKS_LINE_INIT;
    line->sku = order->sale->skus[order->good];
    line->quantity = 1;
    *lines = line;
    request.group = order->sale->group;
    request.order_id = order->id;
    request.buyer_id = order->buyer;
    request.n_lines = 1;
    request.lines = lines;
    request.fresh = order->sends == 0;
    return request;
}

void order_answered(sale_order *order, lks_code code, const lks_deduct_response *response, const lks_error *error)
{
    order->sends++;
    order->state = ORDER_UNKNOWN;
    order->error = (lks_error){.code = code};
    if (code != LKS_OK) {
        if (error)
            order->error = *error;
        return;
    }
    order->replayed = response->replayed;
    switch (response->outcome) {
    case LKS_DEDUCT_OUTCOME_DEDUCTED:
        order->state = ORDER_SOLD;
        break;
    case LKS_DEDUCT_OUTCOME_SOLD_OUT:
        order->state = ORDER_REFUSED;
        break;
    default:
        order->state = ORDER_WRONG;
        break;
    }
    atomic_fetch_add(&order->sale->answered, 1);
}

char *count_text(size_t count, char text[COUNT_TEXT_MAX])
{
    char digits[COUNT_TEXT_MAX];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%zu", count), at = 0;

    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

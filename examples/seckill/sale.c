/* The id of an order ends in its index, by which the order of a ledger entry is found. */
#include "sale.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/rpc/method.h>

enum { PUT_TIMEOUT_MS = 30000, ORDER_RETAIN_MS = 3600000, CALL_MAX_MS = 10000, REST_MS = 20, REST_MAX_MS = 1000 };

int64_t sale_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sale_rest(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static lks_code put_goods(lks_channel *channel, flash_sale *sale, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = PUT_TIMEOUT_MS};
    lks_code code = LKS_OK;

    for (size_t i = 0; code == LKS_OK && i < sale->n_goods; i++) {
        lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
        snprintf(sale->skus[i], sizeof sale->skus[i], "good-%zu", i);
        request.group = sale->group;
        request.sku = sale->skus[i];
        request.on_hand = sale->stock;
        request.order_retain_ms = ORDER_RETAIN_MS;
        code = lks_stock_put_item(channel, &request, &options, NULL, error);
    }
    return code;
}

sale_order sale_order_at(flash_sale *sale, size_t index)
{
    size_t buyer = index % sale->n_buyers, choice = index / sale->n_buyers;
    /* The first good is the first choice of more buyers than the others. */
    sale_order order = {.sale = sale, .good = (buyer % (sale->n_goods + 1) + choice) % sale->n_goods};

    snprintf(order.id, sizeof order.id, "%s-%zu", sale->run, index);
    snprintf(order.buyer, sizeof order.buyer, "buyer-%zu", buyer);
    return order;
}

lks_code sale_open(flash_sale *sale, lks_channel *channel, lks_error *error)
{
    char random[LKS_RPC_RANDOM_ID_LEN + 1];

    assert(sale->n_goods > 0 && sale->n_goods <= SALE_GOODS_MAX);
    lks_rpc_random_id(random);
    snprintf(sale->run, sizeof sale->run, "%.16s", random);
    snprintf(sale->group, sizeof sale->group, "seckill-%s", sale->run);
    sale->n_orders = sale->n_buyers * sale->n_goods;
    sale->orders = calloc(sale->n_orders, sizeof *sale->orders);
    if (!sale->orders)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    for (size_t i = 0; i < sale->n_orders; i++)
        sale->orders[i] = sale_order_at(sale, i);
    return put_goods(channel, sale, error);
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
    order->state = response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED   ? ORDER_SOLD
                   : response->outcome == LKS_DEDUCT_OUTCOME_SOLD_OUT ? ORDER_REFUSED
                                                                      : ORDER_WRONG;
    atomic_fetch_add(&order->sale->answered, 1);
}

void order_send(sale_order *order, lks_channel *channel, int64_t end_ms)
{
    int64_t left = end_ms - sale_now_ms();
    lks_call_options options = {.timeout_ms = left < 1 ? 1 : (uint32_t)(left < CALL_MAX_MS ? left : CALL_MAX_MS)};
    lks_line line, *lines;
    lks_deduct_request request = order_request(order, &line, &lines);
    lks_deduct_response *response = NULL;
    lks_error error = {0};

    lks_code code = lks_stock_deduct(channel, &request, &options, &response, &error);
    order_answered(order, code, response, &error);
    lks_deduct_response_free(response);
}

bool order_rests(const sale_order *order, int64_t end_ms)
{
    uint32_t advised = order->error.retry_after_ms != 0 ? order->error.retry_after_ms : REST_MS;
    uint32_t rest_ms = advised < REST_MAX_MS ? advised : REST_MAX_MS;

    if (order->state != ORDER_UNKNOWN || sale_now_ms() + rest_ms >= end_ms)
        return false;
    sale_rest(rest_ms);
    return true;
}

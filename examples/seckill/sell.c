/* Two ways to send the orders of all buyers at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sale.h"

/* A blocking call needs a small stack; sanitizers need several times as much. */
enum { BUYER_STACK_BYTES = 256 * 1024, ROUND_MS = 10000, REST_MS = 50 };

/* ---- a thread for each buyer -------------------------------------------------------- */

typedef struct buyer_thread {
    pthread_t thread;
    size_t index;
    flash_sale *sale;
    lks_channel *channel;
} buyer_thread;

static void *buy(void *arg)
{
    buyer_thread *buyer = arg;
    flash_sale *sale = buyer->sale;
    int64_t end_ms = sale_now_ms() + sale->patience_ms;

    for (size_t i = buyer->index; i < sale->n_orders; i += sale->n_buyers) {
        do {
            order_send(&sale->orders[i], buyer->channel, end_ms);
        } while (order_rests(&sale->orders[i], end_ms));
        if (sale->orders[i].state != ORDER_REFUSED)
            break;
    }
    return NULL;
}

bool sell_by_threads(flash_sale *sale, lks_channel *channel, sale_result *result)
{
    pthread_attr_t attributes;
    buyer_thread *buyers = calloc(sale->n_buyers, sizeof *buyers);
    size_t n = 0;

    if (!buyers) {
        snprintf(result->why, sizeof result->why, "out of memory");
        return false;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BUYER_STACK_BYTES);
    for (; n < sale->n_buyers; n++) {
        buyers[n] = (buyer_thread){.index = n, .sale = sale, .channel = channel};
        if (pthread_create(&buyers[n].thread, &attributes, buy, &buyers[n]) != 0) {
            snprintf(result->why, sizeof result->why, "the system allows no more than %zu threads", n);
            break;
        }
    }
    pthread_attr_destroy(&attributes);
    for (size_t i = 0; i < n; i++)
        pthread_join(buyers[i].thread, NULL);
    free(buyers);
    return n == sale->n_buyers;
}

/* ---- an asynchronous call for each buyer ---------------------------------------------- */

static void on_answer(void *arg, lks_code code, const lks_deduct_response *response, const lks_error *error)
{
    order_answered(arg, code, response, error);
}

/* Sends every first choice without an answer, and waits. Returns how many still have none. */
static size_t run_round(flash_sale *sale, lks_channel *channel, lks_call **calls, uint32_t timeout_ms)
{
    const lks_call_options options = {.timeout_ms = timeout_ms};
    size_t unknown = 0;

    for (size_t i = 0; i < sale->n_buyers; i++) {
        sale_order *order = &sale->orders[i];
        lks_line line, *lines;
        lks_deduct_request request = order_request(order, &line, &lines);
        lks_error error = {0};
        calls[i] = NULL;
        if (order->state > ORDER_UNKNOWN)
            continue;
        lks_code code = lks_stock_deduct_start(channel, &request, &options, on_answer, order, &calls[i], &error);
        if (code != LKS_OK)
            order_answered(order, code, NULL, &error);
    }
    for (size_t i = 0; i < sale->n_buyers; i++) {
        if (calls[i])
            lks_call_wait(calls[i], NULL); /* until on_answer has returned */
        lks_call_free(calls[i]);
        unknown += sale->orders[i].state == ORDER_UNKNOWN;
    }
    return unknown;
}

bool sell_by_async(flash_sale *sale, lks_channel *channel, sale_result *result)
{
    int64_t end_ms = sale_now_ms() + sale->patience_ms, left;
    lks_call **calls = calloc(sale->n_buyers, sizeof *calls);

    if (!calls) {
        snprintf(result->why, sizeof result->why, "out of memory");
        return false;
    }
    while ((left = end_ms - sale_now_ms()) > 0 &&
           run_round(sale, channel, calls, (uint32_t)(left < ROUND_MS ? left : ROUND_MS)) > 0)
        sale_rest(REST_MS);
    free(calls);
    return true;
}

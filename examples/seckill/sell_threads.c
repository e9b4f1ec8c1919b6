/* The rush: every buyer is a thread that waits at the gate; when all are there it
 * opens. A thread writes to its own orders only. */
#include "sale.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "patience.h"

/* A blocking stub needs little; sanitizers need several times as much. */
enum { BUYER_STACK_BYTES = 256 * 1024 };

typedef struct rush_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t arrived;
    bool open;
} rush_gate;

typedef struct buyer_thread {
    pthread_t thread;
    size_t index;
    flash_sale *sale;
    lks_channel *channel;
    rush_gate *gate;
    const sale_patience *patience;
} buyer_thread;

static void gate_pass(rush_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->arrived++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void gate_open_when(rush_gate *gate, size_t expected)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->arrived < expected)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

/* Sends the order, and the same order again while there is no answer. */
static order_state buy(buyer_thread *buyer, sale_order *order)
{
    do {
        lks_line line, *lines;
        lks_deduct_request request = order_request(order, &line, &lines);
        lks_call_options options = {.timeout_ms = patience_call_ms(buyer->patience)};
        lks_deduct_response *response = NULL;
        lks_error error = {0};
        lks_code code = lks_stock_deduct(buyer->channel, &request, &options, &response, &error);
        order_answered(order, code, response, &error);
        lks_deduct_response_free(response);
    } while (order->state == ORDER_UNKNOWN && patience_rest(buyer->patience, &order->error));
    return order->state;
}

static void *shop(void *arg)
{
    buyer_thread *buyer = arg;
    flash_sale *sale = buyer->sale;

    gate_pass(buyer->gate);
    for (size_t choice = 0; choice < sale->n_goods; choice++)
        if (buy(buyer, &sale->orders[choice * sale->n_buyers + buyer->index]) != ORDER_REFUSED)
            break;
    return NULL;
}

bool sell_by_threads(flash_sale *sale, lks_channel *channel, sale_result *result)
{
    rush_gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    sale_patience patience = patience_of(sale->patience_ms);
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
        buyers[n] = (buyer_thread){.index = n, .sale = sale, .channel = channel, .gate = &gate, .patience = &patience};
        if (pthread_create(&buyers[n].thread, &attributes, shop, &buyers[n]) != 0) {
            snprintf(result->why, sizeof result->why, "the system gives no more than %zu threads", n);
            break;
        }
    }
    pthread_attr_destroy(&attributes);
    gate_open_when(&gate, n);
    for (size_t i = 0; i < n; i++)
        pthread_join(buyers[i].thread, NULL);
    pthread_cond_destroy(&gate.changed);
    pthread_mutex_destroy(&gate.mutex);
    free(buyers);
    return n == sale->n_buyers;
}

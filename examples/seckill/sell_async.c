/* Ten thousand buyers on a handful of threads: every order is an asynchronous
 * call. Between rounds nothing is under way; a round sends what has no answer. */
#include "sale.h"

#include <stdlib.h>

#include "patience.h"

typedef struct send_round {
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    size_t under_way;
} send_round;

typedef struct order_send {
    sale_order *order;
    send_round *round;
} order_send;

static void leave(send_round *round)
{
    pthread_mutex_lock(&round->mutex);
    round->under_way--;
    if (round->under_way == 0)
        pthread_cond_signal(&round->idle);
    pthread_mutex_unlock(&round->mutex);
}

static void on_answer(void *arg, lks_code code, const lks_deduct_response *response, const lks_error *error)
{
    order_send *send = arg;

    order_answered(send->order, code, response, error);
    leave(send->round);
}

static void start(order_send *send, lks_channel *channel, uint32_t timeout_ms)
{
    lks_line line, *lines;
    lks_deduct_request request = order_request(send->order, &line, &lines);
    const lks_call_options options = {.timeout_ms = timeout_ms};
    lks_error error = {0};
    lks_code code = lks_stock_deduct_start(channel, &request, &options, on_answer, send, NULL, &error);

    if (code != LKS_OK) {
        order_answered(send->order, code, NULL, &error);
        leave(send->round);
    }
}

/* Sends every first choice that has no answer and waits for all of them. Returns
 * an order that still has none, or NULL. */
static const sale_order *run_round(flash_sale *sale, lks_channel *channel, const sale_patience *patience,
                                   order_send *sends)
{
    send_round round = {.mutex = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};
    const sale_order *open = NULL;
    size_t n = 0;

    for (size_t i = 0; i < sale->n_buyers; i++)
        if (sale->orders[i].state == ORDER_UNUSED || sale->orders[i].state == ORDER_UNKNOWN)
            sends[n++] = (order_send){.order = &sale->orders[i], .round = &round};
    round.under_way = n;
    for (size_t i = 0; i < n; i++)
        start(&sends[i], channel, patience_call_ms(patience));
    pthread_mutex_lock(&round.mutex);
    while (round.under_way > 0)
        pthread_cond_wait(&round.idle, &round.mutex);
    pthread_mutex_unlock(&round.mutex);
    for (size_t i = 0; i < n && !open; i++)
        open = sends[i].order->state == ORDER_UNKNOWN ? sends[i].order : NULL;
    pthread_cond_destroy(&round.idle);
    pthread_mutex_destroy(&round.mutex);
    return open;
}

bool sell_by_async(flash_sale *sale, lks_channel *channel, sale_result *result)
{
    sale_patience patience = patience_of(sale->patience_ms);
    order_send *sends = calloc(sale->n_buyers, sizeof *sends);
    const sale_order *open;

    (void)result;
    if (!sends)
        return false;
    do {
        open = run_round(sale, channel, &patience, sends);
    } while (open && patience_rest(&patience, &open->error));
    free(sends);
    return true;
}

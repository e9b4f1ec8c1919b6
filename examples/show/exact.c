/* Every loss is the buyer's own to see: the channel does not send anything again by itself. */
#include "shops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstock/mutex.h>

#include "patience.h"
#include "sale.h"

enum { PATIENCE_MS = 60000, TILL_LEASE_MS = 500, TILL_WAIT_MS = 300, TILL_WRITES = 10, TILL_WRITE_MS = 20 };

struct exact_shop {
    crowd *crowd;
    unsigned client;
    lks_channel *channel;      /* buyers' */
    lks_channel *till_channel; /* retries, as a channel mostly does; NULL = keeps no till */
    lks_mutex *till;
    pthread_t till_thread;
    atomic_bool closes;
    flash_sale sale; /* of its orders, as sale_order_at wants it */
};

/* What it holds the till for: writes, without a look at whether the lock is lost, for that look may always come too
 * early. The till looks at the fence instead. Until the last write the client is known as holder. */
static void use_till(exact_shop *shop, uint64_t fence)
{
    crowd *c = shop->crowd;

    atomic_store(&c->holder[EXACT], shop->client + 1);
    for (unsigned i = 0; i < TILL_WRITES; i++) {
        unsigned self = shop->client + 1;
        clock_rest(TILL_WRITE_MS);
        if (i == TILL_WRITES - 1)
            atomic_compare_exchange_strong(&c->holder[EXACT], &self, 0);
        if (!crowd_write_till(c, fence))
            return; /* it is another one's by now */
    }
}

static void *keep_till(void *arg)
{
    exact_shop *shop = arg;

    while (!atomic_load(&shop->closes)) {
        if (lks_mutex_lock(shop->till, TILL_WAIT_MS, NULL) == LKS_LOCK_ACQUIRED) {
            use_till(shop, lks_mutex_fence(shop->till));
            lks_mutex_unlock(shop->till, NULL);
        } else {
            clock_rest(TILL_WRITE_MS); /* no server may be there */
        }
    }
    return NULL;
}

static lks_code open_till(exact_shop *shop, const char *urls, lks_error *error)
{
    const lks_lock_options options = {.lease_ms = TILL_LEASE_MS};
    lks_code code = lks_channel_open(urls, NULL, &shop->till_channel, error);

    if (code != LKS_OK || (code = lks_mutex_new(shop->till_channel, "till", &options, &shop->till, error)) != LKS_OK)
        return code;
    if (pthread_create(&shop->till_thread, NULL, keep_till, shop) != 0) {
        lks_mutex_free(shop->till);
        shop->till = NULL;
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread");
    }
    return LKS_OK;
}

lks_code exact_open(crowd *c, unsigned client, bool keeps_till, exact_shop **ret, lks_error *error)
{
    const lks_channel_options options = {.no_retry = true};
    char urls[2 * sizeof c->urls[0] + 2];
    exact_shop *shop = calloc(1, sizeof *shop);

    if (!shop)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *shop = (exact_shop){.crowd = c, .client = client, .sale = {.n_goods = 1, .n_buyers = c->n_buyers}};
    snprintf(shop->sale.run, sizeof shop->sale.run, "%s", c->run);
    snprintf(shop->sale.group, sizeof shop->sale.group, "%s", c->group);
    snprintf(shop->sale.skus[0], sizeof shop->sale.skus[0], "%s", c->sku);
    /* Half of the clients prefer each server. */
    snprintf(urls, sizeof urls, "%s,%s", c->urls[client % SERVERS], c->urls[(client + 1) % SERVERS]);
    lks_code code = lks_channel_open(urls, &options, &shop->channel, error);
    if (code == LKS_OK && keeps_till)
        code = open_till(shop, urls, error);
    if (code != LKS_OK) {
        exact_close(shop);
        return code;
    }
    *ret = shop;
    return LKS_OK;
}

static void ask(exact_shop *shop, sale_order *order, const sale_patience *patience)
{
    lks_line line, *lines;
    lks_deduct_request request = order_request(order, &line, &lines);
    lks_call_options options = {.timeout_ms = patience_call_ms(patience)};
    lks_deduct_response *response = NULL;
    lks_error error = {0};

    atomic_fetch_add(&shop->crowd->asking[shop->client], 1);
    lks_code code = lks_stock_deduct(shop->channel, &request, &options, &response, &error);
    atomic_fetch_sub(&shop->crowd->asking[shop->client], 1);
    order_answered(order, code, response, &error);
    lks_deduct_response_free(response);
}

void exact_buy(exact_shop *shop, size_t index)
{
    static const buyer_state told[] = {[ORDER_UNKNOWN] = BUYER_NO_ANSWER,
                                       [ORDER_SOLD] = BUYER_BOUGHT,
                                       [ORDER_REFUSED] = BUYER_SOLD_OUT,
                                       [ORDER_WRONG] = BUYER_WRONG};
    buyer *b = crowd_buyer(shop->crowd, EXACT, index);
    sale_patience patience = patience_of(PATIENCE_MS);
    sale_order order = sale_order_at(&shop->sale, index);

    /* It asked already, and its client was killed: nobody knows what the answer was. */
    if (atomic_load(&b->state) == BUYER_ASKS) {
        atomic_store(&b->lost, true);
        order.sends = 1;
    }
    atomic_store(&b->state, BUYER_ASKS);
    do {
        ask(shop, &order, &patience);
        if (order.state == ORDER_UNKNOWN && order.error.applied != LKS_APPLIED_NO)
            atomic_store(&b->lost, true);
    } while (order.state == ORDER_UNKNOWN && patience_rest(&patience, &order.error));
    atomic_store(&b->replayed, order.replayed);
    if (order.state == ORDER_SOLD)
        crowd_pay(index);
    atomic_store(&b->waited_ms, (uint32_t)(clock_ms() - crowd_arrival_ms(shop->crowd, index)));
    atomic_store(&b->state, (uint8_t)told[order.state]);
}

void exact_close(exact_shop *shop)
{
    if (!shop)
        return;
    atomic_store(&shop->closes, true);
    if (shop->till)
        pthread_join(shop->till_thread, NULL);
    lks_mutex_free(shop->till);
    lks_channel_close(shop->till_channel);
    lks_channel_close(shop->channel);
    free(shop);
}

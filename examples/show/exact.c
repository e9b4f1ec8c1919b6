/* The buyers' channel does not retry, so that each lost answer is visible. */
#include "client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/lockstock.h>

enum { PATIENCE_MS = 60000, TILL_LEASE_MS = 500, TILL_WAIT_MS = 300, TILL_WRITES = 10, TILL_WRITE_MS = 20 };

static lks_channel *channel, *till_channel;
static lks_mutex *till;
static pthread_t till_thread;
static bool has_thread;
static atomic_bool ends; /* all buyers are served */
static flash_sale sale;

/* ---- the till ------------------------------------------------------------------------ */

/* CheckFence refuses a lower fence than the highest that wrote. */
static bool write_till(uint64_t fence)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_check_fence_response *response = NULL;

    request.resource = "till";
    request.fence = fence;
    bool late = lks_lock_check_fence(till_channel, &request, NULL, &response, NULL) == LKS_OK &&
                response->outcome != LKS_CHECK_FENCE_OUTCOME_OK;
    lks_check_fence_response_free(response);
    say(late ? "late" : "wrote");
    return !late;
}

/* Does not call lks_mutex_is_lost before a write: the lock can be lost right after it returns. */
static void *keep_till(void *arg)
{
    while (!atomic_load(&ends)) {
        if (lks_mutex_lock(till, TILL_WAIT_MS, NULL) != LKS_LOCK_ACQUIRED) {
            sale_rest(TILL_WRITE_MS); /* perhaps no server runs */
            continue;
        }
        uint64_t fence = lks_mutex_fence(till);
        say("hold");
        bool good = true;
        for (int i = 0; good && i < TILL_WRITES; i++) {
            sale_rest(TILL_WRITE_MS);
            if (i == TILL_WRITES - 1)
                say("done");
            good = write_till(fence);
        }
        lks_mutex_unlock(till, NULL);
    }
    return arg;
}

/* ---- buyers ---------------------------------------------------------------------------- */

static lks_code open_sale(const char *urls, const char *run, const char *group, size_t n_buyers, lks_error *error)
{
    const lks_channel_options options = {.no_retry = true};

    sale = (flash_sale){.n_goods = 1, .n_buyers = n_buyers, .n_orders = n_buyers};
    snprintf(sale.run, sizeof sale.run, "%s", run);
    snprintf(sale.group, sizeof sale.group, "%s", group);
    snprintf(sale.skus[0], sizeof sale.skus[0], "good-0");
    return lks_channel_open(urls, &options, &channel, error);
}

lks_code exact_open(const char *urls, const char *run, const char *group, size_t n_buyers, lks_error *error)
{
    const lks_lock_options options = {.lease_ms = TILL_LEASE_MS};
    lks_code code = open_sale(urls, run, group, n_buyers, error);

    if (code == LKS_OK && (code = lks_channel_open(urls, NULL, &till_channel, error)) == LKS_OK)
        code = lks_mutex_new(till_channel, "till", &options, &till, error);
    has_thread = code == LKS_OK && pthread_create(&till_thread, NULL, keep_till, NULL) == 0;
    return code == LKS_OK && !has_thread ? lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread")
                                         : code;
}

void exact_close(void)
{
    atomic_store(&ends, true);
    if (has_thread)
        pthread_join(till_thread, NULL);
    lks_mutex_free(till);
    lks_channel_close(till_channel);
    lks_channel_close(channel);
}

/* Sends the order with the same id until there is an answer. */
void exact_serve(const buyer *b)
{
    int64_t end_ms = sale_now_ms() + PATIENCE_MS;
    sale_order order = sale_order_at(&sale, b->index);

    order.sends = b->asked;
    do {
        order_send(&order, channel, end_ms);
        if (order.state == ORDER_UNKNOWN && order.error.applied != LKS_APPLIED_NO)
            say("lost %zu", b->index);
    } while (order_rests(&order, end_ms));
    bool sold = order.state == ORDER_SOLD;
    say("told %zu %s %d", b->index,
        sold                           ? "bought"
        : order.state == ORDER_REFUSED ? "sold-out"
                                       : "none",
        order.replayed);
    if (sold)
        pay(b);
}

/* ---- before and after the sale ------------------------------------------------------------ */

lks_code exact_put(const char *urls, int64_t stock, size_t n_buyers, lks_error *error)
{
    lks_code code = lks_channel_open(urls, NULL, &channel, error);

    sale = (flash_sale){.n_goods = 1, .stock = stock, .n_buyers = n_buyers};
    if (code == LKS_OK && (code = sale_open(&sale, channel, error)) == LKS_OK)
        say("sale %s %s", sale.run, sale.group);
    sale_close(&sale);
    lks_channel_close(channel);
    return code;
}

lks_code exact_check(const char *urls, const char *run, const char *group, int64_t stock, size_t n_buyers,
                     lks_error *error)
{
    lks_code code = open_sale(urls, run, group, n_buyers, error);
    sale_result result = {0};
    char word[16];
    size_t index;

    sale.stock = stock;
    sale.orders = calloc(n_buyers, sizeof *sale.orders);
    for (size_t i = 0; i < n_buyers; i++)
        sale.orders[i] = sale_order_at(&sale, i);
    while (scanf("%zu %15s", &index, word) == 2 && index < n_buyers)
        sale.orders[index].state = strcmp(word, "bought") == 0 ? ORDER_SOLD : ORDER_REFUSED;
    if (code == LKS_OK && (code = sale_check(&sale, channel, &result, error)) == LKS_OK && result.exact)
        say("exact %lld %zu", (long long)result.goods[0].sold, result.goods[0].orders);
    else
        say("flaw %s", code == LKS_OK ? result.why : error->message);
    sale_close(&sale);
    lks_channel_close(channel);
    return LKS_OK;
}

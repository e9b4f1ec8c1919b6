/* Shops as processes, and what is in their directory. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shop_scenes.h"

enum { PATIENCE_MS = 60000, CALLS_MAX = 8192 };

static lks_code failed(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the shop: %s", what);
}

/* ---- premises ---------------------------------------------------------------------------------- */

lks_code premises_open(premises *ret, lks_error *error)
{
    *ret = (premises){.dir = "/tmp/shop-XXXXXX"};
    if (!mkdtemp(ret->dir)) {
        ret->dir[0] = '\0';
        return failed(error, "no directory in /tmp");
    }
    return lock_run_id(ret->run, error);
}

void premises_close(premises *p)
{
    DIR *dir = p->dir[0] != '\0' ? opendir(p->dir) : NULL;
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    if (p->dir[0] != '\0')
        rmdir(p->dir);
}

size_t premises_payments(const premises *p, const char *order)
{
    char path[96], line[256], paid[128];
    size_t n = 0;

    snprintf(path, sizeof path, "%s/payments", p->dir);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        n += sscanf(line, "%127s", paid) == 1 && (!order || strcmp(paid, order) == 0);
    if (file)
        fclose(file);
    return n;
}

/* ---- processes ----------------------------------------------------------------------------------- */

/* The URLs that it says: tcp first, then grpc. */
static bool read_urls(shop_process *shop)
{
    char line[128];
    int tcp = 0, grpc = 0;

    if (!child_line(&shop->process, line, sizeof line) || sscanf(line, "listening tcp://127.0.0.1:%d", &tcp) != 1 ||
        !child_line(&shop->process, line, sizeof line) || sscanf(line, "listening grpc://127.0.0.1:%d", &grpc) != 1)
        return false;
    snprintf(shop->tcp, sizeof shop->tcp, "tcp://127.0.0.1:%d", tcp);
    snprintf(shop->nng, sizeof shop->nng, "nng+tcp://127.0.0.1:%d", tcp);
    snprintf(shop->grpc, sizeof shop->grpc, "127.0.0.1:%d", grpc);
    return true;
}

lks_code shop_start(const shop_setup *setup, const premises *p, bool guards, const char *stop, shop_process *ret,
                    lks_error *error)
{
    static const char env[] = "/usr/bin/env";
    /* setpriv: it ends with this process, even if it is frozen. */
    const char *const argv[] = {env,
                                *stop ? stop : "SHOP_STOP=",
                                "setpriv",
                                "--pdeathsig",
                                "KILL",
                                setup->shop,
                                setup->lockstockd,
                                p->dir,
                                guards ? "tcp://127.0.0.1:0" : "--no-guards",
                                guards ? "grpc://127.0.0.1:0" : "tcp://127.0.0.1:0",
                                guards ? NULL : "grpc://127.0.0.1:0",
                                NULL};
    return child_start(env, argv, &ret->process) && read_urls(ret) ? LKS_OK : failed(error, "cannot be started");
}

lks_code shop_await(shop_process *shop, const char *where, lks_error *error)
{
    char line[64];

    return child_line(&shop->process, line, sizeof line) && strcmp(line, where) == 0
               ? LKS_OK
               : failed(error, "does not come to where it stops");
}

void shop_end(shop_process *shop)
{
    child_end(&shop->process);
}

/* ---- calls ------------------------------------------------------------------------------------------ */

void shop_name(char ret[SHOP_NAME_SIZE], const premises *p, const char *what, size_t n)
{
    snprintf(ret, SHOP_NAME_SIZE, "%s-%s-%zu", what, p->run, n);
}

lks_code shop_open(const char *urls, bool retries, lks_channel **ret, lks_error *error)
{
    const lks_channel_options options = {.timeout_ms = PATIENCE_MS, .in_flight_max = CALLS_MAX, .no_retry = !retries};

    return lks_channel_open(urls, &options, ret, error);
}

lks_code shop_fill(lks_channel *channel, const char *sku, int64_t quantity, lks_error *error)
{
    shop_v1_add_stock_request request = SHOP_V1_ADD_STOCK_REQUEST_INIT;

    request.delivery_id = sku; /* each has one */
    request.sku = sku;
    request.quantity = quantity;
    return shop_v1_shop_add_stock(channel, &request, NULL, NULL, error);
}

lks_code shop_buy_start(lks_channel *channel, const char *order, const char *buyer, const char *sku, lks_call **ret,
                        lks_error *error)
{
    shop_v1_buy_request request = SHOP_V1_BUY_REQUEST_INIT;

    request.order_id = order;
    request.buyer_id = buyer;
    request.sku = sku;
    request.quantity = 1;
    return shop_v1_shop_buy_start(channel, &request, NULL, NULL, NULL, ret, error);
}

lks_code shop_bought(lks_call *call, bought *ret, lks_error *error)
{
    lks_code code = call ? lks_call_wait(call, error) : LKS_INTERNAL;

    *ret = (bought){.attempt = 0};
    if (code == LKS_OK) {
        const shop_v1_buy_response *response = shop_v1_shop_buy_response(call);
        *ret = (bought){.outcome = response->outcome, .attempt = response->attempt};
        snprintf(ret->receipt, sizeof ret->receipt, "%s", response->receipt);
    }
    lks_call_free(call);
    return code;
}

lks_code shop_buy(lks_channel *channel, const char *order, const char *buyer, const char *sku, bought *ret,
                  lks_error *error)
{
    lks_call *call = NULL;
    lks_code code = shop_buy_start(channel, order, buyer, sku, &call, error);

    return code == LKS_OK ? shop_bought(call, ret, error) : code;
}

lks_code shop_status(lks_channel *channel, const char *sku, shelf_status *ret, lks_error *error)
{
    shop_v1_status_request request = SHOP_V1_STATUS_REQUEST_INIT;
    shop_v1_status_response *response = NULL;

    request.sku = sku;
    lks_code code = shop_v1_shop_status(channel, &request, NULL, &response, error);
    if (code == LKS_OK)
        *ret = (shelf_status){response->left, response->sold, response->orders};
    shop_v1_status_response_free(response);
    return code;
}

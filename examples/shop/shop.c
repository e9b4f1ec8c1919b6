/* shop LOCKSTOCKD-URL DIR [--no-guards] [URL...]: serves shop.proto at the URLs and keeps its files in DIR. The
 * handlers read a file, change it and write it; the guards make that safe. Several shops may run on one DIR. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <lockstock/guard.h>
#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "shelf.h"
#include "shop.lks_server.h"

enum { DRAIN_MS = 5000 };

static lks_code out_of_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static bool is_plain(const char *field, const char *name, lks_error *error)
{
    if (shelf_name_is_plain(name))
        return true;
    lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: must be 1..64 letters, digits, \"-\", \"_\", \".\"",
                  field);
    return false;
}

static bool is_quantity(int64_t quantity, lks_error *error)
{
    if (quantity >= 1 && quantity <= 1000000)
        return true;
    lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "quantity: must be 1..1,000,000");
    return false;
}

/* An earlier attempt may have died or frozen at any point. A later one checks each step before it does it. */
static lks_code shop_buy(void *self, lks_rpc_context *context, const shop_v1_buy_request *in, shop_v1_buy_response *out,
                         lks_error *error)
{
    const char *dir = self;
    bool again = lks_guard_attempt(context) > 1;
    shelf s;

    if (!is_plain("order_id", in->order_id, error) || !is_plain("buyer_id", in->buyer_id, error) ||
        !is_plain("sku", in->sku, error) || !is_quantity(in->quantity, error))
        return error->code;
    lks_code code = shelf_read(dir, in->sku, context->arena, &s, error);
    if (code != LKS_OK)
        return code;
    if (!again || *shelf_find(&s, in->order_id) == '\0') {
        out->outcome = SHOP_V1_BUY_OUTCOME_SOLD_OUT;
        if (s.left < in->quantity)
            return LKS_OK;
        s.left -= in->quantity;
        if (!shelf_add(&s, context->arena, in->order_id, in->buyer_id, in->quantity))
            return out_of_memory(error);
        if ((code = shelf_write(dir, &s, lks_guard_fence(context, 0), error)) != LKS_OK)
            return code;
    }
    const char *receipt = again ? payment_find(dir, in->order_id, context->arena) : NULL;
    if (!receipt && !(receipt = payment_make(dir, in->order_id, in->buyer_id, context->arena, error)))
        return error->code;
    out->receipt = receipt;
    out->outcome = SHOP_V1_BUY_OUTCOME_BOUGHT;
    out->attempt = lks_guard_attempt(context);
    return LKS_OK;
}

static lks_code shop_status(void *self, lks_rpc_context *context, const shop_v1_status_request *in,
                            shop_v1_status_response *out, lks_error *error)
{
    shelf s;

    lks_code code =
        is_plain("sku", in->sku, error) ? shelf_read(self, in->sku, context->arena, &s, error) : error->code;
    if (code != LKS_OK)
        return code;
    out->left = s.left;
    for (const char *line = s.entries; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, SHELF_DELIVERY, strlen(SHELF_DELIVERY)) == 0)
            continue;
        int64_t quantity = 0;
        sscanf(line, "%*s %*s %" SCNd64, &quantity);
        out->sold += quantity;
        out->orders++;
    }
    return LKS_OK;
}

static lks_code shop_add_stock(void *self, lks_rpc_context *context, const shop_v1_add_stock_request *in,
                               shop_v1_add_stock_response *out, lks_error *error)
{
    char entry[128];
    shelf s;

    if (!is_plain("delivery_id", in->delivery_id, error) || !is_plain("sku", in->sku, error) ||
        !is_quantity(in->quantity, error))
        return error->code;
    lks_code code = shelf_read(self, in->sku, context->arena, &s, error);
    if (code != LKS_OK && code != LKS_NOT_FOUND)
        return code;
    snprintf(entry, sizeof entry, SHELF_DELIVERY "%s", in->delivery_id);
    bool is_there = lks_guard_attempt(context) > 1 && *shelf_find(&s, entry) != '\0';
    out->left = s.left += is_there ? 0 : in->quantity;
    if (is_there)
        return LKS_OK;
    if (!shelf_add(&s, context->arena, entry, "-", in->quantity))
        return out_of_memory(error);
    return shelf_write(self, &s, lks_guard_fence(context, 0), error);
}

/* Prints the URL with its port. */
static bool listen_at(lks_host *host, const char *url, lks_error *error)
{
    uint16_t port = 0;

    if (lks_host_listen(host, url, &port, error) != LKS_OK)
        return false;
    printf("listening %.*s:%d\n", (int)(strrchr(url, ':') - url), url, port);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    static const shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(shop_);
    static const char *const usual[] = {"tcp://127.0.0.1:7800", "grpc://127.0.0.1:7801"};
    lks_host_options options = {
        .threads = 64, .in_flight_max = 8192, .in_flight_per_connection = 4096, .timeout_ms = 60000};
    lks_rpc_service service = shop_v1_shop_service(&handlers, argc > 2 ? argv[2] : NULL);
    lks_rpc_binding unguarded[3];
    lks_host *host = NULL;
    lks_error error = {0};
    sigset_t ends;
    int number, first = argc > 3 && strcmp(argv[3], "--no-guards") == 0 ? 4 : 3;

    if (argc < 3) {
        fprintf(stderr, "usage: shop LOCKSTOCKD-URL DIR [--no-guards] [URL...]\n");
        return 2;
    }
    for (size_t i = 0; first == 4 && i < service.n_bindings; i++)
        unguarded[i] = (lks_rpc_binding){service.bindings[i].method, service.bindings[i].handle, NULL};
    if (first == 4)
        service.bindings = unguarded;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before there are threads: they inherit it */
    bool good = lks_channel_open(argv[1], NULL, &options.guards, &error) == LKS_OK &&
                lks_host_open(&options, &host, &error) == LKS_OK && lks_host_add(host, &service, &error) == LKS_OK;
    for (int i = 0; first >= argc && good && i < 2; i++)
        good = listen_at(host, usual[i], &error);
    for (int i = first; good && i < argc; i++)
        good = listen_at(host, argv[i], &error);
    if (good)
        sigwait(&ends, &number);
    else
        fprintf(stderr, "shop: %s: %s\n", lks_code_name(error.code), error.message);
    lks_host_close(host, DRAIN_MS);
    lks_channel_close(options.guards);
    return good ? 0 : 1;
}

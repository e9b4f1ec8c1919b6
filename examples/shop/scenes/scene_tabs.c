/* Scene n: two tabs. A buyer sends two orders at the same time, and there is one lamp. Who has read the shelf waits until
 * both orders have come as far as they can: into the handler, or to the shelf's lock. */
#include <string.h>

#include "lease.h"
#include "patience.h"
#include "shop_scenes.h"

enum { LOOK_MS = 5, PATIENCE_MS = 50000 };

typedef struct tabs {
    bought orders[2];
    size_t payments;
    shelf_status shelf;
} tabs;

static lks_code await_waiter(const char *lockstockd, const char *sku, lks_error *error)
{
    const sale_patience patience = patience_of(PATIENCE_MS);
    lks_channel *channel = NULL;
    lease_look look = {.waiters = 0};
    char lock[64];
    lks_code code = shop_open(lockstockd, true, &channel, error);

    snprintf(lock, sizeof lock, "shelf:%s", sku);
    while (code == LKS_OK && look.waiters == 0) {
        clock_rest(LOOK_MS);
        code = lease_inspect(channel, lock, &look, error);
        if (code == LKS_OK && look.waiters == 0 && clock_ms() > patience.end_ms)
            code = lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, "no order waits for the shelf's lock");
    }
    lks_channel_close(channel);
    return code;
}

/* Both orders are where they wait for each other; then they go on. */
static lks_code let_them_meet(const shop_setup *setup, shop_process *shop, bool guards, const char *sku,
                              lks_error *error)
{
    lks_code code = shop_await(shop, "at the gate", error);

    if (code == LKS_OK)
        code = guards ? await_waiter(setup->lockstockd, sku, error) : shop_await(shop, "at the gate", error);
    child_tell(&shop->process, "\n");
    return code;
}

static lks_code play(const shop_setup *setup, bool guards, tabs *ret, lks_error *error)
{
    char sku[SHOP_NAME_SIZE], buyer[SHOP_NAME_SIZE], order[SHOP_NAME_SIZE];
    lks_channel *channels[2] = {NULL};
    lks_call *calls[2] = {NULL};
    shop_process shop = {.tcp = ""};
    premises p = {.dir = ""};

    lks_code code = premises_open(&p, error);
    shop_name(sku, &p, "lamp", 0);
    shop_name(buyer, &p, "buyer", 0);
    if (code == LKS_OK)
        code = shop_start(setup, &p, guards, "SHOP_GATE=yes", &shop, error);
    for (int i = 0; code == LKS_OK && i < 2; i++)
        code = shop_open(shop.tcp, false, &channels[i], error);
    if (code == LKS_OK)
        code = shop_fill(channels[0], sku, 1, error);
    for (size_t i = 0; code == LKS_OK && i < 2; i++) {
        shop_name(order, &p, "order", i);
        code = shop_buy_start(channels[i], order, buyer, sku, &calls[i], error);
    }
    if (code == LKS_OK)
        code = let_them_meet(setup, &shop, guards, sku, error);
    for (int i = 0; i < 2; i++)
        if (code == LKS_OK || calls[i]) {
            lks_code its = shop_bought(calls[i], &ret->orders[i], code == LKS_OK ? error : NULL);
            code = code == LKS_OK ? its : code;
        }
    ret->payments = premises_payments(&p, NULL);
    if (code == LKS_OK)
        code = shop_status(channels[0], sku, &ret->shelf, error);
    for (int i = 0; i < 2; i++)
        lks_channel_close(channels[i]);
    shop_end(&shop);
    premises_close(&p);
    return code;
}

static int count(const tabs *t, shop_v1_buy_outcome outcome)
{
    return (t->orders[0].outcome == outcome) + (t->orders[1].outcome == outcome);
}

static void print(FILE *table, const char *how, const tabs *t)
{
    fprintf(table, "  %-14s  %6d  %13d  %8zu  %10lld\n", how, count(t, SHOP_V1_BUY_OUTCOME_BOUGHT),
            count(t, SHOP_V1_BUY_OUTCOME_SOLD_OUT), t->payments, (long long)t->shelf.left);
}

lks_code scene_tabs(const shop_setup *setup, lock_claims *claims, lks_error *error)
{
    tabs with = {.payments = 0}, without = {.payments = 0};
    lks_code code = play(setup, true, &with, error);

    if (code != LKS_OK || (code = play(setup, false, &without, error)) != LKS_OK)
        return code;
    fprintf(claims->table, "scene n: two tabs: a buyer sends two orders at once, for one lamp\n");
    fprintf(claims->table, "  %-14s  %6s  %13s  %8s  %10s\n", "", "bought", "told sold out", "payments", "lamps left");
    print(claims->table, "with guards", &with);
    print(claims->table, "without", &without);
    lock_claim(claims, count(&with, SHOP_V1_BUY_OUTCOME_BOUGHT) == 1 && count(&with, SHOP_V1_BUY_OUTCOME_SOLD_OUT) == 1,
               "with guards not one of two bought");
    lock_claim(claims, with.payments == 1 && with.shelf.left == 0 && with.shelf.orders == 1,
               "with guards: %zu payments", with.payments);
    lock_claim(claims,
               without.payments == 2 && count(&without, SHOP_V1_BUY_OUTCOME_BOUGHT) == 2 && without.shelf.left == 0,
               "no harm without guards");
    return LKS_OK;
}

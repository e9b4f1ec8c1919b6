/* Scene o: a retry storm. All orders are sent at once, and the first answer to each of them is lost. Each is for another
 * shelf, so that nothing but the repeats can go wrong. */
#include <stdlib.h>
#include <string.h>

#include "chaos_proxy.h"
#include "shop_scenes.h"

enum { LAMPS = 100 }; /* on each shelf: for all repeats */

typedef struct storm {
    size_t orders, told, exact, harmed; /* orders: one payment and one lamp; two or more of both */
    uint64_t lost;
} storm;

static lks_code send_all(const premises *p, lks_channel *channel, storm *s, lks_error *error)
{
    lks_call **calls = calloc(s->orders, sizeof *calls);
    char sku[SHOP_NAME_SIZE], order[SHOP_NAME_SIZE], buyer[SHOP_NAME_SIZE];
    lks_code code = calls ? LKS_OK : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");

    for (size_t i = 0; code == LKS_OK && i < s->orders; i++) {
        shop_name(sku, p, "lamp", i);
        shop_name(order, p, "order", i);
        shop_name(buyer, p, "buyer", i);
        code = shop_buy_start(channel, order, buyer, sku, &calls[i], error);
    }
    for (size_t i = 0; calls && i < s->orders; i++) {
        bought one;
        if (!calls[i])
            continue;
        lks_code its = shop_bought(calls[i], &one, code == LKS_OK ? error : NULL);
        code = code == LKS_OK ? its : code;
        s->told += one.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT;
    }
    free(calls);
    return code;
}

static lks_code fill_all(const premises *p, lks_channel *channel, size_t n, lks_error *error)
{
    char sku[SHOP_NAME_SIZE];
    lks_code code = LKS_OK;

    for (size_t i = 0; code == LKS_OK && i < n; i++) {
        shop_name(sku, p, "lamp", i);
        code = shop_fill(channel, sku, LAMPS, error);
    }
    return code;
}

static lks_code look_at_all(const premises *p, lks_channel *channel, storm *s, lks_error *error)
{
    char sku[SHOP_NAME_SIZE], order[SHOP_NAME_SIZE];
    shelf_status shelf = {0};
    lks_code code = LKS_OK;

    for (size_t i = 0; code == LKS_OK && i < s->orders; i++) {
        shop_name(sku, p, "lamp", i);
        shop_name(order, p, "order", i);
        code = shop_status(channel, sku, &shelf, error);
        size_t payments = premises_payments(p, order);
        s->exact += payments == 1 && LAMPS - shelf.left == 1;
        s->harmed += payments >= 2 && LAMPS - shelf.left >= 2;
    }
    return code;
}

static lks_code play(const shop_setup *setup, bool guards, storm *s, lks_error *error)
{
    static const chaos_fault lost_once = {.which = CHAOS_REPLY_LOST, .times = CHAOS_ALWAYS, .first_of_call = true};
    lks_channel *direct = NULL, *buyers = NULL;
    chaos_proxy *proxy = NULL;
    shop_process shop = {.tcp = ""};
    premises p = {.dir = ""};

    lks_code code = premises_open(&p, error);
    if (code != LKS_OK || (code = shop_start(setup, &p, guards, "", &shop, error)) != LKS_OK ||
        (code = shop_open(shop.tcp, true, &direct, error)) != LKS_OK)
        goto cleanup;
    proxy = chaos_proxy_start((unsigned short)atoi(strrchr(shop.tcp, ':') + 1), &lost_once, 1);
    if (!proxy) {
        code = lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the proxy cannot be started");
        goto cleanup;
    }
    if ((code = shop_open(chaos_proxy_url(proxy), true, &buyers, error)) == LKS_OK &&
        (code = fill_all(&p, direct, s->orders, error)) == LKS_OK && (code = send_all(&p, buyers, s, error)) == LKS_OK)
        code = look_at_all(&p, direct, s, error);
    s->lost = chaos_proxy_hits(proxy);
cleanup:
    lks_channel_close(buyers);
    lks_channel_close(direct);
    chaos_proxy_stop(proxy);
    shop_end(&shop);
    premises_close(&p);
    return code;
}

static void print(FILE *table, const char *how, const storm *s)
{
    const char *each = s->exact == s->orders ? "1" : s->harmed == s->orders ? "2 or more" : "DIFFERENT";

    fprintf(table, "  %-14s  %-9s  %s\n", how, each, each);
}

lks_code scene_storm(const shop_setup *setup, lock_claims *claims, lks_error *error)
{
    storm with = {.orders = setup->buyers}, without = {.orders = setup->buyers};
    lks_code code = play(setup, true, &with, error);

    if (code != LKS_OK || (code = play(setup, false, &without, error)) != LKS_OK)
        return code;
    fprintf(claims->table, "scene o: a retry storm: the first answer to each order is lost\n");
    fprintf(claims->table, "  %-14s  %-9s  %s\n", "of each order", "payments", "lamps");
    print(claims->table, "with guards", &with);
    print(claims->table, "without", &without);
    lock_claim(claims, with.lost >= with.orders && without.lost >= without.orders, "answers were not lost");
    lock_claim(claims, with.told == with.orders && without.told == without.orders, "somebody did not get a lamp");
    lock_claim(claims, with.exact == with.orders, "with guards %zu of %zu orders are exact", with.exact, with.orders);
    lock_claim(claims, without.harmed == without.orders, "no harm without guards");
    return LKS_OK;
}

/* Scene m: everybody clicks twice. Both clicks of all buyers are under way at once, on two connections; without guards a
 * few buyers at a time, for both handlers of an order must be there before either goes on. */
#include <stdlib.h>
#include <string.h>

#include "patience.h"
#include "shop_scenes.h"

enum { SHELVES = 8, AT_ONCE_WITHOUT = 16, PATIENCE_MS = 60000 };

typedef struct clicks {
    const char *over;
    bool guards;
    size_t orders, told, alike, payments, paid_once; /* told: orders that were bought by both clicks */
    int64_t left, in_orders;                         /* lamps */
} clicks;

/* With guards many come to each shelf. Without, to each their own: else they would lose each other's writes, too. */
static size_t n_shelves(const clicks *c)
{
    return c->guards ? SHELVES : c->orders;
}

static lks_code fill_all(const premises *p, lks_channel *channel, const clicks *c, lks_error *error)
{
    char sku[SHOP_NAME_SIZE];
    lks_code code = LKS_OK;

    for (size_t i = 0; code == LKS_OK && i < n_shelves(c); i++) {
        shop_name(sku, p, "lamp", i);
        code = shop_fill(channel, sku, (int64_t)(c->orders / n_shelves(c) + (i < c->orders % n_shelves(c))), error);
    }
    return code;
}

static void count(clicks *c, const premises *p, size_t i, const char *first, const char *second)
{
    char order[SHOP_NAME_SIZE];

    shop_name(order, p, "order", i);
    c->told += *first != '\0' && *second != '\0';
    c->alike += strcmp(first, second) == 0;
    c->paid_once += premises_payments(p, order) == 1;
}

typedef struct one_click {
    char sku[SHOP_NAME_SIZE], order[SHOP_NAME_SIZE], buyer[SHOP_NAME_SIZE];
    lks_call *call;
} one_click;

static lks_code start(const premises *p, lks_channel *channel, const clicks *c, size_t i, one_click *ret,
                      lks_error *error)
{
    shop_name(ret->sku, p, "lamp", i % n_shelves(c));
    shop_name(ret->order, p, "order", i);
    shop_name(ret->buyer, p, "buyer", i);
    return shop_buy_start(channel, ret->order, ret->buyer, ret->sku, &ret->call, error);
}

/* What a click is told. A shop that cannot ask lockstock now refuses: then the same order is sent again. */
static lks_code told(lks_channel *channel, one_click *one, bought *ret, lks_error *error)
{
    int64_t end_ms = clock_ms() + PATIENCE_MS;
    lks_code code = shop_bought(one->call, ret, error);

    one->call = NULL;
    while (code == LKS_UNAVAILABLE && error->applied == LKS_APPLIED_NO && clock_ms() < end_ms)
        code = shop_buy(channel, one->order, one->buyer, one->sku, ret, error);
    return code;
}

/* Both clicks of the orders from..to - 1. */
static lks_code click(const premises *p, lks_channel *const channels[2], clicks *c, size_t from, size_t to,
                      lks_error *error)
{
    one_click *all = calloc(2 * (to - from), sizeof *all);
    lks_code code = all ? LKS_OK : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");

    for (size_t i = 2 * from; code == LKS_OK && i < 2 * to; i++)
        code = start(p, channels[i % 2], c, i / 2, &all[i - 2 * from], error);
    for (size_t i = from; code == LKS_OK && i < to; i++) {
        one_click *both = &all[2 * (i - from)];
        bought first, second;
        code = told(channels[0], &both[0], &first, error);
        if (code == LKS_OK && (code = told(channels[1], &both[1], &second, error)) == LKS_OK)
            count(c, p, i, first.receipt, second.receipt);
    }
    for (size_t i = 0; all && i < 2 * (to - from); i++)
        lks_call_free(all[i].call);
    free(all);
    return code;
}

static lks_code click_in_c(const premises *p, const char *url, clicks *c, lks_error *error)
{
    lks_channel *channels[2] = {NULL};
    size_t at_once = c->guards ? c->orders : AT_ONCE_WITHOUT;
    lks_code code = LKS_OK;

    for (int i = 0; code == LKS_OK && i < 2; i++)
        code = shop_open(url, false, &channels[i], error);
    for (size_t from = 0; code == LKS_OK && from < c->orders; from += at_once) {
        size_t to = from + at_once < c->orders ? from + at_once : c->orders;
        code = click(p, channels, c, from, to, error);
    }
    for (int i = 0; i < 2; i++)
        lks_channel_close(channels[i]);
    return code;
}

/* clicks.py does the same, and says the receipts of each order. */
static lks_code click_in_python(const shop_setup *setup, const premises *p, const char *address, clicks *c,
                                lks_error *error)
{
    char orders[16], shelves[16], line[128], first[64], second[64];
    const char *const argv[] = {
        "/usr/bin/python3", "-B", setup->clicks, address, p->run, orders, shelves, setup->protos[0],
        setup->protos[1],   NULL};
    child python;
    size_t i = 0;

    snprintf(orders, sizeof orders, "%zu", c->orders);
    snprintf(shelves, sizeof shelves, "%zu", n_shelves(c));
    bool good = child_start(argv[0], argv, &python);
    for (; good && i < c->orders && child_line(&python, line, sizeof line); i++) {
        good = sscanf(line, "%63s %63s", first, second) == 2;
        if (good)
            count(c, p, i, first, second);
    }
    child_end(&python);
    return i == c->orders && good
               ? LKS_OK
               : lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "clicks.py: %zu of %zu orders", i, c->orders);
}

static lks_code look(const premises *p, lks_channel *channel, clicks *c, lks_error *error)
{
    char sku[SHOP_NAME_SIZE];
    lks_code code = LKS_OK;

    for (size_t i = 0; code == LKS_OK && i < n_shelves(c); i++) {
        shelf_status shelf = {0};
        shop_name(sku, p, "lamp", i);
        code = shop_status(channel, sku, &shelf, error);
        c->left += shelf.left;
        c->in_orders += shelf.sold;
    }
    c->payments = premises_payments(p, NULL);
    return code;
}

static lks_code play(const shop_setup *setup, clicks *c, lks_error *error)
{
    lks_channel *channel = NULL;
    shop_process shop = {.tcp = ""};
    premises p = {.dir = ""};

    c->orders = setup->buyers;
    lks_code code = premises_open(&p, error);
    if (code != LKS_OK ||
        (code = shop_start(setup, &p, c->guards, c->guards ? "" : "SHOP_MEET=yes", &shop, error)) != LKS_OK ||
        (code = shop_open(shop.tcp, true, &channel, error)) != LKS_OK ||
        (code = fill_all(&p, channel, c, error)) != LKS_OK)
        goto cleanup;
    if (strcmp(c->over, "grpc") == 0)
        code = click_in_python(setup, &p, shop.grpc, c, error);
    else
        code = click_in_c(&p, strcmp(c->over, "tcp") == 0 ? shop.tcp : shop.nng, c, error);
    if (code == LKS_OK)
        code = look(&p, channel, c, error);
cleanup:
    lks_channel_close(channel);
    shop_end(&shop);
    premises_close(&p);
    return code;
}

static void print(FILE *table, const clicks *c)
{
    fprintf(table, "  %-8s  %-11s  %15.3g  %12.3g  %s\n", c->over, c->guards ? "with guards" : "without",
            (double)c->payments / (double)c->orders, (double)c->in_orders / (double)c->orders,
            c->alike == c->orders ? "the same"
            : c->alike == 0       ? "two receipts"
                                  : "SOME THE SAME");
}

lks_code scene_clicks(const shop_setup *setup, lock_claims *claims, lks_error *error)
{
    clicks rows[] = {{.over = "tcp", .guards = true},
                     {.over = "nng+tcp", .guards = true},
                     {.over = "grpc", .guards = true},
                     {.over = "tcp", .guards = false}};

    fprintf(claims->table, "scene m: everybody clicks twice at once\n");
    fprintf(claims->table, "  %-8s  %-11s  %15s  %12s  %s\n", "over", "", "payments/order", "lamps/order",
            "both clicks are told");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clicks *c = &rows[i];
        if (strcmp(c->over, "grpc") == 0 && !setup->clicks) {
            fprintf(claims->table, "  %-8s  skipped: there is no grpcio (python3-grpcio)\n", c->over);
            continue;
        }
        lks_code code = play(setup, c, error);
        if (code != LKS_OK)
            return code;
        print(claims->table, c);
        lock_claim(claims, c->told == c->orders, "%s: %zu of %zu orders were told a receipt by both clicks", c->over,
                   c->told, c->orders);
        if (c->guards) {
            lock_claim(claims, c->payments == c->orders && c->paid_once == c->orders, "%s: %zu payments for %zu orders",
                       c->over, c->payments, c->orders);
            lock_claim(claims, c->left == 0 && c->in_orders == (int64_t)c->orders, "%s: %lld lamps are left", c->over,
                       (long long)c->left);
            lock_claim(claims, c->alike == c->orders, "%s: two clicks were told two things", c->over);
        } else {
            lock_claim(claims, c->payments == 2 * c->orders && c->alike == 0, "no harm without guards");
        }
    }
    return LKS_OK;
}

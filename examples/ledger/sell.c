/* The buyers. Invariant: each call has an id of its own, so that the client library may
 * send it again when an answer is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"

enum { GOODS = 8, ON_HAND = 1000000, HOLD_MS = 100 };

static char names[GOODS][8] = {"goods-1", "goods-2", "goods-3", "goods-4", "goods-5", "goods-6", "goods-7", "goods-8"};

static int failed(const char *method, const lks_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", method, lks_code_name(error->code), error->message);
    return EXIT_FAILURE;
}

int fill_shop(lks_channel *channel, char *group)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = group;
    request.on_hand = ON_HAND;
    request.must_be_new = true;
    for (int i = 0; i < GOODS; i++) {
        request.sku = names[i];
        if (lks_stock_put_item(channel, &request, NULL, NULL, &error) != LKS_OK)
            return failed("PutItem", &error);
    }
    return EXIT_SUCCESS;
}

/* An order that is under way. */
typedef struct order {
    lks_channel *channel;
    char *group;
    char id[64];
    lks_line line[2], *lines[2];
    size_t n_lines;
} order;

static void choose(order *o)
{
    int first = (int)(random() % GOODS);

    o->n_lines = 1 + (size_t)(random() % 2);
    for (size_t i = 0; i < o->n_lines; i++) {
        o->line[i] = (lks_line)LKS_LINE_INIT;
        o->line[i].sku = names[(first + 3 * (int)i) % GOODS];
        o->line[i].quantity = 1 + random() % 3;
        o->lines[i] = &o->line[i];
    }
}

static lks_code deduct(order *o, lks_error *error)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = o->n_lines;
    return lks_stock_deduct(o->channel, &request, NULL, NULL, error);
}

static lks_code reserve(order *o, lks_error *error)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = o->n_lines;
    request.hold_ms = HOLD_MS;
    return lks_stock_reserve(o->channel, &request, NULL, NULL, error);
}

static lks_code confirm(order *o, lks_error *error)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    return lks_stock_confirm(o->channel, &request, NULL, NULL, error);
}

static lks_code cancel(order *o, lks_error *error)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    return lks_stock_cancel(o->channel, &request, NULL, NULL, error);
}

/* One line of it; TOO_MANY, or UNKNOWN_ORDER where nothing was sold, is an answer too. */
static lks_code take_back(order *o, lks_error *error)
{
    lks_return_request request = LKS_RETURN_REQUEST_INIT;

    request.group = o->group;
    request.order_id = o->id;
    request.lines = o->lines;
    request.n_lines = 1;
    return lks_stock_return(o->channel, &request, NULL, NULL, error);
}

static lks_code make_order(order *o, lks_error *error)
{
    lks_code code;
    int fate = (int)(random() % 8);

    if (fate < 3)
        code = deduct(o, error);
    else
        code = reserve(o, error);
    if (code == LKS_OK && fate >= 3 && fate < 6)
        code = confirm(o, error);
    if (code == LKS_OK && fate == 6)
        code = cancel(o, error);
    /* 7: left to expire. */
    if (code == LKS_OK && fate < 6 && random() % 4 == 0)
        code = take_back(o, error);
    return code;
}

int sell(lks_channel *channel, char *group, int n)
{
    order o = {.channel = channel, .group = group};
    long long run = (long long)time(NULL) << 32 | getpid();
    lks_error error;

    srandom((unsigned)getpid());
    for (int i = 0; i < n; i++) {
        snprintf(o.id, sizeof o.id, "order-%llx-%d", run, i);
        choose(&o);
        if (make_order(&o, &error) != LKS_OK)
            return failed(o.id, &error);
    }
    printf("sold: %d orders\n", n);
    return EXIT_SUCCESS;
}

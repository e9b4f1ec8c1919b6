/* StockService: limits a buyer in a group in buckets (functions/stock_claims.lua). Invariant: an order of an item with a limit is
 * made only after its units were claimed in the bucket of its buyer.
 *
 *   the order --CLAIM--> claim --CLAIMED--> the order, with the claim
 *                         ^  \--OVER--> the orders of the other claims are looked at --> settle claims --\
 *                         +------------------------------------------------------------------------------+
 */
#include "services/stock_buckets.h"

#include <string.h>

enum { CLAIMS_AT_ONCE = 1024 };

typedef struct claim {
    const char *sku, *order_id;
    int64_t at, units; /* -1: there is no such order */
} claim;

static bool claimed(answer *a, buckets *b);

static void plan_claim(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    b->step = claimed;
    buckets_plan_call(p, b, &fn_stock_claim, stock_bucket_of(b->buyer_id, b->n), b->n_lines);
    args_stock_claim(p, .id = b->order_id, .buyer = b->buyer_id);
    for (size_t i = 0; i < b->n_lines; i++)
        each_stock_claim(p, .sku = b->lines[i]->sku, .quantity = b->lines[i]->quantity);
}

static bool claim_again(answer *a, buckets *b)
{
    return buckets_go_on(a, b, plan_claim);
}

/* ---- the other claims ---- */

static void plan_orders(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    for (size_t i = 0; i < b->n_claims; i++) {
        buckets_plan_call(p, b, &fn_stock_get_order, stock_bucket_of(b->claims[i].order_id, b->n), 0);
        args_stock_get_order(p, .order_id = b->claims[i].order_id);
    }
}

static void plan_settle(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    buckets_plan_call(p, b, &fn_stock_settle_claims, stock_bucket_of(b->buyer_id, b->n), b->n_claims);
    args_stock_settle_claims(p, .buyer = b->buyer_id);
    for (size_t i = 0; i < b->n_claims; i++)
        each_stock_settle_claims(p, .sku = b->claims[i].sku, .id = b->claims[i].order_id, .at = b->claims[i].at,
                                 .units = b->claims[i].units);
}

/* What an order has of a sku: {'OK', {state, hold_ms, buyer, then sku, quantity, returned of each line}}, {'NONE'} */
static int64_t standing(answer *a, const store_value *reply, const char *sku)
{
    enum { HEAD = 3, LINE = 3 };

    if (answer_says(reply, "NONE"))
        return -1;
    const store_value *order = answer_at(a, reply, 1);
    const char *state = answer_text(a, order, 0);
    if (strcmp(state, "RESERVED") != 0 && strcmp(state, "CONFIRMED") != 0)
        return 0;
    for (size_t at = HEAD; at + LINE <= answer_count(a, order); at += LINE)
        if (strcmp(answer_text(a, order, at), sku) == 0)
            return answer_int(a, order, at + 1) - answer_int(a, order, at + 2);
    return 0;
}

static bool orders_seen(answer *a, buckets *b)
{
    for (size_t i = 0; i < b->n_claims && a->error.code == LKS_OK; i++)
        b->claims[i].units = standing(a, a->replies[i], b->claims[i].sku);
    b->step = claim_again;
    return buckets_go_on(a, b, plan_settle);
}

/* {'OVER', {place, available, then order_id, at of each other claim}...}: true when there are claims to be looked at. */
static bool read_claims(answer *a, buckets *b)
{
    const store_value *reply = a->replies[0];

    b->claims = memory_in(a->arena, CLAIMS_AT_ONCE * sizeof *b->claims);
    b->n_claims = 0;
    for (size_t i = 1; i < answer_count(a, reply); i++) {
        const store_value *line = answer_at(a, reply, i);
        size_t place = (size_t)answer_int(a, line, 0);
        for (size_t at = 2; at + 2 <= answer_count(a, line) && b->n_claims < CLAIMS_AT_ONCE && place < b->n_lines;
             at += 2)
            b->claims[b->n_claims++] = (claim){
                .sku = b->lines[place]->sku, .order_id = answer_text(a, line, at), .at = answer_int(a, line, at + 1)};
    }
    return b->n_claims > 0;
}

/* ---- claim ---- */

static bool looked_for_items(answer *a, buckets *b)
{
    return buckets_settle(a, b) || claim_again(a, b);
}

static bool claimed(answer *a, buckets *b)
{
    if (answer_says(a->replies[0], "NO_ITEM")) {
        const char **skus = memory_in(a->arena, b->n_lines * sizeof *skus);
        for (size_t i = 0; i < b->n_lines; i++)
            skus[i] = b->lines[i]->sku;
        b->skus = skus;
        b->n_skus = b->n_lines;
        return buckets_look(a, b, looked_for_items);
    }
    if (answer_says(a->replies[0], "CLAIMED")) {
        b->claimed_at = answer_int(a, a->replies[0], 1);
        /* Another copy of the call may be about to make the order with its claim. */
        b->keeps_claim = answer_int(a, a->replies[0], 2) != 0;
        return buckets_go_on(a, b, stock_ask_again);
    }
    if (!b->verified && read_claims(a, b)) {
        b->verified = true;
        b->step = orders_seen;
        return buckets_go_on(a, b, plan_orders);
    }
    b->is_over = true;
    return false;
}

bool buckets_claim(answer *a, buckets *b, const char *order_id, const char *buyer_id, lks_line *const *lines, size_t n)
{
    b->order_id = order_id;
    b->buyer_id = buyer_id;
    b->lines = lines;
    b->n_lines = n;
    b->verified = false;
    return claim_again(a, b);
}

/* ---- unclaim ---- */

static bool let_go(answer *a, buckets *b)
{
    (void)a;
    (void)b;
    return false;
}

static void plan_unclaim(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    b->step = let_go;
    buckets_plan_call(p, b, &fn_stock_unclaim, stock_bucket_of(b->buyer_id, b->n), b->n_lines);
    args_stock_unclaim(p, .id = b->order_id, .buyer = b->buyer_id, .at = b->claimed_at);
    for (size_t i = 0; i < b->n_lines; i++)
        each_stock_unclaim(p, .sku = b->lines[i]->sku);
}

bool buckets_unclaim(answer *a, buckets *b)
{
    if (b->claimed_at == 0 || b->keeps_claim)
        return false;
    b->keeps_claim = true;
    return buckets_go_on(a, b, plan_unclaim);
}

#include "services/stock_claims.h"

#include <string.h>

enum { CLAIMS_AT_ONCE = 1024 };

typedef struct claim {
    const char *sku, *order_id;
    int64_t at, units; /* -1: no such order */
} claim;

typedef struct claims {
    int64_t claimed_at; /* 0: no claim */
    bool keeps_claim;   /* the claim is kept if the order is refused */
    bool looked;        /* the other claims were looked at, after `claim` was refused */
    claim *others;      /* the buyer's other claims, whose orders are looked at */
    size_t n_others;
} claims;

int64_t claims_claimed_at(const transfer *t)
{
    return t->claims ? t->claims->claimed_at : 0;
}

static unsigned bucket_of_buyer(const transfer *t)
{
    return stock_bucket_of(t->order.buyer, t->n_buckets);
}

/* ---- claim ---- */

transfer_step claims_begin(answer *a, transfer *t)
{
    if (!t->claims)
        t->claims = memory_in(a->arena, sizeof *t->claims);
    t->claims->looked = false;
    return TRANSFER_CLAIM;
}

void claim_prepare(plan *p, transfer *t)
{
    const transfer_order *o = &t->order;

    transfer_plan_call(p, t, &fn_stock_claim, bucket_of_buyer(t), o->n);
    args_stock_claim(p, .id = o->id, .buyer = o->buyer);
    for (size_t i = 0; i < o->n; i++)
        each_stock_claim(p, .sku = o->skus[i], .quantity = o->quantities[i]);
}

/* Reads {'OVER', {place, available, then order_id, at of each other claim}...}. */
static void read_others(answer *a, transfer *t)
{
    const store_value *reply = a->replies[0];
    claims *c = t->claims;

    c->others = memory_in(a->arena, CLAIMS_AT_ONCE * sizeof *c->others);
    c->n_others = 0;
    for (size_t i = 1; i < answer_count(a, reply); i++) {
        const store_value *line = answer_at(a, reply, i);
        const size_t place = (size_t)answer_int(a, line, 0), n = answer_count(a, line);
        for (size_t at = 2; at + 2 <= n && c->n_others < CLAIMS_AT_ONCE && place < t->order.n; at += 2)
            c->others[c->n_others++] = (claim){
                .sku = t->order.skus[place], .order_id = answer_text(a, line, at), .at = answer_int(a, line, at + 1)};
    }
}

transfer_step claim_finish(answer *a, transfer *t)
{
    claims *c = t->claims;

    if (answer_says(a->replies[0], "NO_ITEM"))
        return transfer_update(t);
    if (answer_says(a->replies[0], "CLAIMED")) {
        c->claimed_at = answer_int(a, a->replies[0], 1);
        /* Another copy of the call may be about to make the order with its claim. */
        c->keeps_claim = answer_int(a, a->replies[0], 2) != 0;
        return TRANSFER_CALL;
    }
    if (!c->looked) {
        c->looked = true;
        read_others(a, t);
        if (c->n_others > 0)
            return TRANSFER_LOOK_AT_CLAIMS;
    }
    t->result = TRANSFER_OVER_LIMIT;
    return TRANSFER_DONE;
}

/* ---- the other claims ---- */

void look_at_claims_prepare(plan *p, transfer *t)
{
    for (size_t i = 0; i < t->claims->n_others; i++) {
        const char *id = t->claims->others[i].order_id;
        transfer_plan_call(p, t, &fn_stock_get_order, stock_bucket_of(id, t->n_buckets), 0);
        args_stock_get_order(p, .order_id = id);
    }
}

/* Returns the units of the sku that an order still has. The reply is {'OK', {state, hold_ms, buyer, then sku, quantity,
 * returned of each line}} or {'NONE'}. */
static int64_t units_of(answer *a, const store_value *reply, const char *sku)
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

transfer_step look_at_claims_finish(answer *a, transfer *t)
{
    claim *other = t->claims->others;

    for (size_t i = 0; i < t->claims->n_others && a->error.code == LKS_OK; i++)
        other[i].units = units_of(a, a->replies[i], other[i].sku);
    return TRANSFER_SETTLE_CLAIMS;
}

void settle_claims_prepare(plan *p, transfer *t)
{
    const claim *other = t->claims->others;

    transfer_plan_call(p, t, &fn_stock_settle_claims, bucket_of_buyer(t), t->claims->n_others);
    args_stock_settle_claims(p, .buyer = t->order.buyer);
    for (size_t i = 0; i < t->claims->n_others; i++)
        each_stock_settle_claims(p, .sku = other[i].sku, .id = other[i].order_id, .at = other[i].at,
                                 .units = other[i].units);
}

/* ---- unclaim ---- */

transfer_step claims_end(transfer *t)
{
    return t->claims && t->claims->claimed_at != 0 && !t->claims->keeps_claim ? TRANSFER_UNCLAIM : TRANSFER_DONE;
}

void unclaim_prepare(plan *p, transfer *t)
{
    const transfer_order *o = &t->order;

    transfer_plan_call(p, t, &fn_stock_unclaim, bucket_of_buyer(t), o->n);
    args_stock_unclaim(p, .id = o->id, .buyer = o->buyer, .at = t->claims->claimed_at);
    for (size_t i = 0; i < o->n; i++)
        each_stock_unclaim(p, .sku = o->skus[i]);
}

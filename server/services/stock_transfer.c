/* Invariant: only move_to changes the step of a transfer after prepare, and `applied` of an error is NO as long as only
 * steps other than the method's own call have run. */
#include "services/stock_transfer.h"

#include "services/stock_claims.h"

enum { ROUNDS_MAX = 200 }; /* Other callers may take the units in every round. */

transfer *transfer_in(plan *p)
{
    if (!p->kept)
        p->kept = memory_in(p->arena, sizeof(transfer));
    return p->kept;
}

transfer *transfer_of(const answer *a)
{
    return a->plan->kept;
}

transfer *transfer_begin_asked(plan *p, const char *group)
{
    transfer *t = transfer_in(p);

    t->group = group;
    return t;
}

transfer *transfer_begin(plan *p, const char *group)
{
    transfer *t = transfer_in(p);

    if (!t->group) {
        t->n_buckets = stock_remembered_buckets(p, group);
        t->is_guess = t->n_buckets > 0;
    }
    t->group = group;
    return t;
}

void transfer_call(plan *p, const plan_function *function, const char *group, const char *only, const char *order_id,
                   size_t each_max)
{
    plan_call(p, function, group, only, each_max);
    if (plan_failed(p))
        return;
    const transfer *t = transfer_begin(p, only ? answer_group(group, only) : group);
    if (t->n_buckets > 0)
        stock_place_in_bucket(p, t->n_buckets, order_id ? stock_bucket_of(order_id, t->n_buckets) : 0);
}

void transfer_set_lines(lks_rpc_arena *arena, transfer_order *order, size_t n)
{
    order->skus = memory_in(arena, n * sizeof *order->skus);
    order->quantities = memory_in(arena, n * sizeof *order->quantities);
    order->n = n;
}

/* ---- the method's own call ---- */

static void call_prepare(plan *p, transfer *t)
{
    plan_again(t->request, p);
    acknowledge_prepare(p, t);
}

static void expire_prepare(plan *p, transfer *t)
{
    plan_again(t->request, p);
    const plan_function *instead = plan_calls(p, &fn_stock_list_namespace) ? &fn_stock_expire_listed : &fn_stock_expire;
    for (size_t i = 0; i < p->n_calls; i++)
        p->calls[i].function = instead->name;
}

/* Reads {'BUCKETED', n}. */
static transfer_step learn_buckets(answer *a, transfer *t)
{
    t->n_buckets = stock_buckets_in(a, a->replies[0]);
    t->is_guess = false;
    stock_remember_buckets(a, t->group, t->n_buckets);
    return TRANSFER_CALL;
}

transfer_step transfer_ask_group(answer *a, transfer *t)
{
    if (!t->is_guess)
        return TRANSFER_DONE;
    stock_remember_buckets(a, t->group, 0);
    t->n_buckets = 0;
    t->is_guess = false;
    return TRANSFER_CALL;
}

static bool says_any(const answer *a, const char *word)
{
    for (size_t i = 0; i < a->n_replies; i++)
        if (answer_says(a->replies[i], word))
            return true;
    return false;
}

/* Whether the reply comes from a bucket that does not know the order or the item. */
static bool is_unknown(const answer *a)
{
    static const char *const words[] = {"UNKNOWN_ORDER", "UNSEEN", "NONE", "UNKNOWN_SKU"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (a->n_replies > 0 && answer_says(a->replies[0], words[i]))
            return true;
    return false;
}

static transfer_step call_finish(answer *a, transfer *t)
{
    if (t->group && a->n_replies > 0 && answer_says(a->replies[0], "BUCKETED"))
        return learn_buckets(a, t);
    if (says_any(a, "MORE")) {
        const bool is_reader = a->plan->method->effect == LKS_RPC_EFFECT_READ;
        t->rounds -= is_reader ? 2 : 1; /* These rounds return units of expired holds, so they end. */
        t->applied |= t->more_is_applied;
        return is_reader ? TRANSFER_EXPIRE : TRANSFER_CALL;
    }
    if (t->is_guess && is_unknown(a))
        return transfer_ask_group(a, t);
    return t->replied ? t->replied(a, t) : TRANSFER_DONE;
}

/* ---- the steps ---- */

/* stock_transfer.h and stock_claims.h draw which steps may follow a finish. */
static const struct step {
    transfer_prepare *prepare;
    transfer_decide *finish; /* NULL: `next` follows */
    transfer_step next;
} steps[] = {
    [TRANSFER_CALL] = {.prepare = call_prepare, .finish = call_finish},
    [TRANSFER_EXPIRE] = {.prepare = expire_prepare, .next = TRANSFER_CALL},
    [TRANSFER_LOOK] = {.prepare = look_prepare, .finish = look_finish},
    [TRANSFER_UPDATE] = {.prepare = update_prepare, .next = TRANSFER_LOOK},
    [TRANSFER_SEND] = {.prepare = send_prepare, .finish = send_finish},
    [TRANSFER_RECEIVE] = {.prepare = receive_prepare, .finish = receive_finish},
    [TRANSFER_ACKNOWLEDGE] = {.prepare = acknowledge_prepare, .next = TRANSFER_LOOK},
    [TRANSFER_CLAIM] = {.prepare = claim_prepare, .finish = claim_finish},
    [TRANSFER_LOOK_AT_CLAIMS] = {.prepare = look_at_claims_prepare, .finish = look_at_claims_finish},
    [TRANSFER_SETTLE_CLAIMS] = {.prepare = settle_claims_prepare, .next = TRANSFER_CLAIM},
    [TRANSFER_UNCLAIM] = {.prepare = unclaim_prepare, .next = TRANSFER_DONE},
};

static void plan_step(const ProtobufCMessage *request, plan *p)
{
    transfer *t = transfer_in(p);
    (void)request;

    steps[t->step].prepare(p, t);
}

static void move_to(answer *a, transfer *t, transfer_step step)
{
    t->step = step;
    if (++t->rounds > ROUNDS_MAX)
        lks_error_set_reason(&a->error, LKS_UNAVAILABLE, t->applied ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO,
                             LKS_REASON_BUSY, "units of %s keep moving between its buckets", t->group);
    else if (t->applied)
        answer_next_round_applied(a, plan_step);
    else
        answer_next_round(a, plan_step);
}

bool transfer_finished(const ProtobufCMessage *request, answer *a)
{
    transfer *t = transfer_of(a);

    t->request = request;
    const struct step *step = &steps[t->step];
    const transfer_step next = step->finish ? step->finish(a, t) : step->next;
    if (a->error.code != LKS_OK)
        return false;
    if (next != TRANSFER_DONE)
        move_to(a, t, next);
    return next == TRANSFER_DONE;
}

void transfer_again(answer *a)
{
    move_to(a, transfer_of(a), TRANSFER_CALL);
}

#include "services/stock_moves.h"

void transfer_plan_call(plan *p, const transfer *t, const plan_function *function, unsigned bucket, size_t each_max)
{
    p->prepares = true;
    plan_call(p, function, t->group, NULL, each_max);
    stock_place_in_bucket(p, t->n_buckets, bucket);
}

/* ---- look ---- */

enum {
    LINES_OF_WEIGHT = 8,
    LOOKS_MAX = 20, /* looks at counts that change and cannot be from the same moment */
};

void look_prepare(plan *p, transfer *t)
{
    for (unsigned k = 0; k <= t->n_buckets; k++) {
        transfer_plan_call(p, t, &fn_stock_look, k, t->look.n_skus);
        plan_weighs(p, 1 + t->look.n_skus / LINES_OF_WEIGHT);
        for (size_t i = 0; i < t->look.n_skus; i++)
            each_stock_look(p, .sku = t->look.skus[i]);
    }
}

transfer_step transfer_look(transfer *t, const char *const *skus, size_t n, transfer_decide *looked)
{
    t->look = (bucket_look){.n_buckets = t->n_buckets, .skus = skus, .n_skus = n};
    t->looks = 0;
    t->looked = looked;
    return TRANSFER_LOOK;
}

void transfer_plan_look(plan *p, transfer *t, const char *const *skus, size_t n, transfer_decide *looked)
{
    t->step = transfer_look(t, skus, n, looked);
    look_prepare(p, t);
}

transfer_step look_finish(answer *a, transfer *t)
{
    for (size_t k = 0; k < a->n_replies; k++)
        if (answer_says(a->replies[k], "MORE")) {
            t->rounds--; /* Each of these rounds returns units of expired holds, so they end. */
            return TRANSFER_LOOK;
        }
    t->moves = look_read(&t->look, a);
    t->looks++;
    return a->error.code == LKS_OK ? t->looked(a, t) : TRANSFER_DONE;
}

bool transfer_look_is_done(const transfer *t)
{
    return t->look.unchanged || look_fits(&t->look) || t->looks >= LOOKS_MAX;
}

/* ---- update ---- */

/* Whether the bucket lacks the item, or its newest settings. */
static bool is_behind(const bucket_item *pool, const bucket_item *item)
{
    return pool->exists &&
           (!item->exists || item->born < pool->born || (item->born == pool->born && item->era < pool->era));
}

/* Whether the bucket has an item that was deleted in the pool. */
static bool has_ended(const bucket_item *pool, const bucket_item *item)
{
    return !pool->exists && item->exists && item->born <= pool->version;
}

void update_prepare(plan *p, transfer *t)
{
    for (size_t i = 0; i < t->look.n_skus; i++)
        for (unsigned k = 1; k <= t->n_buckets; k++) {
            const bucket_item *pool = look_item(&t->look, i, 0), *item = look_item(&t->look, i, k);
            if (is_behind(pool, item)) {
                transfer_plan_call(p, t, &fn_stock_set_bucket, k, 0);
                args_stock_set_bucket(p, .sku = t->look.skus[i], .made = pool->born, .set = pool->era,
                                      .buyer_limit = pool->limit, .opens = pool->opens, .closes = pool->closes,
                                      .retain = pool->retain);
            } else if (has_ended(pool, item)) {
                transfer_plan_call(p, t, &fn_stock_drop_bucket, k, 0);
                args_stock_drop_bucket(p, .sku = t->look.skus[i], .born = pool->version);
            }
        }
}

static bool needs_update(const bucket_look *look)
{
    for (size_t i = 0; i < look->n_skus; i++)
        for (unsigned k = 1; k <= look->n_buckets; k++)
            if (is_behind(look_item(look, i, 0), look_item(look, i, k)) ||
                has_ended(look_item(look, i, 0), look_item(look, i, k)))
                return true;
    return false;
}

/* Units of an item that the destination does not have cannot be received: the item was deleted, or a failover has lost
 * it. */
static void drop_lost_moves(transfer *t)
{
    size_t left = 0;

    for (size_t i = 0; i < t->moves.n; i++) {
        const bucket_move *m = &t->moves.move[i];
        const bucket_item *item = look_item(&t->look, m->sku, m->to);
        if (m->to == 0 || (item->exists && item->born >= m->born))
            t->moves.move[left++] = *m;
    }
    t->moves.n = left;
}

transfer_step transfer_settle(transfer *t)
{
    if (needs_update(&t->look))
        return TRANSFER_UPDATE;
    drop_lost_moves(t);
    t->call_follows = false;
    return t->moves.n > 0 ? TRANSFER_RECEIVE : TRANSFER_DONE;
}

static transfer_step items_looked(answer *a, transfer *t)
{
    const transfer_step first = transfer_settle(t);
    (void)a;

    return first != TRANSFER_DONE ? first : TRANSFER_CALL;
}

transfer_step transfer_update(transfer *t)
{
    return transfer_look(t, t->order.skus, t->order.n, items_looked);
}

/* ---- send, receive, acknowledge ---- */

void send_prepare(plan *p, transfer *t)
{
    for (size_t i = 0; i < t->moves.n; i++) {
        const bucket_move *m = &t->moves.move[i];
        transfer_plan_call(p, t, &fn_stock_send, m->from, 0);
        args_stock_send(p, .sku = t->look.skus[m->sku], .from = m->from, .to = m->to, .units = m->units,
                        .born = m->born);
    }
}

/* Reads {'SENT', id, units, born} or {'NONE'}. */
transfer_step send_finish(answer *a, transfer *t)
{
    size_t left = 0;

    for (size_t i = 0; i < t->moves.n && a->error.code == LKS_OK; i++) {
        bucket_move m = t->moves.move[i];
        if (!answer_says(a->replies[i], "SENT"))
            continue;
        m.id = answer_int(a, a->replies[i], 1);
        m.units = answer_int(a, a->replies[i], 2);
        m.born = answer_int(a, a->replies[i], 3);
        t->moves.move[left++] = m;
    }
    t->moves.n = left;
    return left > 0 ? TRANSFER_RECEIVE : TRANSFER_LOOK;
}

void receive_prepare(plan *p, transfer *t)
{
    for (size_t i = 0; i < t->moves.n; i++) {
        const bucket_move *m = &t->moves.move[i];
        transfer_plan_call(p, t, &fn_stock_receive, m->to, 0);
        args_stock_receive(p, .sku = t->look.skus[m->sku], .from = m->from, .to = m->to, .move_id = m->id,
                           .units = m->units, .move_born = m->born);
    }
}

transfer_step receive_finish(answer *a, transfer *t)
{
    for (size_t i = 0; i < a->n_replies; i++)
        if (answer_says(a->replies[i], "NO_ITEM")) /* the pool has a newer item */
            return TRANSFER_LOOK;
    t->unacknowledged = true;
    return t->call_follows ? TRANSFER_CALL : TRANSFER_ACKNOWLEDGE;
}

/* Runs with CALL, or alone. The replies are not read. */
void acknowledge_prepare(plan *p, transfer *t)
{
    const bool prepares = p->prepares || p->n_calls == 0;

    for (size_t i = 0; i < t->moves.n && t->unacknowledged; i++) {
        const bucket_move *m = &t->moves.move[i];
        transfer_plan_call(p, t, &fn_stock_sent, m->from, 0);
        args_stock_sent(p, .sku = t->look.skus[m->sku], .to = m->to, .move_id = m->id);
    }
    p->prepares = prepares;
    t->unacknowledged = false;
}

/* ---- which moves ---- */

static void add_move(transfer *t, size_t sku, unsigned from, unsigned to, int64_t units)
{
    if (units > 0)
        t->moves.move[t->moves.n++] = (bucket_move){
            .sku = sku, .from = from, .to = to, .units = units, .born = look_item(&t->look, sku, 0)->born};
}

static void begin_moves(answer *a, transfer *t, size_t max, bool call_follows)
{
    t->moves = (bucket_moves){.move = memory_in(a->arena, max * sizeof *t->moves.move)};
    t->call_follows = call_follows;
}

transfer_step transfer_collect(answer *a, transfer *t, const int64_t *units)
{
    begin_moves(a, t, t->n_buckets, false);
    for (unsigned k = 1; k <= t->n_buckets; k++)
        add_move(t, 0, k, 0, units[k]);
    return TRANSFER_SEND;
}

transfer_step transfer_spread(answer *a, transfer *t, int64_t units)
{
    begin_moves(a, t, t->n_buckets, false);
    for (unsigned k = 1; k <= t->n_buckets; k++)
        add_move(t, 0, 0, k, units);
    return TRANSFER_SEND;
}

transfer_step transfer_need(transfer *t, unsigned to, const char *const *skus, size_t n, const int64_t *wanted,
                            int64_t missing, transfer_decide *looked)
{
    t->pull.to = to;
    t->pull.wanted = wanted;
    t->pull.missing = missing;
    return transfer_look(t, skus, n, looked);
}

/* Returns the bucket with the most units, other than the destination; the pool is preferred to buckets with as many. */
static unsigned bucket_with_most(const transfer *t, size_t sku)
{
    unsigned best = t->pull.to == 0 ? 1 : 0;

    for (unsigned k = best + 1; k <= t->n_buckets; k++)
        if (k != t->pull.to && look_available(&t->look, sku, k) > look_available(&t->look, sku, best))
            best = k;
    return best;
}

transfer_step transfer_pull(answer *a, transfer *t)
{
    const transfer_step first = transfer_settle(t);
    bool is_short = false;

    if (first != TRANSFER_DONE)
        return first;
    begin_moves(a, t, t->look.n_skus, true);
    for (size_t i = 0; i < t->look.n_skus; i++) {
        const int64_t here = look_available(&t->look, i, t->pull.to);
        const int64_t wanted = t->pull.wanted ? t->pull.wanted[i] - here : t->pull.missing;
        const unsigned from = bucket_with_most(t, i);
        const int64_t there = look_available(&t->look, i, from);
        is_short |= look_total(&t->look, i) - here < wanted;
        /* Half of the units there, so that the next order need not ask again. */
        if (wanted > 0 && there > 0)
            add_move(t, i, from, t->pull.to, wanted > there / 2 ? wanted : there / 2);
    }
    if (is_short)
        return t->look.unchanged ? TRANSFER_DONE : TRANSFER_LOOK;
    return t->moves.n > 0 ? TRANSFER_SEND : TRANSFER_CALL;
}

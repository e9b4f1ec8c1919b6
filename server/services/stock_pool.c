/* Invariant: on_hand and the settings of an item are changed by one function on the pool, which knows the buckets' part
 * of on_hand. The buckets get the settings afterwards (transfer_settle). */
#include "services/stock_pool.h"

struct pool_change {
    int64_t expected; /* the version of the whole item that the caller expects; 0: any */
    bool checked;     /* the item has that version */
    bool must_be_new;
    int64_t version; /* the pool's version when `expected` was checked, so that the pool detects a later change */
    bool spread;     /* PutItem: the pool's units were sent to the buckets */
    bool collected;  /* DeleteItem: all units that were not sold are in the pool */
    int64_t lent;    /* then: the sold units in the buckets */
    bool replayed;
    const char *too_few; /* PutItem and Adjust: the message if all buckets have too few units */
};

static pool_change *change_of(plan *p)
{
    transfer *t = transfer_in(p);

    if (!t->pool)
        t->pool = memory_in(p->arena, sizeof *t->pool);
    return t->pool;
}

void pool_must_be_new(plan *p, bool must_be_new)
{
    change_of(p)->must_be_new = must_be_new;
}

bool pool_replayed(const transfer *t)
{
    return t->pool->replayed;
}

/* ---- the version ---- */

/* Returns false with the error in `a`. */
static bool check_version(answer *a, transfer *t)
{
    const bucket_item *pool = look_item(&t->look, 0, 0);
    const int64_t current = pool->exists ? look_version(&t->look, 0) : 0;
    const pool_change *c = t->pool;

    t->pool->version = pool->exists ? pool->version : 0;
    if (c->expected == 0 || c->expected == current || (c->must_be_new && pool->exists))
        return true;
    lks_error_set_reason(&a->error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_VERSION_MISMATCH,
                         "expected_version: the current one is %lld", (long long)current);
    return false;
}

static transfer_step version_looked(answer *a, transfer *t)
{
    t->pool->checked = check_version(a, t);
    return TRANSFER_CALL;
}

bool pool_call(plan *p, const char *group, const char *const *sku, const plan_function *function, int32_t buckets,
               int64_t *version)
{
    plan_check_name_or_empty(p, "group", group);
    if (plan_failed(p))
        return false;
    transfer *t = transfer_begin_asked(p, answer_group(group, *sku));
    pool_change *c = change_of(p);
    const bool in_pool = t->n_buckets > 0;
    if (!in_pool && buckets > 1) {
        plan_call(p, &fn_stock_split, t->group, NULL, 0);
        args_stock_split(p, .n = buckets);
        return false;
    }
    if (in_pool && buckets != 0 && buckets != (int32_t)t->n_buckets) {
        lks_error_set(&p->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                      "buckets: the group is permanently in %u buckets", t->n_buckets);
        return false;
    }
    c->expected = *version;
    if (in_pool && c->expected != 0 && !c->checked) {
        transfer_plan_look(p, t, sku, 1, version_looked);
        return false;
    }
    if (in_pool && c->expected != 0)
        *version = c->version;
    transfer_call(p, function, t->group, NULL, NULL, 0);
    return true;
}

/* ---- PutItem and Adjust ---- */

static transfer_step change_pulled(answer *a, transfer *t)
{
    const transfer_step next = transfer_pull(a, t);

    if (next == TRANSFER_DONE)
        lks_error_set(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", t->pool->too_few);
    return next;
}

/* After the pool has the item: the buckets get its settings, and an equal share of the pool's units. */
static transfer_step put_looked(answer *a, transfer *t)
{
    const transfer_step first = transfer_settle(t);
    const int64_t units = look_item(&t->look, 0, 0)->available / t->n_buckets;

    if (first != TRANSFER_DONE)
        return first;
    if (!t->pool->spread && units > 0) {
        t->pool->spread = true;
        return transfer_spread(a, t, units);
    }
    return t->look.unchanged || look_fits(&t->look) ? TRANSFER_DONE : TRANSFER_LOOK;
}

static transfer_step adjust_looked(answer *a, transfer *t)
{
    (void)a;
    return t->look.unchanged || look_fits(&t->look) ? TRANSFER_DONE : TRANSFER_LOOK;
}

/* Handles the pool's reply: done, or units or another version are needed first. */
static transfer_step change_replied(answer *a, transfer *t, const char *const *sku, transfer_decide *looked)
{
    if (t->n_buckets == 0)
        return TRANSFER_DONE;
    if (answer_says(a->replies[0], "MOVED")) {
        t->pool->checked = false;
        return TRANSFER_CALL;
    }
    if (answer_says(a->replies[0], "SHORT"))
        return transfer_need(t, 0, sku, 1, NULL, answer_int(a, a->replies[0], 1), change_pulled);
    t->applied = true;
    return transfer_look(t, sku, 1, looked);
}

transfer_step pool_put_replied(answer *a, transfer *t)
{
    const lks_put_item_request *request = (const lks_put_item_request *)(const void *)t->request;

    t->pool->too_few = "on_hand: must not be less than the reserved and sold units";
    return change_replied(a, t, (const char *const *)&request->sku, put_looked);
}

transfer_step pool_adjust_replied(answer *a, transfer *t)
{
    const lks_adjust_request *request = (const lks_adjust_request *)(const void *)t->request;

    /* {'OK', view, 1 if replayed} */
    t->pool->replayed = answer_says(a->replies[0], "OK") && answer_int(a, a->replies[0], 2) != 0;
    t->pool->too_few = "delta: takes more units than are available";
    return change_replied(a, t, (const char *const *)&request->sku, adjust_looked);
}

/* ---- DeleteItem ---- */

static transfer_step deleted_looked(answer *a, transfer *t)
{
    (void)a;
    return transfer_settle(t);
}

/* All unsold units go back to the pool, and then the pool's item is deleted. */
static transfer_step delete_looked(answer *a, transfer *t)
{
    const transfer_step first = transfer_settle(t);
    int64_t *units = memory_in(a->arena, (t->n_buckets + 1) * sizeof *units), sum = 0;

    if (first != TRANSFER_DONE || !check_version(a, t))
        return first;
    if (!look_item(&t->look, 0, 0)->exists) {
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "sku: no such item");
        return TRANSFER_DONE;
    }
    t->pool->lent = 0;
    for (unsigned k = 1; k <= t->n_buckets; k++) {
        const bucket_item *item = look_item(&t->look, 0, k);
        if (item->reserved > 0)
            lks_error_set(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "sku: some of the item is reserved");
        t->pool->lent += item->sold;
        sum += units[k] = look_available(&t->look, 0, k);
    }
    if (sum > 0)
        return transfer_collect(a, t, units);
    if (t->look.unchanged) /* A failover has lost a part of a move: the sum will never fit. */
        t->pool->lent = look_item(&t->look, 0, 0)->lent;
    t->pool->collected = true;
    return TRANSFER_CALL;
}

static transfer_step delete_replied(answer *a, transfer *t)
{
    if (t->n_buckets == 0)
        return TRANSFER_DONE;
    if (answer_says(a->replies[0], "MOVED"))
        return TRANSFER_LOOK;
    t->applied = true;
    t->looked = deleted_looked;
    return TRANSFER_LOOK;
}

void pool_delete_call(plan *p, const char *group, const char *const *sku, int64_t version)
{
    plan_check_name_or_empty(p, "group", group);
    if (plan_failed(p))
        return;
    transfer *t = transfer_begin_asked(p, answer_group(group, *sku));
    pool_change *c = change_of(p);
    t->replied = delete_replied;
    c->expected = version;
    if (t->n_buckets == 0) {
        plan_call(p, &fn_stock_delete_item, t->group, NULL, 0);
        args_stock_delete_item(p, .sku = *sku, .expected_version = version);
    } else if (!c->collected) {
        transfer_plan_look(p, t, sku, 1, delete_looked);
    } else {
        int64_t latest = look_version(&t->look, 0);
        for (unsigned k = 1; k <= t->n_buckets; k++)
            if (look_item(&t->look, 0, k)->version > latest)
                latest = look_item(&t->look, 0, k)->version;
        transfer_call(p, &fn_stock_pool_delete, t->group, NULL, NULL, 0);
        args_stock_pool_delete(p, .sku = *sku, .expected_version = c->version, .lent = c->lent, .version = latest);
    }
}

/* StockService: PutItem, Adjust and DeleteItem of an item in buckets. Invariant: what changes on_hand, or the item's settings,
 * is one function on the pool, which knows how much of on_hand the buckets have; the buckets follow. */
#include "services/stock_buckets.h"

static buckets *buckets_of(const answer *a)
{
    return &((stock_kept *)a->plan->kept)->buckets;
}

/* ---- the version ---- */

/* The version of an item in buckets is the sum of what changed anywhere. The pool is told its own, so that it notices what
 * changes there meanwhile. */
static bool check_version(answer *a, buckets *b)
{
    const bucket_item *pool = buckets_seen(b, 0, 0);
    int64_t current = pool->exists ? buckets_version(b, 0) : 0;

    b->version = pool->exists ? pool->version : 0;
    if (b->expected == 0 || b->expected == current || (b->must_be_new && pool->exists))
        return true;
    lks_error_set_reason(&a->error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_VERSION_MISMATCH,
                         "expected_version: the current one is %lld", (long long)current);
    return false;
}

/* After the look before the call. */
static bool seen_before(answer *a, buckets *b)
{
    if (!check_version(a, b))
        return true;
    b->looked = true;
    return buckets_go_on(a, b, stock_ask_again);
}

static bool delete_seen(answer *a, buckets *b);

const plan_function *bucket_item_call(plan *p, const char *group, const char *const *sku, const plan_function *function,
                                      const plan_function *in_pool, int32_t n, int64_t *version)
{
    plan_check_name_or_empty(p, "group", group);
    if (plan_failed(p))
        return NULL;
    buckets *b = stock_buckets_asked(p, answer_group(group, *sku));
    if (b->n == 0 && n > 1) {
        plan_call(p, &fn_stock_split, b->group, NULL, 0);
        args_stock_split(p, .n = n);
        return NULL;
    }
    if (b->n == 0) {
        plan_call(p, function, b->group, NULL, 0);
        return function;
    }
    if (n != 0 && n != (int32_t)b->n) {
        lks_error_set(&p->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                      "buckets: the group is in %u buckets, for good", b->n);
        return NULL;
    }
    b->expected = *version;
    if (!in_pool || (b->expected != 0 && !b->looked)) {
        buckets_plan_look(p, b, sku, 1, in_pool ? seen_before : delete_seen);
        return NULL;
    }
    b->skus = sku;
    b->n_skus = 1;
    *version = b->expected != 0 ? b->version : 0;
    stock_call(p, in_pool, b->group, NULL, NULL, 0);
    return in_pool;
}

/* The reply of the pool says that it cannot do it, or not yet. */
static bool pool_refuses(answer *a, buckets *b, const char *error)
{
    if (b->is_short) {
        lks_error_set(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", error);
        return true;
    }
    if (answer_says(a->replies[0], "MOVED")) {
        b->looked = false;
        return buckets_go_on(a, b, stock_ask_again);
    }
    if (!answer_says(a->replies[0], "SHORT"))
        return false;
    b->missing = answer_int(a, a->replies[0], 1);
    return buckets_pull(a, b, 0, b->skus, NULL, 1);
}

/* ---- PutItem ---- */

/* After the pool has it: the buckets get its settings, and what the pool has of units. */
static bool put_seen(answer *a, buckets *b)
{
    if (buckets_settle(a, b))
        return true;
    int64_t units = buckets_seen(b, 0, 0)->available / b->n;
    if (!b->spread && units > 0) {
        b->spread = true;
        return buckets_spread(a, b, 0, units, put_seen);
    }
    b->ready = buckets_fit(b) || buckets_unchanged(a, b); /* what a failover has lost never fits */
    return !b->ready && buckets_look(a, b, put_seen);
}

bool bucket_put_goes_on(answer *a)
{
    buckets *b = buckets_of(a);

    if (b->n == 0 || b->ready)
        return false;
    if (pool_refuses(a, b, "on_hand: less than is reserved and sold"))
        return true;
    b->applied = true;
    return buckets_look(a, b, put_seen);
}

/* ---- Adjust ---- */

static bool adjust_seen(answer *a, buckets *b)
{
    b->ready = buckets_fit(b) || buckets_unchanged(a, b); /* what a failover has lost never fits */
    return !b->ready && buckets_look(a, b, adjust_seen);
}

bool bucket_adjust_goes_on(answer *a)
{
    buckets *b = buckets_of(a);

    if (b->n == 0 || b->ready)
        return false;
    if (pool_refuses(a, b, "delta: takes more than is available"))
        return true;
    b->replayed = answer_int(a, a->replies[0], 2) != 0;
    b->applied = true;
    return buckets_look(a, b, adjust_seen);
}

/* ---- DeleteItem ---- */

/* Settings and leftovers are of no interest any more. */
static bool deleted_seen(answer *a, buckets *b)
{
    b->ready = true;
    return buckets_settle(a, b);
}

static bool pool_deleted(answer *a, buckets *b)
{
    if (answer_says(a->replies[0], "MOVED"))
        return buckets_look(a, b, delete_seen);
    b->applied = true;
    return buckets_look(a, b, deleted_seen);
}

static void plan_pool_delete(const ProtobufCMessage *request, plan *p)
{
    const buckets *b = &stock_kept_of(p)->buckets;
    int64_t version = buckets_version(b, 0);
    (void)request;

    for (unsigned k = 1; k <= b->n; k++)
        if (buckets_seen(b, 0, k)->version > version)
            version = buckets_seen(b, 0, k)->version;
    stock_call(p, &fn_stock_pool_delete, b->group, NULL, NULL, 0);
    args_stock_pool_delete(p, .sku = b->skus[0], .expected_version = b->version, .lent = b->lent, .version = version);
}

/* All units that are not sold go back to the pool, and then the pool's item ends. */
static bool delete_seen(answer *a, buckets *b)
{
    int64_t *units = memory_in(a->arena, (b->n + 1) * sizeof *units), sum = 0;

    if (buckets_settle(a, b) || !check_version(a, b))
        return true;
    if (!buckets_seen(b, 0, 0)->exists) {
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "sku: no such item");
        return true;
    }
    for (unsigned k = 1; k <= b->n; k++) {
        if (buckets_seen(b, 0, k)->reserved > 0) {
            lks_error_set(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "sku: some of the item is reserved");
            return true;
        }
        sum += units[k] = buckets_available(b, 0, k);
    }
    if (sum > 0)
        return buckets_collect(a, b, 0, units, delete_seen);
    b->lent = 0;
    for (unsigned k = 1; k <= b->n; k++)
        b->lent += buckets_seen(b, 0, k)->sold;
    if (buckets_unchanged(a, b)) /* a failover has lost a part of a move: it never fits */
        b->lent = buckets_seen(b, 0, 0)->sold;
    b->step = pool_deleted;
    return buckets_go_on(a, b, plan_pool_delete);
}

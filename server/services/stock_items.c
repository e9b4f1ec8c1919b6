/* StockService: items, one by one. Invariant: an item in an answer is what one
 * function saw at one moment, and says which group it lives in. */
#include <stdio.h>
#include <string.h>

#include "services/stock_buckets.h"

enum { RETAIN_MIN_MS = 60000, READ_TRIES_MAX = 20 };
#define RETAIN_DEFAULT_MS (30LL * 24 * 3600 * 1000)
/* A hundred years: an instant in microseconds stays below 2^53. */
#define SPAN_MAX_MS (36500LL * 24 * 3600 * 1000)

lks_item *stock_item(answer *a, const store_value *view, const char *group, const char *sku)
{
    lks_item *item = memory_in(a->arena, sizeof *item);

    *item = (lks_item)LKS_ITEM_INIT;
    item->group = group;
    item->sku = sku;
    item->available = answer_int(a, view, 0);
    item->reserved = answer_int(a, view, 1);
    item->sold = answer_int(a, view, 2);
    item->version = answer_int(a, view, 3);
    item->per_buyer_limit = answer_int(a, view, 4);
    item->state = (lks_item_state)answer_enum(a, view, 5, &lockstock__v1__item_state__descriptor);
    item->opens_in_ms = answer_int(a, view, 6);
    item->closes_in_ms = answer_int(a, view, 7);
    return item;
}

/* ---- PutItem ---- */

void put_item_prepare(const lks_put_item_request *request, plan *p)
{
    int64_t retain_ms = request->order_retain_ms != 0 ? request->order_retain_ms : RETAIN_DEFAULT_MS;

    plan_check_name(p, "sku", request->sku);
    plan_check_range(p, "on_hand", request->on_hand, 0, SERVICE_QUANTITY_MAX);
    plan_check_range(p, "per_buyer_limit", request->per_buyer_limit, 0, SERVICE_QUANTITY_MAX);
    plan_check_range(p, "opens_in_ms", request->opens_in_ms, 0, SPAN_MAX_MS);
    plan_check_range(p, "closes_in_ms", request->closes_in_ms, 0, SPAN_MAX_MS);
    if (request->closes_in_ms != 0 && request->closes_in_ms <= request->opens_in_ms)
        plan_invalid(p, "closes_in_ms: must be later than opens_in_ms");
    plan_check_range(p, "order_retain_ms", retain_ms, RETAIN_MIN_MS, SPAN_MAX_MS);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    plan_check_range(p, "buckets", request->buckets, 0, STOCK_BUCKETS_MAX);
    if (request->buckets > 1 || stock_kept_of(p)->buckets.n > 0)
        plan_check_range(p, "per_buyer_limit", request->per_buyer_limit, 0, STOCK_BUCKETS_LIMIT_MAX);
    int64_t version = request->expected_version;
    const plan_function *function = bucket_item_call(p, request->group, &request->sku, &fn_stock_put_item,
                                                     &fn_stock_pool_put, request->buckets, &version);
    if (!plan_failed(p))
        stock_kept_of(p)->buckets.must_be_new = request->must_be_new;
    if (function)
        args_stock_put_item(p, .sku = request->sku, .total = request->on_hand, .buyer_limit = request->per_buyer_limit,
                            .opens_in_ms = request->opens_in_ms, .closes_in_ms = request->closes_in_ms,
                            .retain_ms = retain_ms, .must_be_new = request->must_be_new, .expected_version = version);
}

void put_item_finish(const lks_put_item_request *request, answer *a, lks_put_item_response *response)
{
    const buckets *b = &((stock_kept *)a->plan->kept)->buckets;

    if (stock_goes_on(a) || bucket_put_goes_on(a))
        return;
    response->item = b->n > 0 ? buckets_item(a, b, 0)
                              : stock_item(a, answer_at(a, a->replies[0], 1),
                                           answer_group(request->group, request->sku), request->sku);
}

/* ---- GetItem, BatchGetItems ---- */

/* After a look for what is only read. */
static bool seen(answer *a, buckets *b)
{
    return !buckets_fit(b) && b->tries < READ_TRIES_MAX && buckets_look(a, b, seen);
}

void get_item_prepare(const lks_get_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_name_or_empty(p, "group", request->group);
    if (plan_failed(p))
        return;
    buckets *b = stock_buckets(p, answer_group(request->group, request->sku));
    if (b->n > 0) {
        buckets_plan_look(p, b, &request->sku, 1, seen);
        return;
    }
    plan_call(p, &fn_stock_get_items, request->group, request->sku, 1);
    each_stock_get_items(p, .sku = request->sku);
}

/* The item in that place of a reply; NULL where there is none. */
static lks_item *found_item(answer *a, const store_value *reply, size_t i, const char *group, const char *sku)
{
    const store_value *view = answer_at(a, reply, i);

    return view->type == STORE_INTEGER ? NULL : stock_item(a, view, answer_group(group, sku), sku);
}

void get_item_finish(const lks_get_item_request *request, answer *a, lks_get_item_response *response)
{
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;

    if (stock_goes_on(a))
        return;
    response->item = b->n > 0 ? buckets_item(a, b, 0) : found_item(a, a->replies[0], 1, request->group, request->sku);
    if (!response->item && !stock_asks_group(a))
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "sku: no such item");
}

static void check_skus(plan *p, const char *const *skus, size_t n)
{
    char field[32];

    if (n < 1 || n > SERVICE_BATCH_MAX)
        plan_invalid(p, "skus: must be 1 to %d", SERVICE_BATCH_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        snprintf(field, sizeof field, "skus[%zu]", i);
        plan_check_name(p, field, skus[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(skus[i], skus[j]) == 0)
                plan_invalid(p, "%s: the same as skus[%zu]", field, j);
    }
}

void batch_get_items_prepare(const lks_batch_get_items_request *request, plan *p)
{
    bool one_group = request->group[0] != '\0';

    check_skus(p, request->skus, request->n_skus);
    plan_check_name_or_empty(p, "group", request->group);
    if (plan_failed(p))
        return;
    stock_kept *kept = stock_kept_of(p);
    buckets *b = one_group ? stock_buckets(p, request->group) : &kept->buckets;
    if (b->n > 0) {
        buckets_plan_look(p, b, request->skus, request->n_skus, seen);
        return;
    }
    if (one_group) {
        plan_call(p, &fn_stock_get_items, request->group, NULL, request->n_skus);
        plan_weighs(p, 1 + request->n_skus / STOCK_ITEMS_OF_WEIGHT);
    } else {
        kept->items = memory_in(p->arena, request->n_skus * sizeof *kept->items);
        kept->split = memory_in(p->arena, request->n_skus * sizeof *kept->split);
    }
    for (size_t i = 0; i < request->n_skus; i++) {
        if (!one_group)
            plan_call(p, &fn_stock_get_items, "", request->skus[i], 1);
        each_stock_get_items(p, .sku = request->skus[i]);
    }
}

/* Those of one group, in one reply or in buckets. */
static void read_group(const lks_batch_get_items_request *request, answer *a, const buckets *b, lks_item **items)
{
    for (size_t i = 0; i < request->n_skus && a->error.code == LKS_OK; i++)
        items[i] =
            b->n > 0 ? buckets_item(a, b, i) : found_item(a, a->replies[0], 1 + i, request->group, request->skus[i]);
}

/* Those of groups of their own: a reply of each. Those in buckets are looked at one by one. */
static bool read_groups(const lks_batch_get_items_request *request, answer *a, stock_kept *kept)
{
    buckets *b = &kept->buckets;

    if (b->n == 0) {
        for (size_t i = 0; i < request->n_skus && a->error.code == LKS_OK; i++)
            if (answer_says(a->replies[i], "BUCKETED"))
                kept->split[i] = buckets_told(a, a->replies[i]);
            else
                kept->items[i] = found_item(a, a->replies[i], 1, "", request->skus[i]);
    } else {
        kept->items[kept->at] = buckets_item(a, b, 0);
        kept->split[kept->at] = 0;
    }
    for (size_t i = 0; i < request->n_skus; i++)
        if (kept->split[i] > 0) {
            kept->at = i;
            *b = (buckets){.group = request->skus[i], .n = kept->split[i], .skus = &request->skus[i], .n_skus = 1};
            return buckets_look(a, b, seen);
        }
    return false;
}

void batch_get_items_finish(const lks_batch_get_items_request *request, answer *a,
                            lks_batch_get_items_response *response)
{
    stock_kept *kept = a->plan->kept;
    bool one_group = request->group[0] != '\0';

    if (stock_goes_on(a))
        return;
    if (one_group) {
        kept->items = memory_in(a->arena, request->n_skus * sizeof *kept->items);
        read_group(request, a, &kept->buckets, kept->items);
    } else if (read_groups(request, a, kept)) {
        return;
    }
    response->items = memory_in(a->arena, request->n_skus * sizeof *response->items);
    for (size_t i = 0; i < request->n_skus; i++)
        if (kept->items[i])
            response->items[response->n_items++] = kept->items[i];
    if (response->n_items == 0 && one_group)
        stock_asks_group(a);
}

/* ---- Adjust ---- */

void adjust_prepare(const lks_adjust_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_range(p, "delta", request->delta, -SERVICE_QUANTITY_MAX, SERVICE_QUANTITY_MAX);
    if (request->delta == 0)
        plan_invalid(p, "delta: must not be zero");
    plan_check_name(p, "adjustment_id", request->adjustment_id);
    plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    int64_t version = request->expected_version;
    const plan_function *function =
        bucket_item_call(p, request->group, &request->sku, &fn_stock_adjust, &fn_stock_pool_adjust, 0, &version);
    if (function)
        args_stock_adjust(p, .sku = request->sku, .by = request->delta, .adjustment_id = request->adjustment_id,
                          .reason = request->reason, .expected_version = version);
}

void adjust_finish(const lks_adjust_request *request, answer *a, lks_adjust_response *response)
{
    const buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a) || bucket_adjust_goes_on(a))
        return;
    if (b->n > 0) {
        response->item = buckets_item(a, b, 0);
        response->replayed = b->replayed;
        return;
    }
    response->item = stock_item(a, answer_at(a, reply, 1), answer_group(request->group, request->sku), request->sku);
    response->replayed = answer_int(a, reply, 2) != 0;
}

/* ---- DeleteItem ---- */

void delete_item_prepare(const lks_delete_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    int64_t version = request->expected_version;
    const plan_function *function =
        bucket_item_call(p, request->group, &request->sku, &fn_stock_delete_item, NULL, 0, &version);
    if (function)
        args_stock_delete_item(p, .sku = request->sku, .expected_version = version);
}

void delete_item_finish(const lks_delete_item_request *request, answer *a, lks_delete_item_response *response)
{
    (void)request;
    (void)response;
    if (!stock_goes_on(a))
        answer_at(a, a->replies[0], 0);
}

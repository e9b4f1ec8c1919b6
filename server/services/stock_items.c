/* StockService: single items. Invariant: the counts of an item in an answer are from the same moment. */
#include <string.h>

#include "services/stock_list.h"
#include "services/stock_pool.h"

enum {
    RETAIN_MIN_MS = 60000,
};
#define RETAIN_DEFAULT_MS (30LL * 24 * 3600 * 1000)
/* A hundred years: a time in microseconds stays below 2^53. */
#define SPAN_MAX_MS (36500LL * 24 * 3600 * 1000)

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
    if (request->buckets > 1 || transfer_in(p)->n_buckets > 0)
        plan_check_range(p, "per_buyer_limit", request->per_buyer_limit, 0, STOCK_BUCKETS_LIMIT_MAX);
    int64_t version = request->expected_version;
    pool_must_be_new(p, request->must_be_new);
    transfer_in(p)->replied = pool_put_replied;
    if (pool_call(p, request->group, &request->sku, &fn_stock_put_item, request->buckets, &version))
        args_stock_put_item(p, .sku = request->sku, .total = request->on_hand, .buyer_limit = request->per_buyer_limit,
                            .opens_in_ms = request->opens_in_ms, .closes_in_ms = request->closes_in_ms,
                            .retain_ms = retain_ms, .must_be_new = request->must_be_new, .expected_version = version);
}

/* Returns an item that is in one group or in buckets: from the reply to the method's own call, or from the last
 * look. */
static lks_item *changed_item(answer *a, const char *group, const char *sku)
{
    const transfer *t = transfer_of(a);

    return t->n_buckets > 0 ? look_whole_item(a->arena, &t->look, t->group, 0)
                            : stock_item(a, answer_at(a, a->replies[0], 1), answer_group(group, sku), sku);
}

void put_item_finish(const lks_put_item_request *request, answer *a, lks_put_item_response *response)
{
    response->item = changed_item(a, request->group, request->sku);
}

/* ---- GetItem ---- */

static transfer_step items_looked(answer *a, transfer *t)
{
    if (!transfer_look_is_done(t))
        return TRANSFER_LOOK;
    return look_found_any(&t->look) ? TRANSFER_DONE : transfer_ask_group(a, t);
}

void get_item_prepare(const lks_get_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_name_or_empty(p, "group", request->group);
    if (plan_failed(p))
        return;
    transfer *t = transfer_begin(p, answer_group(request->group, request->sku));
    if (t->n_buckets > 0) {
        transfer_plan_look(p, t, (const char *const *)&request->sku, 1, items_looked);
        return;
    }
    plan_call(p, &fn_stock_get_items, request->group, request->sku, 1);
    each_stock_get_items(p, .sku = request->sku);
}

/* Returns the item in that place of a reply; NULL: none. */
static lks_item *found_item(answer *a, const store_value *reply, size_t i, const char *group, const char *sku)
{
    const store_value *view = answer_at(a, reply, i);

    return view->type == STORE_INTEGER ? NULL : stock_item(a, view, answer_group(group, sku), sku);
}

/* Returns the i-th item that was read from one group. */
static lks_item *read_item(answer *a, size_t i, const char *group, const char *sku)
{
    const transfer *t = transfer_of(a);

    return t->n_buckets > 0 ? look_whole_item(a->arena, &t->look, t->group, i)
                            : found_item(a, a->replies[0], 1 + i, group, sku);
}

void get_item_finish(const lks_get_item_request *request, answer *a, lks_get_item_response *response)
{
    response->item = read_item(a, 0, request->group, request->sku);
    if (!response->item)
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "sku: no such item");
}

/* ---- BatchGetItems ---- */

static void check_skus(plan *p, const char *const *skus, size_t n)
{
    if (n < 1 || n > SERVICE_BATCH_MAX)
        plan_invalid(p, "skus: must be 1 to %d", SERVICE_BATCH_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        plan_check_name(p, plan_path(p, "skus[%zu]", i), skus[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(skus[i], skus[j]) == 0)
                plan_invalid(p, "skus[%zu]: the same as skus[%zu]", i, j);
    }
}

/* Items of separate groups: a reply for each. Those in buckets are looked at one by one. */
static transfer_step batch_replied(answer *a, transfer *t)
{
    const lks_batch_get_items_request *request = (const lks_batch_get_items_request *)(const void *)t->request;

    if (request->group[0] != '\0')
        return TRANSFER_DONE;
    stock_new_list(a->arena, &t->list, request->n_skus);
    for (size_t i = 0; i < request->n_skus && a->error.code == LKS_OK; i++) {
        const char *sku = request->skus[i];
        if (answer_says(a->replies[i], "BUCKETED"))
            stock_list_bucketed(a->arena, &t->list, sku, sku, stock_buckets_in(a, a->replies[i]));
        else
            t->list.items[t->list.n++] = found_item(a, a->replies[i], 1, "", sku);
    }
    return stock_look_at_list(a, t);
}

void batch_get_items_prepare(const lks_batch_get_items_request *request, plan *p)
{
    const bool one_group = request->group[0] != '\0';

    check_skus(p, request->skus, request->n_skus);
    plan_check_name_or_empty(p, "group", request->group);
    if (plan_failed(p))
        return;
    transfer *t = one_group ? transfer_begin(p, request->group) : transfer_in(p);
    t->replied = batch_replied;
    if (one_group && t->n_buckets > 0) {
        transfer_plan_look(p, t, (const char *const *)request->skus, request->n_skus, items_looked);
        return;
    }
    if (one_group) {
        plan_call(p, &fn_stock_get_items, request->group, NULL, request->n_skus);
        plan_weighs(p, 1 + request->n_skus / STOCK_ITEMS_OF_WEIGHT);
    }
    for (size_t i = 0; i < request->n_skus; i++) {
        if (!one_group)
            plan_call(p, &fn_stock_get_items, "", request->skus[i], 1);
        each_stock_get_items(p, .sku = request->skus[i]);
    }
}

void batch_get_items_finish(const lks_batch_get_items_request *request, answer *a,
                            lks_batch_get_items_response *response)
{
    const bool one_group = request->group[0] != '\0';
    const transfer *t = transfer_of(a);

    response->items = memory_in(a->arena, request->n_skus * sizeof *response->items);
    for (size_t i = 0; i < request->n_skus && a->error.code == LKS_OK; i++) {
        lks_item *item = one_group ? read_item(a, i, request->group, request->skus[i]) : t->list.items[i];
        if (item)
            response->items[response->n_items++] = item;
    }
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
    transfer_in(p)->replied = pool_adjust_replied;
    if (pool_call(p, request->group, &request->sku, &fn_stock_adjust, 0, &version))
        args_stock_adjust(p, .sku = request->sku, .by = request->delta, .adjustment_id = request->adjustment_id,
                          .reason = request->reason, .expected_version = version);
}

void adjust_finish(const lks_adjust_request *request, answer *a, lks_adjust_response *response)
{
    response->item = changed_item(a, request->group, request->sku);
    response->replayed = pool_replayed(transfer_of(a));
}

/* ---- DeleteItem ---- */

void delete_item_prepare(const lks_delete_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    pool_delete_call(p, request->group, (const char *const *)&request->sku, request->expected_version);
}

void delete_item_finish(const lks_delete_item_request *request, answer *a, lks_delete_item_response *response)
{
    (void)request;
    (void)response;
    answer_at(a, a->replies[0], 0);
}

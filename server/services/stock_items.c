/* StockService: items, one by one. Invariant: an item in an answer is what one
 * function saw at one moment, and says which group it lives in. */
#include <stdio.h>
#include <string.h>

#include "services/stock.h"

enum { RETAIN_MIN_MS = 60000 };
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
    plan_call(p, &fn_stock_put_item, request->group, request->sku, 0);
    args_stock_put_item(p, .sku = request->sku, .total = request->on_hand, .buyer_limit = request->per_buyer_limit,
                        .opens_in_ms = request->opens_in_ms, .closes_in_ms = request->closes_in_ms,
                        .retain_ms = retain_ms, .must_be_new = request->must_be_new,
                        .expected_version = request->expected_version);
}

void put_item_finish(const lks_put_item_request *request, answer *a, lks_put_item_response *response)
{
    if (!stock_goes_on(a))
        response->item =
            stock_item(a, answer_at(a, a->replies[0], 1), answer_group(request->group, request->sku), request->sku);
}

/* ---- GetItem, BatchGetItems ---- */

void get_item_prepare(const lks_get_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
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
    if (stock_goes_on(a))
        return;
    response->item = found_item(a, a->replies[0], 1, request->group, request->sku);
    if (!response->item)
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
    if (plan_failed(p))
        return;
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

/* One reply of all skus, or a reply of each. */
void batch_get_items_finish(const lks_batch_get_items_request *request, answer *a,
                            lks_batch_get_items_response *response)
{
    bool one_group = request->group[0] != '\0';

    if (stock_goes_on(a))
        return;
    response->items = memory_in(a->arena, request->n_skus * sizeof *response->items);
    for (size_t i = 0; i < request->n_skus && a->error.code == LKS_OK; i++) {
        const store_value *reply = a->replies[one_group ? 0 : i];
        lks_item *item = found_item(a, reply, one_group ? 1 + i : 1, request->group, request->skus[i]);
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
    plan_call(p, &fn_stock_adjust, request->group, request->sku, 0);
    args_stock_adjust(p, .sku = request->sku, .by = request->delta, .adjustment_id = request->adjustment_id,
                      .reason = request->reason, .expected_version = request->expected_version);
}

void adjust_finish(const lks_adjust_request *request, answer *a, lks_adjust_response *response)
{
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a))
        return;
    response->item = stock_item(a, answer_at(a, reply, 1), answer_group(request->group, request->sku), request->sku);
    response->replayed = answer_int(a, reply, 2) != 0;
}

/* ---- DeleteItem ---- */

void delete_item_prepare(const lks_delete_item_request *request, plan *p)
{
    plan_check_name(p, "sku", request->sku);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    plan_call(p, &fn_stock_delete_item, request->group, request->sku, 0);
    args_stock_delete_item(p, .sku = request->sku, .expected_version = request->expected_version);
}

void delete_item_finish(const lks_delete_item_request *request, answer *a, lks_delete_item_response *response)
{
    (void)request;
    (void)response;
    if (!stock_goes_on(a))
        answer_at(a, a->replies[0], 0);
}

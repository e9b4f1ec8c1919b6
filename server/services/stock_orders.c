/* StockService, what becomes of an order: Confirm, ExtendHold, Cancel, Return, GetOrder.
 * Invariant: an order in an answer is what one function saw at one moment, and says which
 * group it lives in. */
#include "services/stock_buckets.h"

/* The order that a function gave as `view_order` (functions/stock_base.lua). */
static lks_order *read_order(answer *a, const store_value *view, const char *group, const char *order_id)
{
    enum { HEAD = 3, LINE = 3 }; /* state, hold_ms, buyer; then sku, quantity, returned of each line */
    size_t count = answer_count(a, view), n = count < HEAD ? 0 : (count - HEAD) / LINE;
    lks_order *order = memory_in(a->arena, sizeof *order);

    *order = (lks_order)LKS_ORDER_INIT;
    order->group = group;
    order->order_id = order_id;
    order->state = (lks_order_state)answer_enum(a, view, 0, &lockstock__v1__order_state__descriptor);
    order->hold_ms = answer_int(a, view, 1);
    order->buyer_id = answer_text(a, view, 2);
    order->lines = answer_messages(a, &lockstock__v1__order_line__descriptor, n);
    order->n_lines = n;
    for (size_t i = 0; i < n; i++) {
        order->lines[i]->sku = answer_text(a, view, HEAD + LINE * i);
        order->lines[i]->quantity = answer_int(a, view, HEAD + LINE * i + 1);
        order->lines[i]->returned = answer_int(a, view, HEAD + LINE * i + 2);
    }
    return order;
}

/* The order of a reply {outcome, replayed, view}; NULL where the reply has none. */
static lks_order *told_order(answer *a, const char *group, const char *order_id)
{
    const store_value *reply = a->replies[0];

    return answer_count(a, reply) == 2 ? NULL : read_order(a, answer_at(a, reply, 2), group, order_id);
}

/* ---- Confirm ---- */

/* A hold that was over is to be had again: what its bucket lacks comes from the others, if they have it. When they do not,
 * the bucket is asked once more, and what it says is the answer. */
static void pull_lines(answer *a, const lks_order *order)
{
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    const char **skus = memory_in(a->arena, order->n_lines * sizeof *skus);
    int64_t *wanted = memory_in(a->arena, order->n_lines * sizeof *wanted);

    if (b->n == 0 || b->looked || a->error.code != LKS_OK)
        return;
    for (size_t i = 0; i < order->n_lines; i++) {
        skus[i] = order->lines[i]->sku;
        wanted[i] = order->lines[i]->quantity;
    }
    buckets_pull(a, b, stock_bucket_of(order->order_id, b->n), skus, wanted, order->n_lines);
}

void confirm_prepare(const lks_confirm_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    stock_call(p, &fn_stock_confirm, request->group, NULL, request->order_id, 0);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    args_stock_confirm(p, .id = request->order_id, .again = request->reacquire_if_expired);
}

void confirm_finish(const lks_confirm_request *request, answer *a, lks_confirm_response *response)
{
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a))
        return;
    if (b->is_short && !b->looked) {
        b->looked = true;
        buckets_go_on(a, b, stock_ask_again);
        return;
    }
    response->outcome = (lks_confirm_outcome)answer_enum(a, reply, 0, &lockstock__v1__confirm_outcome__descriptor);
    if (response->outcome == LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER && stock_asks_group(a))
        return;
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = told_order(a, request->group, request->order_id);
    if (response->outcome == LKS_CONFIRM_OUTCOME_SOLD_OUT)
        pull_lines(a, response->order);
}

/* ---- ExtendHold ---- */

void extend_hold_prepare(const lks_extend_hold_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    stock_call(p, &fn_stock_extend_hold, request->group, NULL, request->order_id, 0);
    args_stock_extend_hold(p, .id = request->order_id, .hold_ms = request->hold_ms);
}

void extend_hold_finish(const lks_extend_hold_request *request, answer *a, lks_extend_hold_response *response)
{
    const store_value *reply = a->replies[0];
    (void)request;

    if (stock_goes_on(a))
        return;
    response->outcome =
        (lks_extend_hold_outcome)answer_enum(a, reply, 0, &lockstock__v1__extend_hold_outcome__descriptor);
    if (response->outcome == LKS_EXTEND_HOLD_OUTCOME_UNKNOWN_ORDER && stock_asks_group(a))
        return;
    response->hold_ms = answer_int(a, reply, 1);
    if (response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED)
        answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms);
}

/* ---- Cancel ---- */

static void plan_cancel(const lks_cancel_request *request, plan *p, const plan_function *function)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);
    stock_call(p, function, request->group, NULL, request->order_id, 0);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    args_stock_cancel(p, .id = request->order_id, .reason = request->reason);
}

void cancel_prepare(const lks_cancel_request *request, plan *p)
{
    plan_cancel(request, p, &fn_stock_cancel);
}

static void cancel_unseen(const ProtobufCMessage *request, plan *p)
{
    plan_cancel((const lks_cancel_request *)(const void *)request, p, &fn_stock_cancel_unseen);
}

void cancel_finish(const lks_cancel_request *request, answer *a, lks_cancel_response *response)
{
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a))
        return;
    if (answer_says(reply, "UNSEEN")) {
        if (!stock_asks_group(a))
            answer_again(a, cancel_unseen);
        return;
    }
    response->outcome = (lks_cancel_outcome)answer_enum(a, reply, 0, &lockstock__v1__cancel_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = told_order(a, request->group, request->order_id);
}

/* ---- Return ---- */

void return_prepare(const lks_return_request *request, plan *p)
{
    plan_check_name(p, "return_id", request->return_id);
    plan_check_name(p, "order_id", request->order_id);
    stock_check_lines(p, request->lines, request->n_lines);
    stock_call(p, &fn_stock_return, request->group, request->n_lines == 1 ? request->lines[0]->sku : NULL,
               request->order_id, request->n_lines);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    args_stock_return(p, .return_id = request->return_id, .id = request->order_id);
    for (size_t i = 0; i < request->n_lines; i++)
        each_stock_return(p, .sku = request->lines[i]->sku, .quantity = request->lines[i]->quantity);
}

void return_finish(const lks_return_request *request, answer *a, lks_return_response *response)
{
    const store_value *reply = a->replies[0];
    const char *group = answer_group(request->group, request->n_lines ? request->lines[0]->sku : request->group);

    if (stock_goes_on(a))
        return;
    response->outcome = (lks_return_outcome)answer_enum(a, reply, 0, &lockstock__v1__return_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    if (response->outcome == LKS_RETURN_OUTCOME_UNKNOWN_ORDER && stock_asks_group(a))
        return;
    response->order = told_order(a, group, request->order_id);
}

/* ---- GetOrder ---- */

void get_order_prepare(const lks_get_order_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    stock_call(p, &fn_stock_get_order, request->group, NULL, request->order_id, 0);
    args_stock_get_order(p, .order_id = request->order_id);
}

void get_order_finish(const lks_get_order_request *request, answer *a, lks_get_order_response *response)
{
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a))
        return;
    if (answer_count(a, reply) == 1 && stock_asks_group(a))
        return;
    if (answer_count(a, reply) == 1)
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "order_id: no such order");
    else
        response->order = read_order(a, answer_at(a, reply, 1), request->group, request->order_id);
}

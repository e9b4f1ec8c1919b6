/* StockService: Confirm, ExtendHold, Cancel, Return, GetOrder. Invariant: an order in an answer is the state that one
 * function saw at one moment. */
#include "services/stock.h"

/* Reads the order that a function returned as `view_order` (functions/stock_base.lua). */
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

/* Reads the order of a reply {outcome, replayed, view}; NULL: the reply has none. */
static lks_order *replied_order(answer *a, const char *group, const char *order_id)
{
    const store_value *reply = a->replies[0];

    return answer_count(a, reply) == 2 ? NULL : read_order(a, answer_at(a, reply, 2), group, order_id);
}

/* ---- Confirm ---- */

static transfer_step confirm_pulled(answer *a, transfer *t)
{
    const transfer_step next = transfer_pull(a, t);

    if (next != TRANSFER_DONE)
        return next;
    t->order.asked_again = true;
    return TRANSFER_CALL;
}

/* An expired hold must be reserved again, and the other buckets may have the units. If they do not, the order's bucket
 * is asked once more, and its reply is the answer. */
static transfer_step confirm_replied(answer *a, transfer *t)
{
    const lks_confirm_request *request = (const lks_confirm_request *)(const void *)t->request;
    transfer_order *o = &t->order;

    if (t->n_buckets == 0 || o->asked_again || !answer_says(a->replies[0], "SOLD_OUT"))
        return TRANSFER_DONE;
    const lks_order *order = replied_order(a, request->group, request->order_id);
    transfer_set_lines(a->arena, o, order->n_lines);
    for (size_t i = 0; i < o->n; i++) {
        o->skus[i] = order->lines[i]->sku;
        o->quantities[i] = order->lines[i]->quantity;
    }
    return transfer_need(t, stock_bucket_of(request->order_id, t->n_buckets), o->skus, o->n, o->quantities, 0,
                         confirm_pulled);
}

void confirm_prepare(const lks_confirm_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    transfer_call(p, &fn_stock_confirm, request->group, NULL, request->order_id, 0);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    args_stock_confirm(p, .id = request->order_id, .again = request->reacquire_if_expired);
    transfer_in(p)->replied = confirm_replied;
}

void confirm_finish(const lks_confirm_request *request, answer *a, lks_confirm_response *response)
{
    response->outcome =
        (lks_confirm_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__confirm_outcome__descriptor);
    response->replayed = answer_int(a, a->replies[0], 1) != 0;
    response->order = replied_order(a, request->group, request->order_id);
    bool sells = response->outcome == LKS_CONFIRM_OUTCOME_CONFIRMED && !response->replayed;
    for (size_t i = 0; sells && i < response->order->n_lines; i++)
        a->units += (uint64_t)response->order->lines[i]->quantity;
}

/* ---- ExtendHold ---- */

void extend_hold_prepare(const lks_extend_hold_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    transfer_call(p, &fn_stock_extend_hold, request->group, NULL, request->order_id, 0);
    args_stock_extend_hold(p, .id = request->order_id, .hold_ms = request->hold_ms);
}

void extend_hold_finish(const lks_extend_hold_request *request, answer *a, lks_extend_hold_response *response)
{
    const store_value *reply = a->replies[0];
    (void)request;

    response->outcome =
        (lks_extend_hold_outcome)answer_enum(a, reply, 0, &lockstock__v1__extend_hold_outcome__descriptor);
    response->hold_ms = answer_int(a, reply, 1);
    if (response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED)
        answer_lasting_alarm(a, a->plan->calls[0].base, fn_stock_expire.name, response->hold_ms);
}

/* ---- Cancel ---- */

/* Another function cancels an order that no bucket knows; it may run before the order arrives. */
static transfer_step cancel_replied(answer *a, transfer *t)
{
    if (!answer_says(a->replies[0], "UNSEEN"))
        return TRANSFER_DONE;
    t->order.unseen = true;
    return TRANSFER_CALL;
}

void cancel_prepare(const lks_cancel_request *request, plan *p)
{
    transfer *t = transfer_in(p);

    plan_check_name(p, "order_id", request->order_id);
    plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);
    transfer_call(p, t->order.unseen ? &fn_stock_cancel_unseen : &fn_stock_cancel, request->group, NULL,
                  request->order_id, 0);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    args_stock_cancel(p, .id = request->order_id, .reason = request->reason);
    t->replied = cancel_replied;
}

void cancel_finish(const lks_cancel_request *request, answer *a, lks_cancel_response *response)
{
    const store_value *reply = a->replies[0];

    response->outcome = (lks_cancel_outcome)answer_enum(a, reply, 0, &lockstock__v1__cancel_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = replied_order(a, request->group, request->order_id);
}

/* ---- Return ---- */

void return_prepare(const lks_return_request *request, plan *p)
{
    plan_check_name(p, "return_id", request->return_id);
    plan_check_name(p, "order_id", request->order_id);
    stock_check_lines(p, request->lines, request->n_lines);
    transfer_call(p, &fn_stock_return, request->group, request->n_lines == 1 ? request->lines[0]->sku : NULL,
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

    response->outcome = (lks_return_outcome)answer_enum(a, reply, 0, &lockstock__v1__return_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = replied_order(a, group, request->order_id);
}

/* ---- GetOrder ---- */

void get_order_prepare(const lks_get_order_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    transfer_call(p, &fn_stock_get_order, request->group, NULL, request->order_id, 0);
    args_stock_get_order(p, .order_id = request->order_id);
}

void get_order_finish(const lks_get_order_request *request, answer *a, lks_get_order_response *response)
{
    const store_value *reply = a->replies[0];

    if (answer_count(a, reply) == 1)
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "order_id: no such order");
    else
        response->order = read_order(a, answer_at(a, reply, 1), request->group, request->order_id);
}

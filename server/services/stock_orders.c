/* StockService, what becomes of an order: Confirm, ExtendHold, Cancel, Return, GetOrder.
 * Invariant: an order in an answer is what one function saw at one moment, and says which
 * group it lives in. */
#include "services/stock.h"

static void read_line(answer *a, const store_value *view, size_t at, lks_order *order)
{
    lks_order_line *line = answer_alloc(a, sizeof *line);

    if (!line)
        return;
    *line = (lks_order_line)LKS_ORDER_LINE_INIT;
    line->sku = answer_text(a, view, at);
    line->quantity = answer_int(a, view, at + 1);
    line->returned = answer_int(a, view, at + 2);
    order->lines[order->n_lines++] = line;
}

/* The order that a function gave as `view_order` (functions/stock_orders.lua). NULL when
 * out of memory, with the call failed. */
static lks_order *read_order(answer *a, const store_value *view, char *group, char *order_id)
{
    enum { HEAD = 3, LINE = 3 }; /* state, hold_ms, buyer; then sku, quantity, returned of each line */
    size_t count = answer_count(a, view), n = count < HEAD ? 0 : (count - HEAD) / LINE;
    lks_order *order = answer_alloc(a, sizeof *order);

    if (!order)
        return NULL;
    *order = (lks_order)LKS_ORDER_INIT;
    order->group = group;
    order->order_id = order_id;
    order->state = (lks_order_state)answer_enum(a, view, 0, &lockstock__v1__order_state__descriptor);
    order->hold_ms = answer_int(a, view, 1);
    order->buyer_id = answer_text(a, view, 2);
    if (n > 0 && !(order->lines = answer_alloc(a, n * sizeof *order->lines)))
        return NULL;
    for (size_t i = 0; i < n && a->error.code == LKS_OK; i++)
        read_line(a, view, HEAD + LINE * i, order);
    return order;
}

/* The order of a reply {outcome, replayed, view}; NULL where the reply has none. */
static lks_order *told_order(answer *a, char *group, char *order_id)
{
    const store_value *reply = a->replies[0];

    return answer_count(a, reply) == 2 ? NULL : read_order(a, answer_at(a, reply, 2), group, order_id);
}

/* ---- Confirm ---- */

void confirm_prepare(const lks_confirm_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_call(p, "stock_confirm", request->group, NULL, 2);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    plan_arg(p, request->order_id);
    plan_arg(p, request->reacquire_if_expired ? "1" : "0");
}

void confirm_finish(const lks_confirm_request *request, answer *a, lks_confirm_response *response)
{
    const store_value *reply = a->replies[0];

    if (stock_goes_on(a))
        return;
    response->outcome = (lks_confirm_outcome)answer_enum(a, reply, 0, &lockstock__v1__confirm_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = told_order(a, request->group, request->order_id);
}

/* ---- ExtendHold ---- */

void extend_hold_prepare(const lks_extend_hold_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    plan_call(p, "stock_extend_hold", request->group, NULL, 2);
    plan_arg(p, request->order_id);
    plan_arg_int(p, request->hold_ms);
}

void extend_hold_finish(const lks_extend_hold_request *request, answer *a, lks_extend_hold_response *response)
{
    const store_value *reply = a->replies[0];
    (void)request;

    response->outcome =
        (lks_extend_hold_outcome)answer_enum(a, reply, 0, &lockstock__v1__extend_hold_outcome__descriptor);
    response->hold_ms = answer_int(a, reply, 1);
    if (response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED)
        answer_chore(a, STOCK_EXPIRE, response->hold_ms);
}

/* ---- Cancel ---- */

static void plan_cancel(const lks_cancel_request *request, plan *p, const char *function)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);
    plan_call(p, function, request->group, NULL, 2);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    plan_arg(p, request->order_id);
    plan_arg(p, request->reason);
}

void cancel_prepare(const lks_cancel_request *request, plan *p)
{
    plan_cancel(request, p, "stock_cancel");
}

static void cancel_unseen(const ProtobufCMessage *request, plan *p)
{
    plan_cancel((const lks_cancel_request *)(const void *)request, p, "stock_cancel_unseen");
}

void cancel_finish(const lks_cancel_request *request, answer *a, lks_cancel_response *response)
{
    const store_value *reply = a->replies[0];

    if (answer_says(reply, "UNSEEN")) {
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
    plan_call(p, "stock_return", request->group, request->n_lines == 1 ? request->lines[0]->sku : NULL,
              2 + 2 * request->n_lines);
    plan_weighs(p, STOCK_ORDER_WEIGHT);
    plan_arg(p, request->return_id);
    plan_arg(p, request->order_id);
    stock_arg_lines(p, request->lines, request->n_lines);
}

void return_finish(const lks_return_request *request, answer *a, lks_return_response *response)
{
    const store_value *reply = a->replies[0];
    char *group = request->group[0] != '\0' ? request->group : request->lines[0]->sku;

    response->outcome = (lks_return_outcome)answer_enum(a, reply, 0, &lockstock__v1__return_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    response->order = told_order(a, group, request->order_id);
}

/* ---- GetOrder ---- */

void get_order_prepare(const lks_get_order_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_call(p, "stock_get_order", request->group, NULL, 1);
    plan_arg(p, request->order_id);
}

void get_order_finish(const lks_get_order_request *request, answer *a, lks_get_order_response *response)
{
    const store_value *reply = a->replies[0];

    if (answer_count(a, reply) == 1)
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "order_id: no such order");
    else
        response->order = read_order(a, answer_at(a, reply, 1), request->group, request->order_id);
}

/* StockService: its table, and orders. Invariant: a request that reaches the
 * store is valid by itself (names, quantities, no sku twice), so that the
 * functions check only what depends on the state. */
#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>

#include "services/stock.h"

void *stock_alloc(answer *a, size_t size)
{
    void *memory = lks_rpc_arena_alloc(a->arena, size);

    if (!memory)
        lks_error_set(&a->error, LKS_RESOURCE_EXHAUSTED, lks_rpc_applied_of(a->plan->method), "out of memory");
    return memory;
}

/* ---- Deduct ---- */

/* One line of an order, and whether its sku stands in an earlier one. */
static void check_line(plan *p, lks_line *const *lines, size_t i)
{
    char field[48];

    snprintf(field, sizeof field, "lines[%zu].sku", i);
    plan_check_name(p, field, lines[i]->sku);
    for (size_t j = 0; j < i; j++)
        if (strcmp(lines[i]->sku, lines[j]->sku) == 0)
            plan_invalid(p, "%s: the same as lines[%zu].sku", field, j);
    snprintf(field, sizeof field, "lines[%zu].quantity", i);
    plan_check_range(p, field, lines[i]->quantity, 1, SERVICE_QUANTITY_MAX);
}

static void check_lines(plan *p, lks_line *const *lines, size_t n)
{
    int64_t sum = 0;

    if (n < 1 || n > SERVICE_BATCH_MAX)
        plan_invalid(p, "lines: must be 1 to %d", SERVICE_BATCH_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        check_line(p, lines, i);
        if (lines[i]->quantity > SERVICE_QUANTITY_MAX - sum)
            plan_invalid(p, "lines[%zu].quantity: the sum of the quantities is over 2^53-1", i);
        else
            sum += lines[i]->quantity;
    }
}

static void deduct_prepare(const lks_deduct_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_check_name_or_empty(p, "buyer_id", request->buyer_id);
    check_lines(p, request->lines, request->n_lines);
    if (plan_failed(p))
        return;
    plan_call(p, "stock_deduct", request->group, request->n_lines == 1 ? request->lines[0]->sku : NULL,
              2 + 2 * request->n_lines);
    plan_arg(p, request->order_id);
    plan_arg(p, request->buyer_id);
    for (size_t i = 0; i < request->n_lines; i++) {
        plan_arg(p, request->lines[i]->sku);
        plan_arg_int(p, request->lines[i]->quantity);
    }
}

static void deduct_finish(const lks_deduct_request *request, answer *a, lks_deduct_response *response)
{
    const store_value *reply = a->replies[0];
    size_t n = answer_count(a, reply) / 2 - 1;
    (void)request;

    response->outcome = (lks_deduct_outcome)answer_enum(a, reply, 0, &lockstock__v1__deduct_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;
    if (a->error.code != LKS_OK || !(response->lines = stock_alloc(a, n * sizeof *response->lines)))
        return;
    for (size_t i = 0; i < n; i++) {
        lks_line_stock *line = stock_alloc(a, sizeof *line);
        if (!line)
            return;
        *line = (lks_line_stock)LKS_LINE_STOCK_INIT;
        line->sku = answer_text(a, reply, 2 + 2 * i);
        line->available = answer_int(a, reply, 3 + 2 * i);
        response->lines[response->n_lines++] = line;
    }
}

/* ---- GetOrder ---- */

static void get_order_prepare(const lks_get_order_request *request, plan *p)
{
    plan_check_name(p, "order_id", request->order_id);
    plan_call(p, "stock_get_order", request->group, NULL, 1);
    plan_arg(p, request->order_id);
}

static void get_order_finish(const lks_get_order_request *request, answer *a, lks_get_order_response *response)
{
    enum { HEAD = 3, LINE = 3 }; /* outcome, state, buyer; then sku, quantity, returned of each line */
    const store_value *reply = a->replies[0];

    if (answer_count(a, reply) == 1) {
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "order_id: no such order");
        return;
    }
    size_t n = (answer_count(a, reply) - HEAD) / LINE;
    lks_order *order = stock_alloc(a, sizeof *order);
    if (!order)
        return;
    *order = (lks_order)LKS_ORDER_INIT;
    order->group = request->group;
    order->order_id = request->order_id;
    order->state = (lks_order_state)answer_enum(a, reply, 1, &lockstock__v1__order_state__descriptor);
    order->buyer_id = answer_text(a, reply, 2);
    if (a->error.code != LKS_OK || !(order->lines = stock_alloc(a, n * sizeof *order->lines)))
        return;
    for (size_t i = 0; i < n; i++) {
        lks_order_line *line = stock_alloc(a, sizeof *line);
        if (!line)
            return;
        *line = (lks_order_line)LKS_ORDER_LINE_INIT;
        line->sku = answer_text(a, reply, HEAD + LINE * i);
        line->quantity = answer_int(a, reply, HEAD + LINE * i + 1);
        line->returned = answer_int(a, reply, HEAD + LINE * i + 2);
        order->lines[order->n_lines++] = line;
    }
    response->order = order;
}

/* ---- the table ---- */

SERVICE_UNIMPLEMENTED(reserve, lks_reserve_request, lks_reserve_response)
SERVICE_UNIMPLEMENTED(confirm, lks_confirm_request, lks_confirm_response)
SERVICE_UNIMPLEMENTED(extend_hold, lks_extend_hold_request, lks_extend_hold_response)
SERVICE_UNIMPLEMENTED(cancel, lks_cancel_request, lks_cancel_response)
SERVICE_UNIMPLEMENTED(return, lks_return_request, lks_return_response)

LKS_STOCK_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_STOCK_METHODS(SERVICE_ROW)};

const service stock_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};

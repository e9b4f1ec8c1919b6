/* deduct, deduct-hot, sold-out, reserve. */
#include <inttypes.h>
#include <stdio.h>

#include "scenario.h"

enum { HOLD_MS = 60000, RESERVE = 0, CONFIRM = 1 };

static void on_deduct(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_deduct_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0, false, error);
}

static lks_line one_of(op *o)
{
    lks_line line = LKS_LINE_INIT;

    line.sku = scenario_thing(o);
    line.quantity = 1;
    return line;
}

lks_code start_deduct(op *o, lks_error *error)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = one_of(o), *lines[] = {&line};

    request.order_id = o->id;
    request.lines = lines;
    request.n_lines = 1;
    request.fresh = true;
    return drive_call(o, &lks_stock_deduct_method, &request, o->call_options, on_deduct, error);
}

static void on_reserve(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_reserve_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0,
                response && response->outcome == LKS_RESERVE_OUTCOME_RESERVED, error);
}

static void on_confirm(op *o, lks_code code, const void *message, const lks_error *error)
{
    const lks_confirm_response *response = message;

    drive_ended(o, code, response ? (int)response->outcome : 0, false, error);
}

lks_code start_reserve(op *o, lks_error *error)
{
    if (o->step == RESERVE) {
        lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
        lks_line line = one_of(o), *lines[] = {&line};

        request.order_id = o->id;
        request.lines = lines;
        request.n_lines = 1;
        request.fresh = true;
        request.hold_ms = HOLD_MS;
        return drive_call(o, &lks_stock_reserve_method, &request, o->call_options, on_reserve, error);
    }
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = scenario_thing(o);
    request.order_id = o->id;
    return drive_call(o, &lks_stock_confirm_method, &request, o->call_options, on_confirm, error);
}

/* What the items say was sold is what the callers were told, but for calls of which nobody knows. */
bool check_stock(world *w, const tally *all, char text[CHECK_BYTES])
{
    uint64_t told = 0, sold = 0;
    lks_error error;

    for (unsigned i = 0; i < n_scenarios; i++) {
        if (scenarios[i].start == start_deduct)
            told += tally_of(all, &scenarios[i], 0, LKS_DEDUCT_OUTCOME_DEDUCTED);
        if (scenarios[i].start == start_reserve)
            told += tally_of(all, &scenarios[i], CONFIRM, LKS_CONFIRM_OUTCOME_CONFIRMED);
    }
    for (unsigned i = 0; i < w->n_things; i++) {
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        lks_get_item_response *response = NULL;
        request.sku = w->things[i];
        if (lks_stock_get_item(w->channel, &request, NULL, &response, &error) != LKS_OK) {
            snprintf(text, CHECK_BYTES, "cannot read an item: %.100s", error.message);
            return false;
        }
        sold += (uint64_t)response->item->sold;
        lks_get_item_response_free(response);
    }
    snprintf(text, CHECK_BYTES, "sold %" PRIu64 ", told %" PRIu64 ", in doubt %" PRIu64, sold, told, all->in_doubt);
    return sold >= told && sold <= told + all->in_doubt;
}

/* StockService: SOLD_OUT without asking the store. Invariant: what is answered from memory is what the store would have
 * answered to the same call at a moment that is at most REFUSAL_KNOWN_NS ago. So it is kept only of orders of one line whose
 * refusal was of the item alone, whoever buys (an item with a per-buyer limit is asked for each time), and answered only
 * to an order of one line that the caller says was never sent. What gives units back through this server ends it at once. */
#include <string.h>

#include "services/refusals.h"
#include "services/stock.h"

enum { PLACES = 4096 };

void *stock_open(const service_options *options)
{
    return options->remembers_refusals ? refusals_new(PLACES) : NULL;
}

void stock_close(void *state)
{
    refusals_free(state);
}

/* ---- what ends it ---- */

/* Those that give nothing back, but holds that are over: their end is seen within REFUSAL_KNOWN_NS in any case. */
static bool gives_nothing_back(const char *function)
{
    const char *const names[] = {
        fn_stock_deduct.name,      fn_stock_reserve.name,     fn_stock_confirm.name,      fn_stock_get_items.name,
        fn_stock_extend_hold.name, fn_stock_get_order.name,   fn_stock_list_group.name,   fn_stock_list_namespace.name,
        fn_stock_read_ledger.name, fn_stock_trim_ledger.name, fn_stock_await_ledger.name,
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return strncmp(function, "stock_", 6) != 0;
}

void stock_on_store_call(void *state, const store_call *call)
{
    if (!state || gives_nothing_back(call->function))
        return;
    if (strcmp(call->function, fn_stock_expire_listed.name) == 0)
        refusals_drop_all(state); /* of all groups that it finds */
    else
        refusals_drop(state, call->base);
}

/* ---- what is known ---- */

enum { KEY_PARTS = 3 };

static refusal_key key_of(const plan *p, const char *group, const char *sku, lks_rpc_slice part[KEY_PARTS])
{
    part[0] = p->ns;
    part[1] = lks_rpc_slice_of(group[0] == '\0' ? sku : group);
    part[2] = lks_rpc_slice_of(sku);
    return (refusal_key){.part = part, .n = KEY_PARTS};
}

bool stock_is_known_sold_out(plan *p, const char *group, lks_line *const *lines, size_t n)
{
    lks_rpc_slice part[KEY_PARTS];

    if (!p->state || n != 1)
        return false;
    refusal_key key = key_of(p, group, lines[0]->sku, part);
    const refusal *known = refusals_find(p->state, &key, p->now_ns);
    if (!known || lines[0]->quantity <= known->number[0])
        return false;
    int64_t *available = memory_in(p->arena, sizeof *available);
    *available = known->number[0];
    p->kept = available;
    return true;
}

lks_line_stock **stock_known_line(answer *a, const char *sku, size_t *ret_n)
{
    const int64_t *available = a->plan->kept;
    lks_line_stock **lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, 1);

    lines[0]->sku = sku;
    lines[0]->available = *available;
    *ret_n = 1;
    return lines;
}

void stock_learn(const answer *a, const char *group, const char *sku, bool sold_out, int64_t available)
{
    const plan *p = a->plan;
    lks_rpc_slice part[KEY_PARTS];

    if (!p->state)
        return;
    refusal_key key = key_of(p, group, sku, part);
    const refusal known = {
        .ask_ns = p->asked_ns + REFUSAL_ASK_NS, .until_ns = p->asked_ns + REFUSAL_KNOWN_NS, .number = {available}};
    if (sold_out)
        refusals_put(p->state, p->calls[0].base, &key, &known, a->now_ns);
    else
        refusals_forget(p->state, &key, a->now_ns);
}

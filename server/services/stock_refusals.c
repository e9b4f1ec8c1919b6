/* StockService: SOLD_OUT without asking the store. Invariant: what is answered from memory is what the store would have
 * answered to the same call at a moment that is at most REFUSAL_KNOWN_NS ago. So it is kept only of orders of one line whose
 * refusal was of the item alone, whoever buys (an item with a per-buyer limit is asked for each time), and answered only
 * to an order of one line that the caller says was never sent. What gives units back through this server ends it at once. */
#include <stdlib.h>
#include <string.h>

#include "services/refusals.h"
#include "services/stock_buckets.h"

enum { PLACES = 4096, BUCKET_PLACES = 256 };

void *stock_open(const service_options *options)
{
    stock_memory *memory = memory_alloc(sizeof *memory);

    memory->sold_out = options->remembers_refusals ? refusals_new(PLACES) : NULL;
    memory->buckets = refusals_new(BUCKET_PLACES);
    return memory;
}

void stock_close(void *state)
{
    stock_memory *memory = state;

    refusals_free(memory->sold_out);
    refusals_free(memory->buckets);
    free(memory);
}

/* ---- what ends it ---- */

/* Those that give nothing back, but holds that are over: their end is seen within REFUSAL_KNOWN_NS in any case. */
static bool gives_nothing_back(const char *function)
{
    const char *const names[] = {
        fn_stock_deduct.name,      fn_stock_reserve.name,     fn_stock_confirm.name,      fn_stock_get_items.name,
        fn_stock_extend_hold.name, fn_stock_get_order.name,   fn_stock_list_group.name,   fn_stock_list_namespace.name,
        fn_stock_read_ledger.name, fn_stock_trim_ledger.name, fn_stock_await_ledger.name, fn_stock_split.name,
        fn_stock_look.name,        fn_stock_send.name,        fn_stock_receive.name,      fn_stock_sent.name,
        fn_stock_set_bucket.name,
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return strncmp(function, "stock_", 6) != 0;
}

/* The part of a base that all buckets of its group share: "ls:{ns/group". */
static lks_rpc_slice group_of(lks_rpc_slice base)
{
    size_t slashes = 0, len = 0;

    while (len < base.len && base.data[len] != '}' && (base.data[len] != '/' || ++slashes < 2))
        len++;
    return (lks_rpc_slice){.data = base.data, .len = len};
}

void stock_on_store_call(void *state, const store_call *call)
{
    refusals *sold_out = ((stock_memory *)state)->sold_out;

    if (!sold_out || gives_nothing_back(call->function))
        return;
    if (strcmp(call->function, fn_stock_expire_listed.name) == 0)
        refusals_drop_all(sold_out); /* of all groups that it finds */
    else
        refusals_drop(sold_out, group_of(call->base));
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

static refusals *memory_of(const plan *p)
{
    return p->state ? ((stock_memory *)p->state)->sold_out : NULL;
}

bool stock_is_known_sold_out(const plan *p, const char *group, lks_line *const *lines, size_t n, int64_t *ret_available)
{
    refusals *sold_out = memory_of(p);
    lks_rpc_slice part[KEY_PARTS];

    if (!sold_out || n != 1)
        return false;
    refusal_key key = key_of(p, group, lines[0]->sku, part);
    const refusal *known = refusals_find(sold_out, &key, p->now_ns);
    if (!known || lines[0]->quantity <= known->number[0])
        return false;
    *ret_available = known->number[0];
    return true;
}

lks_line_stock **stock_known_line(answer *a, const char *sku, size_t *ret_n)
{
    const stock_kept *kept = a->plan->kept;
    lks_line_stock **lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, 1);

    lines[0]->sku = sku;
    lines[0]->available = kept->known;
    *ret_n = 1;
    return lines;
}

void stock_learn(const answer *a, const char *group, const char *sku, bool sold_out, int64_t available,
                 uint64_t asked_ns)
{
    const plan *p = a->plan;
    refusals *memory = memory_of(p);
    lks_rpc_slice part[KEY_PARTS];

    if (!memory)
        return;
    refusal_key key = key_of(p, group, sku, part);
    const refusal known = {
        .ask_ns = asked_ns + REFUSAL_ASK_NS, .until_ns = asked_ns + REFUSAL_KNOWN_NS, .number = {available}};
    if (sold_out)
        refusals_put(memory, group_of(p->calls[0].base), &key, &known, a->now_ns);
    else
        refusals_forget(memory, &key, a->now_ns);
}

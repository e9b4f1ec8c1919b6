/* StockService: SOLD_OUT without asking the store. Invariant: an answer from memory is the answer that the store would
 * have given to the same call at a moment at most REFUSAL_KNOWN_NS ago. So only refusals of orders of one line are
 * kept, and only if they do not depend on the buyer, as those of an item with a per-buyer limit do. They answer only
 * orders of one line that the caller marks as never sent. A call of StockService at this server that may return units
 * ends the memory at once. */
#include <stdlib.h>
#include <string.h>

#include "services/recent.h"
#include "services/stock.h"

enum { PLACES = 4096, BUCKET_PLACES = 256 };

void *stock_open(const service_options *options)
{
    stock_memory *memory = memory_alloc(sizeof *memory);

    memory->sold_out = options->remembers_refusals ? recent_new(PLACES) : NULL;
    memory->buckets = recent_new(BUCKET_PLACES);
    return memory;
}

void stock_close(void *state)
{
    stock_memory *memory = state;

    recent_free(memory->sold_out);
    recent_free(memory->buckets);
    free(memory);
}

/* ---- what ends the memory ---- */

/* Whether a function returns no units, other than those of expired holds, whose end is seen within REFUSAL_KNOWN_NS. */
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

/* Returns the part of a base that all buckets of its group share: "ls:{ns/group". */
static lks_rpc_slice group_of(lks_rpc_slice base)
{
    size_t slashes = 0, len = 0;

    while (len < base.len && base.data[len] != '}' && (base.data[len] != '/' || ++slashes < 2))
        len++;
    return (lks_rpc_slice){.data = base.data, .len = len};
}

void stock_on_store_call(void *state, const store_call *call)
{
    recent *sold_out = ((stock_memory *)state)->sold_out;

    if (!sold_out || gives_nothing_back(call->function))
        return;
    if (strcmp(call->function, fn_stock_expire_listed.name) == 0)
        recent_drop_all(sold_out); /* for all groups that it finds */
    else
        recent_drop(sold_out, group_of(call->base));
}

/* ---- what is known ---- */

static recent_key key_of(const plan *p, const char *group, const char *sku)
{
    return (recent_key){{p->ns, lks_rpc_slice_of(answer_group(group, sku)), lks_rpc_slice_of(sku)}, 3};
}

static recent *memory_of(const plan *p)
{
    return p->state ? ((stock_memory *)p->state)->sold_out : NULL;
}

bool stock_is_sold_out(const plan *p, const char *group, const transfer_order *order, int64_t *ret_available)
{
    recent *sold_out = memory_of(p);

    if (!sold_out || order->n != 1)
        return false;
    const recent_key key = key_of(p, group, order->skus[0]);
    const recent_fact *known = recent_find(sold_out, &key, p->now_ns);
    if (!known || order->quantities[0] <= known->number[0])
        return false;
    *ret_available = known->number[0];
    return true;
}

void stock_learn(const answer *a, const char *group, const char *sku, bool sold_out, int64_t available,
                 uint64_t asked_ns)
{
    const plan *p = a->plan;
    recent *memory = memory_of(p);

    if (!memory)
        return;
    const recent_key key = key_of(p, group, sku);
    const recent_fact known = {
        .ask_ns = asked_ns + REFUSAL_ASK_NS, .until_ns = asked_ns + REFUSAL_KNOWN_NS, .number = {available}};
    if (sold_out)
        recent_put(memory, group_of(p->calls[0].base), &key, &known, a->now_ns);
    else
        recent_forget(memory, &key, a->now_ns);
}

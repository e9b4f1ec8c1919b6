/* Called by sweep.c. */
#include "services/stock_home.h"

#include <stdlib.h>

#include "functions/arguments.h"
#include "memory.h"
#include "services/stock_place.h"

enum { BASE, SKU, TO, ID, UNITS, BORN, PARTS };

/* Returns the length of "ls:{namespace/group/n/name}:" up to the name; 0: another form. */
static size_t name_of(lks_rpc_slice base)
{
    size_t at = base.len;

    while (at > 0 && base.data[at - 1] != '/')
        at--;
    return at;
}

bool stock_home_plan(const store_value *move, lks_rpc_arena *arena, stock_home *ret)
{
    const store_value *part = move->element;

    if (move->type != STORE_ARRAY || move->n != PARTS)
        return false;
    for (size_t i = 0; i < PARTS; i++)
        if (part[i].type != STORE_STRING)
            return false;
    const size_t at = name_of(part[BASE].string);
    const unsigned long name =
        strtoul(memory_copy_in(arena, part[BASE].string.data + at, part[BASE].string.len - at), NULL, 10);
    const unsigned long to = strtoul(memory_copy_in(arena, part[TO].string.data, part[TO].string.len), NULL, 10);
    unsigned from = 0;
    while (from <= STOCK_BUCKETS_MAX && stock_bucket_name(from) != name)
        from++;
    if (at == 0 || from > STOCK_BUCKETS_MAX || to > STOCK_BUCKETS_MAX)
        return false;
    *ret = (stock_home){
        .args = {{part[SKU].string, lks_rpc_slice_of(memory_printf_in(arena, "%u", from)), part[TO].string,
                  part[ID].string, part[UNITS].string, part[BORN].string},
                 {part[SKU].string, part[TO].string, part[ID].string}},
    };
    ret->receive =
        (store_call){.base = lks_rpc_slice_of(memory_printf_in(arena, "%.*s%u}:", (int)at, part[BASE].string.data,
                                                               stock_bucket_name((unsigned)to))),
                     .function = fn_stock_receive.name,
                     .n_args = fn_stock_receive.n_args,
                     .args = ret->args[0],
                     .repeatable = true};
    ret->sent = (store_call){.base = part[BASE].string,
                             .function = fn_stock_sent.name,
                             .n_args = fn_stock_sent.n_args,
                             .args = ret->args[1],
                             .repeatable = true};
    return true;
}

/* Items of several groups, and functions for reads of items in buckets. */
#ifndef LOCKSTOCK_SERVER_STOCK_LIST_H
#define LOCKSTOCK_SERVER_STOCK_LIST_H

#include "services/stock.h"

void stock_new_list(lks_rpc_arena *arena, transfer_list *list, size_t max);

/* Adds an item to look at. Text is not copied. */
void stock_list_bucketed(lks_rpc_arena *arena, transfer_list *list, const char *group, const char *sku,
                         unsigned n_buckets);

/* Looks at the next item of t->list that is in buckets. DONE: none is left. */
transfer_step stock_look_at_list(answer *a, transfer *t);

#endif

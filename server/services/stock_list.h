/* Items of several groups, and what reads of items in buckets share. */
#ifndef LOCKSTOCK_SERVER_STOCK_LIST_H
#define LOCKSTOCK_SERVER_STOCK_LIST_H

#include "services/stock.h"

/* In `looked` of a read: false where the counts cannot be of one moment, which another look may mend. */
bool stock_look_is_done(const transfer *t);

void stock_new_list(lks_rpc_arena *arena, transfer_list *list, size_t max);

/* Adds an item that is to be looked at. Text is not copied. */
void stock_list_bucketed(lks_rpc_arena *arena, transfer_list *list, const char *group, const char *sku,
                         unsigned n_buckets);

/* Looks at the next item of t->list that is in buckets. DONE: there is none left. */
transfer_step stock_look_at_list(answer *a, transfer *t);

#endif

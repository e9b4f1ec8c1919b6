/* Finishes moves between buckets that a dead server has left unfinished (functions/stock_moves.lua). Pure. */
#ifndef LOCKSTOCK_SERVER_STOCK_HOME_H
#define LOCKSTOCK_SERVER_STOCK_HOME_H

#include "store/types.h"

enum { STOCK_HOME_ARGS = 6 };

/* Two calls: the destination receives the units and, after the reply {'OK'}, the source removes them. */
typedef struct stock_home {
    store_call receive, sent;
    lks_rpc_slice args[2][STOCK_HOME_ARGS];
} stock_home;

/* `move` is from the reply of stock_find_overdue; it and the arena must outlive the calls. Returns false if it is not a
 * move. */
bool stock_home_plan(const store_value *move, lks_rpc_arena *arena, stock_home *ret);

#endif

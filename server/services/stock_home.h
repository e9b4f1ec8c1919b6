/* Units that a server which died has left on their way between buckets (functions/stock_moves.lua). Pure. */
#ifndef LOCKSTOCK_SERVER_STOCK_HOME_H
#define LOCKSTOCK_SERVER_STOCK_HOME_H

#include "store/store.h"

enum { STOCK_HOME_ARGS = 6 };

/* Two calls, of which the second is to be made when the first has said {'OK'}: the destination takes the units, the
 * source forgets them. */
typedef struct stock_home {
    store_call receive, sent;
    lks_rpc_slice args[2][STOCK_HOME_ARGS];
} stock_home;

/* `move` is one of stock_find_overdue's; it, and the arena, must outlive the calls. False: it is not of a bucket. */
bool stock_home_plan(const store_value *move, lks_rpc_arena *arena, stock_home *ret);

#endif

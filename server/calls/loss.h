/* Detects that the store lost its data while the connection stayed up (FLUSHALL): then the store's mark is gone. No
 * function makes such a change, so waiting calls get no message about it. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_LOSS_H
#define LOCKSTOCK_SERVER_LOSS_H

#include <lockstock/status.h>

#include "store/store.h"
#include "calls/waiters.h"

typedef struct loss loss;

/* Wakes every waiter (waiters_missed) when that happens. */
loss *loss_new(store *store, waiters *waiters);

/* Asks each part of the store for its mark, unless such a call is under way. Call it when the store is connected. */
void loss_look_now(loss *l);

/* The same if any call waits. Call it every second. */
void loss_look(loss *l);

/* No store call may be under way. Takes NULL. */
void loss_free(loss *l);

#endif

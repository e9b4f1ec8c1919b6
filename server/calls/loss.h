/* Detects that the store lost its data while the connection stayed up (FLUSHALL): then the store's mark is gone. No
 * function makes such a change, so waiting calls get no message about it. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_LOSS_H
#define LOCKSTOCK_SERVER_LOSS_H

#include <lockstock/status.h>

#include "store/store.h"
#include "calls/waiters.h"

typedef struct loss loss;

/* When that happens: calls on_loss, with a text for people that is valid during the call, wakes every waiter
 * (waiters_missed), and writes the version of the data layout again. */
loss *loss_new(store *store, waiters *waiters, void (*on_loss)(void *arg, const char *text), void *arg);

/* Asks each part of the store for its mark, unless such a call is under way. Call it when the store is connected, and
 * then every second. */
void loss_look(loss *l);

/* How often that has happened. Takes NULL. */
uint64_t loss_found(const loss *l);

/* No store call may be under way. Takes NULL. */
void loss_free(loss *l);

#endif

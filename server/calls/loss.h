/* Detects that the store lost its data while the connection stayed up (FLUSHALL): then the store's mark is gone. No
 * function makes such a change, so waiting calls get no message about it. Makes one store call a second while any call
 * waits. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_LOSS_H
#define LOCKSTOCK_SERVER_LOSS_H

#include <lockstock/status.h>

#include "store/store.h"
#include "calls/waiters.h"

struct uv_loop_s;

typedef struct loss loss;

/* Wakes every waiter (waiters_missed) when that happens. */
loss *loss_new(struct uv_loop_s *loop, store *store, waiters *waiters);

/* The store is connected: asks now, even if no call waits, and periodically from now on. */
void loss_begin(loss *l);

/* Takes NULL. */
void loss_stop(loss *l);

/* No store call may be under way, and the waiters must not be closed yet. Freed on the next turn of the loop. Takes
 * NULL. */
void loss_close(loss *l);

#endif

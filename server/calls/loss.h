/* Notices that the store has lost what it kept although the connection to it lives
 * (FLUSHALL): a mark of its own is gone then. Who waits for a change would not hear of
 * that one, because no function made it. A call a second while anybody waits.
 * Loop thread only. */
#ifndef LOCKSTOCK_SERVER_LOSS_H
#define LOCKSTOCK_SERVER_LOSS_H

#include <lockstock/status.h>

#include "store/store.h"
#include "calls/waiters.h"

struct uv_loop_s;

typedef struct loss loss;

/* Wakes everyone (waiters_missed) when it notices. */
loss *loss_new(struct uv_loop_s *loop, store *store, waiters *waiters);

/* The store is heard: asks now, whether or not anybody waits, and from now on. */
void loss_begin(loss *l);

/* Asks no more. Takes NULL. */
void loss_stop(loss *l);

/* With no store call under way, before the waiters are closed. Freed when the loop has
 * run on. Takes NULL. */
void loss_close(loss *l);

#endif

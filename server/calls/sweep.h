/* Finds holds that have ended but that no server will expire, because the server that made them died. One server of all
 * walks the store's keys when the store connects, and at intervals, in bounded steps. Only the time of the expiry depends
 * on it: every reader already treats an ended hold as ended. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_SWEEP_H
#define LOCKSTOCK_SERVER_SWEEP_H

#include <stdint.h>

#include <lockstock/status.h>

#include "calls/alarms.h"
#include "store/store.h"

struct uv_loop_s;

typedef struct sweep sweep;

/* Every interval_ms a pass begins. */
sweep *sweep_new(struct uv_loop_s *loop, store *store, alarms *alarms, uint64_t interval_ms);

/* Begins a pass, unless one is under way. */
void sweep_begin(sweep *s);

/* No step begins from now on. Takes NULL. */
void sweep_stop(sweep *s);

/* No store call may be under way. Takes NULL. */
void sweep_close(sweep *s);

#endif

/* Finds holds that have ended but that no server will expire, because the server that made them died. One server at a
 * time walks the store's keys, when the store connects and at intervals, in bounded steps. This affects only the time
 * of the expiry: every reader already treats an ended hold as ended. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_SWEEP_H
#define LOCKSTOCK_SERVER_SWEEP_H

#include <stdint.h>

#include <lockstock/status.h>

#include "calls/alarms.h"
#include "store/store.h"

struct uv_loop_s;

typedef struct sweep sweep;

/* A pass begins every interval_ms. */
sweep *sweep_new(struct uv_loop_s *loop, store *store, alarms *alarms, uint64_t interval_ms);

/* Begins a pass, unless one is under way. */
void sweep_begin(sweep *s);

/* Begins no more steps. Takes NULL. */
void sweep_stop(sweep *s);

/* Call this when no store call is under way. Takes NULL. */
void sweep_close(sweep *s);

#endif

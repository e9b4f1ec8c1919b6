/* Finds work that no server has on its list of lasting alarms: a server that made a hold and
 * then died was to give it back in time. Each server looks through the store's keys
 * when it starts to hear it, and every so often, a bounded step at a time. Nothing
 * depends on it but how soon: whoever reads or reserves sees an ended hold as ended.
 * Loop thread only. */
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

/* With the store closed: no call of it is under way. Takes NULL. */
void sweep_close(sweep *s);

#endif

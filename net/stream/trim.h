/* After a peak of what a budget holds, memory that was freed goes back to the system: the C
 * library by itself keeps what lies under anything that is still used. Not at once, for a
 * load that swings needs it again. Loop thread only. */
#ifndef LOCKSTOCK_NET_TRIM_H
#define LOCKSTOCK_NET_TRIM_H

#include <stdint.h>

#include "net/admission/budget.h"

struct uv_loop_s;

typedef struct trim trim;

/* Looks each period_ms, once at least 8 MiB were held, until the freed memory was given back: that
 * is when a whole period passed with at most a quarter of the peak held. The budget outlives it. NULL
 * when out of memory. */
trim *trim_new(struct uv_loop_s *loop, budget *of, uint32_t period_ms);

/* `closed` runs on the loop when it is freed. */
void trim_close(trim *t, void (*closed)(void *arg), void *arg);

#endif

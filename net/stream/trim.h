/* After a peak of a budget, gives freed memory back to the system. The C library does not give back memory below memory
 * that is in use. Waits for a while first, because a varying load needs the memory again. Loop thread only. */
#ifndef LOCKSTOCK_NET_TRIM_H
#define LOCKSTOCK_NET_TRIM_H

#include <stdint.h>

#include "net/admission/budget.h"

struct uv_loop_s;

typedef struct trim trim;

/* Once 8 MiB or more were held, checks every period_ms, and gives memory back after a whole period with at most a
 * quarter of the peak. The budget must outlive it. NULL when out of memory. */
trim *trim_new(struct uv_loop_s *loop, budget *of, uint32_t period_ms);

/* `closed` runs on the loop when it is freed. */
void trim_close(trim *t, void (*closed)(void *arg), void *arg);

#endif

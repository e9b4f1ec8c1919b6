/* Timers of a libuv loop: a heap of timers on one uv_timer_t. Loop thread only. */
#ifndef LOCKSTOCK_NET_LOOP_TIMERS_H
#define LOCKSTOCK_NET_LOOP_TIMERS_H

#include <uv.h>

#include "base/heap.h"

/* To close: give `uv` to uv_close, and `heap` to heap_free afterwards. `uv.data` belongs to the owner. */
struct loop_timers {
    struct heap heap;
    uv_timer_t uv;
    uint64_t armed_ns; /* when `uv` fires, if it is active */
};

void loop_timers_init(struct loop_timers *timers, uv_loop_t *loop, void *owner);

/* Sets or moves a timer. heap_reserve must have made room for it. Its `due` runs from the loop, not before `at_ns`. */
void loop_timers_set(struct loop_timers *timers, struct timer *timer, uint64_t at_ns);

#endif

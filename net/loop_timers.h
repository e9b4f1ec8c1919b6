/* Timers of a libuv loop: a heap of them on one uv_timer_t. Loop thread only. */
#ifndef LOCKSTOCK_NET_LOOP_TIMERS_H
#define LOCKSTOCK_NET_LOOP_TIMERS_H

#include <uv.h>

#include "base/heap.h"

/* `uv` is to be given to uv_close, and `heap` to heap_free after that. `uv.data` is the
 * owner's. */
struct loop_timers {
    struct heap heap;
    uv_timer_t uv;
    uint64_t armed_ns; /* when `uv` fires, if it is active */
};

void loop_timers_init(struct loop_timers *timers, uv_loop_t *loop, void *owner);

/* Sets or moves a timer, for which there is room (heap_reserve). Its `due` runs from the
 * loop, not before the moment. */
void loop_timers_set(struct loop_timers *timers, struct timer *timer, uint64_t at_ns);

#endif

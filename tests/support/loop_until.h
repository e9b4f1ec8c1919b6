/* How tests that run a loop wait: loop_until runs it until a condition holds. */
#ifndef LOCKSTOCK_TESTS_LOOP_UNTIL_H
#define LOCKSTOCK_TESTS_LOOP_UNTIL_H

#include <stdbool.h>

#include <uv.h>

enum { LOOP_TICKS_MAX = 60000 };

static inline void loop_until_tick(uv_timer_t *timer)
{
    ++*(int *)timer->data;
}

/* False when it does not hold after LOOP_TICKS_MAX ticks of a millisecond, of which the loop makes fewer while it is
 * busy. The ticks also wake the loop: a condition may come true without an event. *ticks counts them from 0. */
static inline bool loop_until(uv_loop_t *loop, bool (*condition)(void *arg), void *arg, int *ticks)
{
    uv_timer_t timer;

    *ticks = 0;
    uv_timer_init(loop, &timer);
    timer.data = ticks;
    uv_timer_start(&timer, loop_until_tick, 1, 1);
    while (!condition(arg) && *ticks < LOOP_TICKS_MAX)
        uv_run(loop, UV_RUN_ONCE);
    bool holds = condition(arg);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    return holds;
}

#endif

/* Invariant: the timer runs exactly while the memory of the last `peak` was not given back to the system. Called
 * by wires.c. */
#include "net/stream/trim.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include <uv.h>

#include "net/close_barrier.h"

enum { PEAK_BYTES_MIN = 8 << 20, PART = 4 };

struct trim {
    uv_prepare_t turn_end;
    uv_timer_t timer;
    budget *of;
    uint32_t period_ms;
    size_t peak; /* 0: none */
    close_barrier closing;
};

/* Uses the most that was held in the period, not what is held now. */
static void on_timer(uv_timer_t *timer)
{
    trim *t = timer->data;
    size_t lately = budget_peak(t->of);

    if (lately > t->peak)
        t->peak = lately;
    if (lately > t->peak / PART)
        return;
    t->peak = 0;
    uv_timer_stop(timer);
    malloc_trim(0);
}

static void on_turn_end(uv_prepare_t *prepare)
{
    trim *t = prepare->data;

    if (t->peak > 0 || budget_held(t->of) < PEAK_BYTES_MIN)
        return;
    t->peak = budget_held(t->of);
    uv_timer_start(&t->timer, on_timer, t->period_ms, t->period_ms);
}

trim *trim_new(uv_loop_t *loop, budget *of, uint32_t period_ms)
{
    trim *t = malloc(sizeof *t);

    if (!t)
        return NULL;
    *t = (trim){.of = of, .period_ms = period_ms};
    uv_prepare_init(loop, &t->turn_end);
    uv_timer_init(loop, &t->timer);
    t->turn_end.data = t->timer.data = t;
    uv_prepare_start(&t->turn_end, on_turn_end);
    uv_unref((uv_handle_t *)&t->turn_end);
    uv_unref((uv_handle_t *)&t->timer);
    return t;
}

void trim_close(trim *t, void (*closed)(void *arg), void *arg)
{
    close_barrier_handle(&t->closing, &t->turn_end);
    close_barrier_handle(&t->closing, &t->timer);
    close_barrier_begin(&t->closing, t, free, closed, arg);
}

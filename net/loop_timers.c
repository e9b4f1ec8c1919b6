/* Invariant: while a timer is set, `uv` fires no later than the timer is due, rounded up to milliseconds. It may
 * fire too early after a timer was cleared or moved; then it is armed again. */
#include "net/loop_timers.h"

#include "base/clock.h"
#include "base/container.h"

static void on_timer(uv_timer_t *uv);

static void arm(struct loop_timers *timers)
{
    uint64_t first_ns = heap_next_ns(&timers->heap);

    if (first_ns == CLOCK_NEVER || (uv_is_active((uv_handle_t *)&timers->uv) && timers->armed_ns <= first_ns))
        return;
    uint64_t now_ns = clock_now_ns();
    uint64_t left_ns = first_ns > now_ns ? first_ns - now_ns : 0;
    timers->armed_ns = first_ns;
    uv_update_time(timers->uv.loop);
    uv_timer_start(&timers->uv, on_timer, (left_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS, 0);
}

static void on_timer(uv_timer_t *uv)
{
    struct loop_timers *timers = container_of(uv, struct loop_timers, uv);

    heap_run(&timers->heap);
    arm(timers);
}

void loop_timers_init(struct loop_timers *timers, uv_loop_t *loop, void *owner)
{
    *timers = (struct loop_timers){.armed_ns = 0};
    uv_timer_init(loop, &timers->uv);
    timers->uv.data = owner;
}

void loop_timers_set(struct loop_timers *timers, struct timer *timer, uint64_t at_ns)
{
    heap_set(&timers->heap, timer, at_ns);
    arm(timers);
}

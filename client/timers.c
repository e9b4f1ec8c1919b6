/* Invariant: heap[i]->place == i, and no timer is earlier than its parent
 * heap[i / 2] (J. W. J. Williams, Algorithm 232: Heapsort, 1964). */
#include "timers.h"

#include <stdlib.h>

#include "clock.h"

bool timers_init(struct timers *timers, size_t capacity)
{
    timers->n = 0;
    timers->heap = calloc(capacity + 1, sizeof *timers->heap);
    return timers->heap != NULL;
}

void timers_fini(struct timers *timers)
{
    free(timers->heap);
    timers->heap = NULL;
}

bool timers_reserve(struct timers *timers, size_t capacity)
{
    struct timer **heap = realloc(timers->heap, (capacity + 1) * sizeof *heap);

    if (heap == NULL)
        return false;
    timers->heap = heap;
    return true;
}

static void put(struct timers *timers, struct timer *timer, size_t place)
{
    timers->heap[place] = timer;
    timer->place = place;
}

/* Finds the place of a timer for which `place` is free. */
static void settle(struct timers *timers, struct timer *timer, size_t place)
{
    while (place > 1 && timers->heap[place / 2]->at_ns > timer->at_ns) {
        put(timers, timers->heap[place / 2], place);
        place /= 2;
    }
    for (;;) {
        size_t child = 2 * place;

        if (child < timers->n && timers->heap[child + 1]->at_ns < timers->heap[child]->at_ns)
            child++;
        if (child > timers->n || timers->heap[child]->at_ns >= timer->at_ns)
            break;
        put(timers, timers->heap[child], place);
        place = child;
    }
    put(timers, timer, place);
}

void timers_set(struct timers *timers, struct timer *timer, uint64_t at_ns)
{
    timer->at_ns = at_ns;
    settle(timers, timer, timer->place != 0 ? timer->place : ++timers->n);
}

void timers_clear(struct timers *timers, struct timer *timer)
{
    size_t place = timer->place;

    if (place == 0)
        return;
    timer->place = 0;
    struct timer *last = timers->heap[timers->n--];
    if (last != timer)
        settle(timers, last, place);
}

struct timer *timers_first(const struct timers *timers)
{
    return timers->n != 0 ? timers->heap[1] : NULL;
}

uint64_t timers_next_ns(const struct timers *timers)
{
    return timers->n != 0 ? timers->heap[1]->at_ns : CLOCK_NEVER;
}

void timers_run(struct timers *timers)
{
    while (timers->n != 0 && timers->heap[1]->at_ns <= clock_now_ns()) {
        struct timer *timer = timers->heap[1];

        timers_clear(timers, timer);
        timer->due(timer);
    }
}

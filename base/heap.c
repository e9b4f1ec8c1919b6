/* Invariant: timers[i]->place == i, and no timer is earlier than its parent timers[i / 2]
 * (J. W. J. Williams, Algorithm 232: Heapsort, 1964). */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

enum { ROOM_MIN = 16 };

bool heap_reserve(struct heap *heap, size_t timers)
{
    if (timers <= heap->room)
        return true;
    size_t room = heap->room < ROOM_MIN ? ROOM_MIN : 2 * heap->room;
    room = room > timers ? room : timers;
    struct heap_entry *grown = realloc(heap->timers, (room + 1) * sizeof *grown);
    if (!grown)
        return false;
    heap->timers = grown;
    heap->room = room;
    return true;
}

void heap_free(struct heap *heap)
{
    free(heap->timers);
    *heap = (struct heap){0};
}

static void put(struct heap *heap, const struct heap_entry *entry, size_t place)
{
    heap->timers[place] = *entry;
    entry->timer->place = place;
}

/* Puts an entry into the free `place`, and moves it to its proper place. */
static void settle(struct heap *heap, struct heap_entry entry, size_t place)
{
    while (place > 1 && heap->timers[place / 2].at_ns > entry.at_ns) {
        put(heap, &heap->timers[place / 2], place);
        place /= 2;
    }
    for (;;) {
        size_t child = 2 * place;

        if (child < heap->n && heap->timers[child + 1].at_ns < heap->timers[child].at_ns)
            child++;
        if (child > heap->n || heap->timers[child].at_ns >= entry.at_ns)
            break;
        put(heap, &heap->timers[child], place);
        place = child;
    }
    put(heap, &entry, place);
}

void heap_set(struct heap *heap, struct timer *timer, uint64_t at_ns)
{
    timer->at_ns = at_ns;
    if (timer->place == 0) {
        assert(heap->n < heap->room);
        timer->place = ++heap->n;
    }
    settle(heap, (struct heap_entry){at_ns, timer}, timer->place);
}

void heap_clear(struct heap *heap, struct timer *timer)
{
    size_t place = timer->place;

    if (place == 0)
        return;
    timer->place = 0;
    struct heap_entry last = heap->timers[heap->n--];
    if (last.timer != timer)
        settle(heap, last, place);
}

struct timer *heap_first(const struct heap *heap)
{
    return heap->n != 0 ? heap->timers[1].timer : NULL;
}

uint64_t heap_next_ns(const struct heap *heap)
{
    return heap->n != 0 ? heap->timers[1].at_ns : CLOCK_NEVER;
}

void heap_run(struct heap *heap)
{
    while (heap->n != 0 && heap->timers[1].at_ns <= clock_now_ns()) {
        struct timer *timer = heap->timers[1].timer;

        heap_clear(heap, timer);
        timer->due(timer);
    }
}

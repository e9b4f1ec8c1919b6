/* Invariant: a parent is never later than its children, and every member knows
 * its place. Used by pipeline.c. */
#include "store/wakes.h"

#include <stdlib.h>

#include "memory.h"

static void put(wakes *all, size_t place, wake *w)
{
    all->heap[place] = w;
    w->place = place;
}

static void rise(wakes *all, wake *w)
{
    size_t place = w->place;

    for (; place > 1 && all->heap[place / 2]->at_ns > w->at_ns; place /= 2)
        put(all, place, all->heap[place / 2]);
    put(all, place, w);
}

static void sink(wakes *all, wake *w)
{
    size_t place = w->place;

    for (size_t child; (child = place * 2) <= all->n; place = child) {
        if (child < all->n && all->heap[child + 1]->at_ns < all->heap[child]->at_ns)
            child++;
        if (all->heap[child]->at_ns >= w->at_ns)
            break;
        put(all, place, all->heap[child]);
    }
    put(all, place, w);
}

void wakes_set(wakes *all, wake *w, uint64_t at_ns)
{
    w->at_ns = at_ns;
    if (w->place == 0) {
        if (all->n + 1 >= all->room) {
            all->room = all->room ? all->room * 2 : 64;
            all->heap = memory_grow(all->heap, all->room * sizeof *all->heap);
        }
        put(all, ++all->n, w);
    }
    rise(all, w);
    sink(all, w);
}

void wakes_remove(wakes *all, wake *w)
{
    size_t place = w->place;
    wake *last;

    if (place == 0)
        return;
    w->place = 0;
    last = all->heap[all->n--];
    if (last == w)
        return;
    put(all, place, last);
    rise(all, last);
    sink(all, last);
}

wake *wakes_first(const wakes *all)
{
    return all->n > 0 ? all->heap[1] : NULL;
}

void wakes_clear(wakes *all)
{
    free(all->heap);
    *all = (wakes){0};
}

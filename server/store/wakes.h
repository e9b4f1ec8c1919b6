/* The next thing due: a binary heap of moments, so that thousands of calls share
 * one timer. Members live inside the caller's own structs. */
#ifndef LOCKSTOCK_SERVER_STORE_WAKES_H
#define LOCKSTOCK_SERVER_STORE_WAKES_H

#include <stddef.h>
#include <stdint.h>

typedef struct wake {
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    size_t place;   /* in the heap, from 1; 0 = not in it */
} wake;

typedef struct wakes {
    wake **heap; /* heap[1] is the earliest */
    size_t n, room;
} wakes;

/* Puts it in, or moves it, to this moment. */
void wakes_set(wakes *wakes, wake *w, uint64_t at_ns);

/* Takes it out, if it is in. */
void wakes_remove(wakes *wakes, wake *w);

/* The earliest; NULL = none. */
wake *wakes_first(const wakes *wakes);

void wakes_clear(wakes *wakes);

#endif

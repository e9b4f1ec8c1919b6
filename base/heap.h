/* Timers of one thread, the earliest first: a binary heap, so that thousands of calls
 * share one timer of the system. A timer is a member of the object that it belongs to. */
#ifndef LOCKSTOCK_BASE_HEAP_H
#define LOCKSTOCK_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    uint64_t at_ns;                   /* CLOCK_MONOTONIC */
    size_t place;                     /* in the heap, from 1; 0 = not set */
    void (*due)(struct timer *timer); /* for heap_run */
};

/* Must be zero at first. */
struct heap {
    struct heap_entry {
        uint64_t at_ns; /* a copy of the timer's, so that comparing does not read the timers */
        struct timer *timer;
    } * timers; /* timers[1] is the earliest; timers[0] is not used */
    size_t n, room;
};

/* Makes room for that many timers, so that setting them cannot fail; never shrinks. Returns false and changes nothing
 * when out of memory. */
bool heap_reserve(struct heap *heap, size_t timers);

/* Frees the heap and clears all timers. */
void heap_free(struct heap *heap);

/* Sets a timer, for which there must be room, or moves one that is set. */
void heap_set(struct heap *heap, struct timer *timer, uint64_t at_ns);

/* Does nothing to a timer that is not set. */
void heap_clear(struct heap *heap, struct timer *timer);

/* The earliest; NULL when none is set. */
struct timer *heap_first(const struct heap *heap);

/* When the first is due; CLOCK_NEVER when none is set. */
uint64_t heap_next_ns(const struct heap *heap);

/* Clears each timer that is due and runs its `due`, which may set and clear any. */
void heap_run(struct heap *heap);

#endif

/* Timers of one thread, the earliest first: a binary heap, so that thousands of calls
 * share one timer of the system. A timer is embedded in what it belongs to. */
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

/* Zero at first. */
struct heap {
    struct heap_entry {
        uint64_t at_ns; /* the timer's: comparing does not touch what timers belong to */
        struct timer *timer;
    } * timers; /* timers[1] is the earliest; timers[0] is not used */
    size_t n, room;
};

/* Makes room for that many timers, so that setting them cannot fail; never for fewer than
 * before. False, and nothing is changed, when out of memory. */
bool heap_reserve(struct heap *heap, size_t timers);

/* Forgets the timers. */
void heap_free(struct heap *heap);

/* Sets a timer, for which there is room, or moves one that is set. */
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

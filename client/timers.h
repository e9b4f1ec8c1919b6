/* Timers of one thread: a binary heap of fixed capacity, so that setting a timer
 * cannot fail. A timer is embedded in what it belongs to. */
#ifndef LOCKSTOCK_CLIENT_TIMERS_H
#define LOCKSTOCK_CLIENT_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    uint64_t at_ns;
    size_t place; /* in the heap, from 1; 0 = not set */
    void (*due)(struct timer *timer);
};

struct timers {
    struct timer **heap; /* heap[0] is not used */
    size_t n;
};

/* False when out of memory. At most `capacity` timers may be set at a time. */
bool timers_init(struct timers *timers, size_t capacity);
void timers_fini(struct timers *timers);

/* Makes it hold up to `capacity` timers, no fewer than before; false, and nothing is
 * changed, when out of memory. */
bool timers_reserve(struct timers *timers, size_t capacity);

/* Sets a timer, or moves one that is set. */
void timers_set(struct timers *timers, struct timer *timer, uint64_t at_ns);

/* Does nothing to a timer that is not set. */
void timers_clear(struct timers *timers, struct timer *timer);

/* The earliest; NULL when none is set. */
struct timer *timers_first(const struct timers *timers);

/* When the first is due; CLOCK_NEVER when none is set. */
uint64_t timers_next_ns(const struct timers *timers);

/* Clears each timer that is due and runs its `due`, which may set and clear any. */
void timers_run(struct timers *timers);

#endif

/* How fast calls leave a queue, and so how long a further call would stay in it. A call that would stay too long is
 * refused when it arrives, not when its time is over. So a queue is never longer than its calls can use, and a refusal
 * takes only milliseconds (Nichols and Jacobson, Controlling Queue Delay, 2012, bound a queue by time for the same
 * reason). Times are CLOCK_MONOTONIC; the caller reads the clock. */
#ifndef LOCKSTOCK_BASE_PACE_H
#define LOCKSTOCK_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Must be zero at first. */
typedef struct pace {
    uint64_t ns;       /* from one call to the next; 0: not known */
    uint64_t since_ns; /* when the current window began */
    uint32_t calls;
} pace;

/* Begins a new measurement, because the queue was empty. */
void pace_begin(pace *p, uint64_t now_ns);

/* A call left the queue to be served. */
void pace_note(pace *p, uint64_t now_ns);

/* How long a call would queue behind `calls` calls; 0 while the pace is not known. */
uint64_t pace_expected_ns(const pace *p, uint64_t calls);

/* Whether queue_ns is too long for a call with left_ns left: more than 1 / part of it. */
bool pace_too_long(uint64_t queue_ns, uint64_t left_ns, unsigned part);

#endif

/* Frees an object once its handles and its parts have closed. A member of the object's struct, zero at first. Loop
 * thread only.
 *
 *   close_barrier_add for each --> close_barrier_begin --the last has closed--> `release`, then `closed`
 */
#ifndef LOCKSTOCK_NET_CLOSE_BARRIER_H
#define LOCKSTOCK_NET_CLOSE_BARRIER_H

#include <stdbool.h>
#include <stddef.h>

#include <uv.h>

typedef struct close_barrier {
    size_t open; /* handles and parts that have not closed */
    bool begun;
    void *owner;
    void (*release)(void *owner);
    void (*closed)(void *arg);
    void *arg;
} close_barrier;

/* One more handle or part must close first. */
void close_barrier_add(close_barrier *b);

/* A part has closed. `barrier` is a close_barrier; the type lets this function serve as the `closed` callback of
 * parts. */
void close_barrier_done(void *barrier);

/* Adds a handle and closes it. The barrier uses its `data` from then on. */
void close_barrier_handle(close_barrier *b, void *uv_handle);

/* Once everything has closed, at once if it has, `release` frees the owner, and then `closed` runs. Call it last:
 * the owner may be gone when it returns. */
void close_barrier_begin(close_barrier *b, void *owner, void (*release)(void *owner), void (*closed)(void *arg),
                         void *arg);

#endif

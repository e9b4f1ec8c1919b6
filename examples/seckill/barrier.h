/* Makes a race happen every time: a worker stops at one named point of what it does,
 * the others go on as far as the script wants, then it goes on too, or is dead. */
#ifndef SECKILL_BARRIER_H
#define SECKILL_BARRIER_H

#include <pthread.h>
#include <stdbool.h>

/* A naive lock | lockstock. */
typedef enum barrier_point {
    POINT_NOWHERE,
    POINT_TAKEN,  /* between SETNX and EXPIRE | granted, before the answer is read */
    POINT_LOOKED, /* between GET and GETSET | before Acquire is sent */
    POINT_INSIDE, /* in the critical section, before the lock is taken once more */
    POINT_LEAVES, /* before DEL | before Release */
} barrier_point;

typedef enum barrier_state { BARRIER_AHEAD, BARRIER_THERE, BARRIER_OPEN, BARRIER_DEADLY } barrier_state;

typedef struct barrier {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    barrier_point point;
    barrier_state state;
} barrier;

void barrier_init(barrier *b, barrier_point point);
void barrier_destroy(barrier *b);

/* The worker is at `point`. Returns at once unless this is where it stops, and has not
 * stopped yet; else blocks until barrier_open or barrier_kill. False: it is dead, and
 * does nothing more. */
bool barrier_reach(barrier *b, barrier_point point);

/* The worker came to its end; the script must not wait for it any longer. */
void barrier_pass(barrier *b);

/* Waits until the worker has stopped; false: it came to its end without. */
bool barrier_await(barrier *b);

/* Lets a worker that stopped go on; or not. */
void barrier_open(barrier *b);
void barrier_kill(barrier *b);

#endif

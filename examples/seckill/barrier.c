/* A worker stops at most once.
 *
 *   AHEAD --reach--> THERE --open--> OPEN
 *     |                \-----kill--> DEADLY
 *     \--pass--> OPEN */
#include "barrier.h"

void barrier_init(barrier *b, barrier_point point)
{
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->point = point;
    b->state = BARRIER_AHEAD;
}

void barrier_destroy(barrier *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->mutex);
}

bool barrier_reach(barrier *b, barrier_point point)
{
    bool alive = true;

    pthread_mutex_lock(&b->mutex);
    if (b->point == point && b->state == BARRIER_AHEAD) {
        b->state = BARRIER_THERE;
        pthread_cond_broadcast(&b->changed);
        while (b->state == BARRIER_THERE)
            pthread_cond_wait(&b->changed, &b->mutex);
        alive = b->state == BARRIER_OPEN;
    }
    pthread_mutex_unlock(&b->mutex);
    return alive;
}

static void move(barrier *b, barrier_state from, barrier_state to)
{
    pthread_mutex_lock(&b->mutex);
    if (b->state == from) {
        b->state = to;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->mutex);
}

void barrier_pass(barrier *b)
{
    move(b, BARRIER_AHEAD, BARRIER_OPEN);
}

void barrier_open(barrier *b)
{
    move(b, BARRIER_THERE, BARRIER_OPEN);
}

void barrier_kill(barrier *b)
{
    move(b, BARRIER_THERE, BARRIER_DEADLY);
}

bool barrier_await(barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    while (b->state == BARRIER_AHEAD)
        pthread_cond_wait(&b->changed, &b->mutex);
    bool there = b->state == BARRIER_THERE;
    pthread_mutex_unlock(&b->mutex);
    return there;
}

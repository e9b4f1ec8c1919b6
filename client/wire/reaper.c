/* Invariant: a thread runs exactly while there is something to close; sockets are
 * closed in the order in which they came, so two counts tell which are. */
#include "client/wire/reaper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_S = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed_one = PTHREAD_COND_INITIALIZER;
static struct reaper_item *first, **end = &first;
static uint64_t given, closed;
static bool running, hangs; /* hangs: once waited in vain, nobody waits again until one is closed */

static void *close_all(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (first) {
        struct reaper_item *next = first;

        first = next->next;
        if (!first)
            end = &first;
        pthread_mutex_unlock(&lock);
        nng_close(next->socket);
        free(next);
        pthread_mutex_lock(&lock);
        closed++;
        hangs = false;
        pthread_cond_broadcast(&closed_one);
    }
    running = false;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The process' signals are not for this thread. False = no thread, try when the next
 * comes. */
static bool start(void)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    bool started = pthread_create(&thread, &detached, close_all, NULL) == 0;
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void reaper_close(struct reaper_item *item)
{
    pthread_mutex_lock(&lock);
    item->next = NULL;
    *end = item;
    end = &item->next;
    given++;
    if (!running)
        running = start();
    pthread_mutex_unlock(&lock);
}

void reaper_wait(void)
{
    struct timespec until;
    int failed = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&lock);
    uint64_t all = given;
    while (closed < all && !hangs && failed == 0)
        failed = pthread_cond_timedwait(&closed_one, &lock, &until);
    hangs = closed < all;
    pthread_mutex_unlock(&lock);
}

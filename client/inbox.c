/* Invariant: `end` points at the last item's `next`, or at `first` when empty;
 * the driver is signalled only when it sleeps. */
#include "inbox.h"

#include <time.h>

#include "clock.h"

bool inbox_init(struct inbox *inbox)
{
    pthread_condattr_t monotonic;

    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool made = pthread_cond_init(&inbox->filled, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (!made)
        return false;
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->first = NULL;
    inbox->end = &inbox->first;
    inbox->asleep = inbox->closed = false;
    return true;
}

void inbox_fini(struct inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
    pthread_cond_destroy(&inbox->filled);
}

void inbox_push(struct inbox *inbox, inbox_item *item)
{
    pthread_mutex_lock(&inbox->lock);
    if (!inbox->closed) {
        item->next = NULL;
        *inbox->end = item;
        inbox->end = &item->next;
    }
    if (inbox->asleep) {
        inbox->asleep = false;
        pthread_cond_signal(&inbox->filled);
    }
    pthread_mutex_unlock(&inbox->lock);
}

void inbox_raise(struct inbox *inbox, inbox_signal *signal)
{
    if (!atomic_exchange(&signal->raised, true))
        inbox_push(inbox, &signal->item);
}

void inbox_lower(inbox_signal *signal)
{
    atomic_store(&signal->raised, false);
}

void inbox_close(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
}

inbox_item *inbox_take(struct inbox *inbox, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                             .tv_nsec = (long)(until_ns % 1000000000)};
    int failed = 0;

    pthread_mutex_lock(&inbox->lock);
    while (inbox->first == NULL && until_ns != 0 && failed == 0) {
        inbox->asleep = true;
        if (until_ns == CLOCK_NEVER)
            failed = pthread_cond_wait(&inbox->filled, &inbox->lock);
        else
            failed = pthread_cond_timedwait(&inbox->filled, &inbox->lock, &until);
    }
    inbox->asleep = false;
    inbox_item *items = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
    return items;
}

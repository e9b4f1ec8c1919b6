/* Invariant: `end` points at the last item's `next`, or at `first` when empty; the
 * descriptor is written only while the driver sleeps, once. */
#include "inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

bool inbox_init(struct inbox *inbox)
{
    *inbox = (struct inbox){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    inbox->end = &inbox->first;
    pthread_mutex_init(&inbox->lock, NULL);
    return inbox->wake_fd >= 0;
}

void inbox_fini(struct inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
    if (inbox->wake_fd >= 0)
        close(inbox->wake_fd);
}

void inbox_push(struct inbox *inbox, inbox_item *item)
{
    pthread_mutex_lock(&inbox->lock);
    if (!inbox->closed) {
        item->next = NULL;
        *inbox->end = item;
        inbox->end = &item->next;
        if (inbox->asleep) {
            inbox->asleep = false;
            inbox->woken = true;
            eventfd_write(inbox->wake_fd, 1);
        }
    }
    pthread_mutex_unlock(&inbox->lock);
}

bool inbox_sleep(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    bool empty = inbox->first == NULL;
    inbox->asleep = empty;
    pthread_mutex_unlock(&inbox->lock);
    return empty;
}

inbox_item *inbox_take(struct inbox *inbox)
{
    eventfd_t count;

    pthread_mutex_lock(&inbox->lock);
    if (inbox->woken)
        eventfd_read(inbox->wake_fd, &count);
    inbox->asleep = inbox->woken = false;
    inbox_item *items = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
    return items;
}

void inbox_close(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
}

/* What other threads tell a channel's driver thread. Any thread pushes, the driver
 * alone takes, in the order of pushing. Items are embedded in what they are about, so
 * pushing cannot fail; an item is in the inbox at most once. The inbox's lock is the
 * innermost of the library: nothing is called under it.
 *
 * The driver sleeps in poll(2), on wake_fd among others:
 *
 *     inbox_sleep() -> poll, or not -> inbox_take() */
#ifndef LOCKSTOCK_CLIENT_INBOX_H
#define LOCKSTOCK_CLIENT_INBOX_H

#include <pthread.h>
#include <stdbool.h>

typedef struct inbox_item {
    struct inbox_item *next;
    void (*run)(struct inbox_item *item); /* on the driver thread; may free the item */
} inbox_item;

struct inbox {
    pthread_mutex_t lock;
    inbox_item *first;
    inbox_item **end;
    int wake_fd;        /* becomes readable when an item arrives during sleep */
    bool asleep, woken; /* woken: wake_fd is readable */
    bool closed;
};

/* False when the system has no descriptor to give. */
bool inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

void inbox_push(struct inbox *inbox, inbox_item *item);

/* False when there is something to take: the driver is not to sleep. */
bool inbox_sleep(struct inbox *inbox);

/* The chain of all items, NULL when there is none. Does not block. */
inbox_item *inbox_take(struct inbox *inbox);

/* Forgets what is in it, and from now on what is pushed: items may be freed. */
void inbox_close(struct inbox *inbox);

#endif

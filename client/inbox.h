/* What other threads tell a channel's driver thread. Any thread pushes, the
 * driver alone takes, in the order of pushing. Items are embedded in what they
 * are about, so pushing cannot fail; an item is in the inbox at most once. The
 * inbox's lock is the innermost of the library: nothing is called under it. */
#ifndef LOCKSTOCK_CLIENT_INBOX_H
#define LOCKSTOCK_CLIENT_INBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct inbox_item {
    struct inbox_item *next;
    void (*run)(struct inbox_item *item); /* on the driver thread; may free the item */
} inbox_item;

/* An item that says only "look again": raised any number of times, run once for all
 * that came before. */
typedef struct inbox_signal {
    inbox_item item;
    atomic_bool raised;
} inbox_signal;

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    inbox_item *first;
    inbox_item **end;
    bool asleep; /* the driver waits on `filled` */
    bool closed;
};

/* False when the system has no more locks to give. */
bool inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

void inbox_push(struct inbox *inbox, inbox_item *item);

void inbox_raise(struct inbox *inbox, inbox_signal *signal);

/* To be called first when a signal's item runs. */
void inbox_lower(inbox_signal *signal);

/* Forgets what is in it, and from now on what is pushed: items may be freed. */
void inbox_close(struct inbox *inbox);

/* Waits until there is an item or `until_ns` (CLOCK_NEVER, 0 = does not wait)
 * has come. Returns the chain of all items, NULL when there is none. */
inbox_item *inbox_take(struct inbox *inbox, uint64_t until_ns);

#endif

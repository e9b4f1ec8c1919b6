/* What other threads tell a channel's driver thread, and the descriptors that it looks at.
 * Any thread pushes, the driver alone takes, in the order of pushing. Items are embedded in
 * what they are about, so pushing cannot fail; an item is in the inbox at most once. The
 * inbox's lock is the innermost of the library: nothing is called under it. */
#ifndef LOCKSTOCK_CLIENT_INBOX_H
#define LOCKSTOCK_CLIENT_INBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

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

/* A descriptor that the driver looks at while it waits. */
typedef struct inbox_source {
    TAILQ_ENTRY(inbox_source) in_list;
    int fd;
    short events, found; /* of poll(2) */
    void (*ready)(struct inbox_source *source, short found);
} inbox_source;

enum { INBOX_SOURCES_MAX = 128 };

struct inbox {
    pthread_mutex_t lock;
    inbox_item *first;
    inbox_item **end;
    int wake_fd;
    bool asleep; /* the driver waits for wake_fd, which nobody has written to yet */
    bool woken;  /* wake_fd is readable */
    bool closed;

    TAILQ_HEAD(, inbox_source) sources; /* the driver's */
    size_t n_sources;
};

/* False when the system has no more descriptors to give. */
bool inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

void inbox_push(struct inbox *inbox, inbox_item *item);

void inbox_raise(struct inbox *inbox, inbox_signal *signal);

/* To be called first when a signal's item runs. */
void inbox_lower(inbox_signal *signal);

/* Forgets what is in it, and from now on what is pushed: items may be freed. */
void inbox_close(struct inbox *inbox);

/* Waits until there is an item, a source is ready, or `until_ns` (CLOCK_NEVER, 0 = does
 * not wait) has come. Returns the chain of all items, NULL when there is none. */
inbox_item *inbox_take(struct inbox *inbox, uint64_t until_ns);

/* Driver: looks at a source from now on; false when there are too many. */
bool inbox_watch(struct inbox *inbox, inbox_source *source);
void inbox_unwatch(struct inbox *inbox, inbox_source *source);

/* Driver: runs `ready` of each source that inbox_take has found to be. */
void inbox_run_ready(struct inbox *inbox);

#endif

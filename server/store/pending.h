/* A submitted call and lists of them. */
#ifndef LOCKSTOCK_SERVER_STORE_PENDING_H
#define LOCKSTOCK_SERVER_STORE_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "store/store.h"

/* The states of pipeline.c's drawing; where a call is kept in each. */
typedef enum phase {
    PENDING_QUEUED,    /* the queue */
    PENDING_OUT,       /* a batch */
    PENDING_HELD,      /* a confirm; it has its answer */
    PENDING_ABANDONED, /* a batch or a confirm; its caller was told */
    PENDING_PAUSED,    /* nowhere but in the heap of timers, where QUEUED, OUT and HELD ones are too */
    PENDING_REFUSED    /* the refused ones */
} phase;

typedef struct pending {
    struct timer timer; /* first: a timer is its call */
    struct pipeline *pipeline;
    struct pending *previous, *next;
    store_call call;
    size_t bytes;
    uint64_t deadline_ns;
    store_done *done;
    void *arg;
    phase phase;
    bool exposed;      /* it was sent on a connection that was lost, or too few replicas have what it did */
    store_result held; /* of HELD */
    bool reloaded;     /* its function was missing once */
    /* A node did not have its slot: from now on it goes with calls of its base alone, so that it is told where that is. */
    bool alone;
    const struct errors_row *refusal; /* why it is sent again: refused, or not confirmed; static; NULL: neither */
    unsigned moves;                   /* how often a node said MOVED */
} pending;

typedef struct pending_list {
    pending *first, *last;
    size_t n;
    size_t weight; /* of its calls; who shares no FCALL fills one */
} pending_list;

void pending_push(pending_list *list, pending *p);
void pending_remove(pending_list *list, pending *p);

/* The first one, taken out; NULL = none. */
pending *pending_pop(pending_list *list);

#endif

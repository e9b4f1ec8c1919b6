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
    PENDING_HELD,      /* a confirm, with its answer */
    PENDING_ABANDONED, /* a batch or a confirm; its deadline was reported */
    PENDING_PAUSED,    /* only the heap of timers, where QUEUED, OUT and HELD calls are too */
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
    bool exposed;      /* it may have taken effect: its connection was lost, or too few replicas confirmed it */
    store_result held; /* of HELD */
    bool reloaded;     /* its function was missing once */
    bool alone; /* ELSEWHERE: it shares an FCALL only with calls of its base, so that Redis says where the slot is */
    const struct errors_row *refusal; /* why it is sent again; static; NULL: it is not */
    unsigned moves;                   /* MOVED replies */
} pending;

typedef struct pending_list {
    pending *first, *last;
    size_t n;
    size_t weight; /* of its calls; one that shares no FCALL counts as a full one */
} pending_list;

void pending_push(pending_list *list, pending *p);
void pending_remove(pending_list *list, pending *p);

/* Removes and returns the first call; NULL = none. */
pending *pending_pop(pending_list *list);

#endif

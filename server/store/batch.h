/* Submitted calls, lists of them, and the FCALLs that they share. */
#ifndef LOCKSTOCK_SERVER_STORE_BATCH_H
#define LOCKSTOCK_SERVER_STORE_BATCH_H

#include "base/heap.h"
#include "store/connection.h"

/* The states that pipeline.c draws. Each comment says where a call is kept. */
typedef enum phase {
    PENDING_QUEUED,    /* the queue */
    PENDING_OUT,       /* a batch */
    PENDING_HELD,      /* a confirm, with its answer */
    PENDING_ABANDONED, /* a batch or a confirm; its deadline was reported */
    PENDING_PAUSED,    /* only the heap of timers, which also has QUEUED, OUT and HELD calls */
    PENDING_REFUSED    /* the list `refused` */
} phase;

typedef struct pending {
    struct timer timer;
    struct pipeline *pipeline;
    struct pending *previous, *next;
    store_call call;
    size_t bytes;
    uint64_t deadline_ns;
    store_done *done;
    void *arg;
    phase phase;
    bool may_have_run; /* it may have taken effect: its connection was lost, or too few replicas confirmed it */
    store_result held; /* the result, while HELD */
    bool reloaded;     /* the function was missing once */
    bool alone; /* after ELSEWHERE: it shares an FCALL only with calls of its base, so that Redis reports the node of
                 * the slot */
    const struct errors_row *refusal; /* why it is sent again; static; NULL: not sent again */
    unsigned moves;                   /* number of MOVED replies */
} pending;

typedef struct pending_list {
    pending *first, *last;
    size_t n;
    size_t weight; /* of its calls; a call that does not share an FCALL counts as STORE_WEIGHT_MAX */
} pending_list;

void pending_push(pending_list *list, pending *p);
void pending_remove(pending_list *list, pending *p);

/* Removes and returns the first call; NULL = none. */
pending *pending_pop(pending_list *list);

/* An FCALL blocks Redis while its calls run, so it is kept short. A call that may share one weighs at least 1. */
enum { BATCH_CALLS_MAX = STORE_WEIGHT_MAX, BATCH_BYTES_MAX = 256 * 1024, BATCH_BUCKETS = 256 };

struct pipeline;
struct confirm;

typedef struct batch {
    struct pipeline *pipeline;
    struct confirm *confirm; /* the confirm that its answers wait for; NULL: none */
    connection *link;        /* the connection that it was sent over */
    pending_list calls;      /* in the order of the sub-calls */
    size_t bytes;
    struct batch *next;        /* the next batch of the turn */
    struct batch *same_bucket; /* the next batch of its bucket */
} batch;

/* The batches of one loop turn; zeroed at first. */
typedef struct gathering {
    batch *first, *last;
    batch *bucket[BATCH_BUCKETS];
} gathering;

/* Adds a call to a batch that it may share, or to a new one. */
void batch_gather(gathering *gathering, struct pipeline *pipeline, pending *p);

/* Appends the FCALL to the connection; `on_reply` gets the batch, and frees it. */
void batch_send(batch *batch, connection *link, const char *digest, bool cluster, connection_reply *on_reply);

#endif

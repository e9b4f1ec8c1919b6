/* Puts calls that may share an FCALL together, and sends it. */
#ifndef LOCKSTOCK_SERVER_STORE_BATCH_H
#define LOCKSTOCK_SERVER_STORE_BATCH_H

#include "store/connection.h"
#include "store/pending.h"

/* An FCALL blocks Redis while its calls run, so it stays short. A call that may share one weighs at least 1. */
enum { BATCH_CALLS_MAX = STORE_WEIGHT_MAX, BATCH_BYTES_MAX = 256 * 1024, BATCH_BUCKETS = 256 };

struct pipeline;
struct confirm;

typedef struct batch {
    struct pipeline *pipeline;
    struct confirm *confirm; /* which its answers wait for; NULL: none */
    connection *link;        /* that it was sent over */
    pending_list calls;      /* in the order of the sub-calls */
    size_t bytes;
    struct batch *next;        /* of one turn */
    struct batch *same_bucket; /* the next one that may take calls */
} batch;

/* The batches of one loop turn; zero at first. */
typedef struct gathering {
    batch *first, *last;
    batch *bucket[BATCH_BUCKETS];
} gathering;

/* Adds a call to a batch that it may share, or to a new one. */
void batch_gather(gathering *gathering, struct pipeline *pipeline, pending *p);

/* Appends the FCALL to the connection; `on_reply` gets the batch, and frees it. */
void batch_send(batch *batch, connection *link, const char *digest, bool cluster, connection_reply *on_reply);

#endif

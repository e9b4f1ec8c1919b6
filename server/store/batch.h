/* One FCALL and the calls it carries: gathering and sending. */
#ifndef LOCKSTOCK_SERVER_STORE_BATCH_H
#define LOCKSTOCK_SERVER_STORE_BATCH_H

#include "store/connection.h"
#include "store/pending.h"

/* A combined FCALL holds Redis for all its calls: it stays short. None weighs less than 1. */
enum { BATCH_CALLS_MAX = STORE_WEIGHT_MAX, BATCH_BYTES_MAX = 256 * 1024, BATCH_BUCKETS = 256 };

struct pipeline;
struct confirm;

typedef struct batch {
    struct pipeline *pipeline;
    struct confirm *confirm; /* that its answers wait for; NULL: none */
    connection *link;        /* that it was sent over */
    pending_list calls;      /* in the order of the sub-calls */
    size_t bytes;
    struct batch *next;        /* of one turn */
    struct batch *same_bucket; /* that may still take calls */
} batch;

/* What one turn sends. Zeroed at first. */
typedef struct gathering {
    batch *first, *last;
    batch *bucket[BATCH_BUCKETS];
} gathering;

/* Adds a call to a batch that it may share, or to a new one. */
void batch_gather(gathering *gathering, struct pipeline *pipeline, pending *p);

/* Appends the FCALL to the connection; `on_reply` gets the batch, and frees it. */
void batch_send(batch *batch, connection *link, const char *digest, bool cluster, connection_reply *on_reply);

#endif

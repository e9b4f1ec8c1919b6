/* Invariant: calls share a batch only if they call the same function and allow it, and their weight is at most
 * STORE_WEIGHT_MAX together. Calls of one function and one base are sent in the order in which they came. */
#include "store/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "memory.h"
#include "store/fcall.h"

/* ---- lists ------------------------------------------------------------------- */

static size_t weight_of(const pending *p)
{
    return p->call.weight > 0 ? p->call.weight : STORE_WEIGHT_MAX;
}

void pending_push(pending_list *list, pending *p)
{
    p->previous = list->last;
    p->next = NULL;
    if (list->last)
        list->last->next = p;
    else
        list->first = p;
    list->last = p;
    list->n++;
    list->weight += weight_of(p);
}

void pending_remove(pending_list *list, pending *p)
{
    if (p->previous)
        p->previous->next = p->next;
    else
        list->first = p->next;
    if (p->next)
        p->next->previous = p->previous;
    else
        list->last = p->previous;
    list->n--;
    list->weight -= weight_of(p);
}

pending *pending_pop(pending_list *list)
{
    pending *p = list->first;

    if (p)
        pending_remove(list, p);
    return p;
}

/* ---- batches ----------------------------------------------------------------- */

static bool may_share(const pending *a, const pending *b)
{
    return a->alone == b->alone && (!a->alone || fcall_same_base(&a->call, &b->call)) &&
           strcmp(a->call.function, b->call.function) == 0;
}

static size_t bucket_of(const pending *p)
{
    return hash_folded(hash_more(HASH_START, p->call.function, strlen(p->call.function))) % BATCH_BUCKETS;
}

static batch *new_batch(gathering *g, struct pipeline *pipeline)
{
    batch *b = memory_alloc(sizeof *b);

    b->pipeline = pipeline;
    if (g->last)
        g->last->next = b;
    else
        g->first = b;
    g->last = b;
    return b;
}

static bool has_room(const batch *b, const pending *p)
{
    return b->calls.weight + p->call.weight <= STORE_WEIGHT_MAX && b->bytes + p->bytes <= BATCH_BYTES_MAX;
}

void batch_gather(gathering *g, struct pipeline *pipeline, pending *p)
{
    batch *b = NULL;

    if (p->call.weight > 0) {
        batch **bucket = &g->bucket[bucket_of(p)];
        /* Only the newest batch: in an older one the call would overtake others. */
        for (b = *bucket; b && !may_share(b->calls.first, p); b = b->same_bucket)
            ;
        if (!b || !has_room(b, p)) {
            b = new_batch(g, pipeline);
            b->same_bucket = *bucket;
            *bucket = b;
        }
    } else {
        b = new_batch(g, pipeline);
    }
    pending_push(&b->calls, p);
    b->bytes += p->bytes;
}

void batch_send(batch *b, connection *link, const char *digest, bool cluster, connection_reply *on_reply)
{
    const store_call *calls[BATCH_CALLS_MAX];
    size_t n = 0;

    for (const pending *p = b->calls.first; p; p = p->next)
        calls[n++] = &p->call;
    b->link = link;
    fcall *f = fcall_new(calls, n, digest, cluster);
    connection_command(link, on_reply, b, f->bytes, f->len);
    free(f);
}

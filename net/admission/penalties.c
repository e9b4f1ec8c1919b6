/* Invariant: each address is both in the tree and on the list `known`, with the last offender at the end. Called by
 * admission.c. */
#include "net/admission/penalties.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

typedef struct offender {
    place_origin from;
    uint64_t ends_ms; /* when its penalty ends */
    uint64_t next_ms; /* while it is limited: when its next connection may open */
    TAILQ_ENTRY(offender) next;
} offender;

struct penalties {
    TAILQ_HEAD(, offender) known;
    void *tree; /* tsearch, by `from` */
    uint32_t n;
};

penalties *penalties_new(void)
{
    penalties *all = calloc(1, sizeof *all);

    if (all)
        TAILQ_INIT(&all->known);
    return all;
}

static int by_origin(const void *a, const void *b)
{
    const place_origin *x = &((const offender *)a)->from, *y = &((const offender *)b)->from;

    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : memcmp(x->bytes, y->bytes, sizeof x->bytes);
}

static void forget(penalties *all, offender *o)
{
    TAILQ_REMOVE(&all->known, o, next);
    tdelete(o, &all->tree, by_origin);
    all->n--;
    free(o);
}

void penalties_free(penalties *all)
{
    offender *o;

    while (all && (o = TAILQ_FIRST(&all->known)))
        forget(all, o);
    free(all);
}

static offender *find(const penalties *all, const place_origin *from)
{
    const offender wanted = {.from = *from};
    offender *const *found = tfind(&wanted, &all->tree, by_origin);

    return found ? *found : NULL;
}

static offender *add(penalties *all, const place_origin *from)
{
    offender *o = malloc(sizeof *o);

    if (!o)
        return NULL;
    *o = (offender){.from = *from};
    if (!tsearch(o, &all->tree, by_origin)) {
        free(o);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&all->known, o, next);
    if (++all->n > PENALTIES_ADDRESSES)
        forget(all, TAILQ_FIRST(&all->known));
    return o;
}

void penalties_add(penalties *all, const place_origin *from, uint64_t now_ms)
{
    offender *o = find(all, from);

    if (!o && !(o = add(all, from)))
        return;
    TAILQ_REMOVE(&all->known, o, next);
    TAILQ_INSERT_TAIL(&all->known, o, next);
    uint64_t owed_ms = (o->ends_ms > now_ms ? o->ends_ms - now_ms : 0) + PENALTY_MS;
    o->ends_ms = now_ms + (owed_ms < PENALTIES_OWED_MAX_MS ? owed_ms : PENALTIES_OWED_MAX_MS);
}

bool penalties_let_in(penalties *all, const place_origin *from, uint64_t now_ms, uint64_t *wait_ms)
{
    offender *o = find(all, from);

    *wait_ms = 0;
    if (!o || o->ends_ms <= now_ms + PENALTIES_FREE_MS)
        return true;
    if (o->next_ms < now_ms)
        o->next_ms = now_ms;
    if (o->next_ms - now_ms > PENALTIES_WAIT_MAX_MS)
        return false;
    *wait_ms = o->next_ms - now_ms;
    o->next_ms += PENALTIES_INTERVAL_MS;
    return true;
}

void penalties_cancel_wait(penalties *all, const place_origin *from)
{
    offender *o = find(all, from);

    if (o && o->next_ms > 0)
        o->next_ms -= PENALTIES_INTERVAL_MS;
}

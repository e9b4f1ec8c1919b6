/* Invariant: a call is in one list at most. Used by pipeline.c and batch.c. */
#include "store/pending.h"

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

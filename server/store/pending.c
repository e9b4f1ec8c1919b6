/* Invariant: a call is in one list at most. Used by pipeline.c and batch.c. */
#include "store/pending.h"

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
}

pending *pending_pop(pending_list *list)
{
    pending *p = list->first;

    if (p)
        pending_remove(list, p);
    return p;
}

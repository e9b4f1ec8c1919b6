/* Called by callers.c. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "calls/callers_state.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const owner *)a)->name, ((const owner *)b)->name);
}

owner *callers_enter_owner(callers *all, const char *name)
{
    size_t len = strlen(name);
    owner *o = calloc(1, sizeof *o + len + 1);
    owner **found;

    if (!o)
        return NULL;
    memcpy(o->name, name, len);
    TAILQ_INIT(&o->ready[false]);
    TAILQ_INIT(&o->ready[true]);
    found = tsearch(o, &all->owners, by_name);
    if (!found || *found != o)
        free(o);
    if (!found)
        return NULL;
    (*found)->members++;
    return *found;
}

void callers_leave_owner(callers *all, owner *o)
{
    if (--o->members > 0)
        return;
    if (all->recent == o)
        all->recent = NULL;
    tdelete(o, &all->owners, by_name);
    free(o);
}

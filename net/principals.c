/* Invariant: an entry has a member. Called by budget.c and by the server's callers.c. */
#include "net/principals.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const principal_sum *)a)->name, ((const principal_sum *)b)->name);
}

principal_sum *principals_enter(principals *all, const char *name)
{
    size_t len = strlen(name);
    principal_sum *sum = calloc(1, sizeof *sum + len + 1);
    principal_sum **found;

    if (!sum)
        return NULL;
    memcpy(sum->name, name, len);
    found = tsearch(sum, all, by_name);
    if (!found || *found != sum)
        free(sum);
    if (!found)
        return NULL;
    (*found)->members++;
    return *found;
}

void principals_leave(principals *all, principal_sum *sum)
{
    if (sum && --sum->members == 0) {
        tdelete(sum, all, by_name);
        free(sum);
    }
}

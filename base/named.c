/* Invariant: an entry in a set has at least one member. The name is stored behind the entry. */
#include "base/named.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named_entry *)a)->name, ((const named_entry *)b)->name);
}

void *named_enter(named_set *all, const char *name, size_t size)
{
    size_t name_bytes = strlen(name) + 1;
    named_entry *n = calloc(1, size + name_bytes);
    named_entry **found;

    if (!n)
        return NULL;
    n->name = memcpy((char *)n + size, name, name_bytes);
    found = tsearch(n, all, by_name);
    if (!found || *found != n)
        free(n);
    if (!found)
        return NULL;
    (*found)->members++;
    return *found;
}

size_t named_members(const named_set *all, const char *name)
{
    const named_entry wanted = {.name = name};
    named_entry *const *found = tfind(&wanted, all, by_name);

    return found ? (*found)->members : 0;
}

void named_leave(named_set *all, void *entry)
{
    named_entry *n = entry;

    if (!n || --n->members > 0)
        return;
    tdelete(n, all, by_name);
    free(n);
}

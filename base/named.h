/* Entries by name, each for as long as it has a member. The struct of an entry begins with its named_entry. */
#ifndef LOCKSTOCK_BASE_NAMED_H
#define LOCKSTOCK_BASE_NAMED_H

#include <stddef.h>

typedef struct named_entry {
    size_t members;
    const char *name;
} named_entry;

/* A tsearch(3) tree by name; NULL at first. */
typedef void *named_set;

/* Adds a member to the entry of that name and returns it. A new entry has `size` bytes, all zero behind its
 * named_entry, and one member. NULL when out of memory. */
void *named_enter(named_set *all, const char *name, size_t size);

/* How many members the entry of that name has; 0 when there is no entry. */
size_t named_members(const named_set *all, const char *name);

/* Removes a member; without members the entry is freed. Takes NULL. */
void named_leave(named_set *all, void *entry);

#endif

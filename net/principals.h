/* What is counted of a principal, all its connections together: one entry for as long as somebody
 * is a member of it. */
#ifndef LOCKSTOCK_NET_PRINCIPALS_H
#define LOCKSTOCK_NET_PRINCIPALS_H

#include <stddef.h>

typedef struct principal_sum {
    size_t members;
    size_t held; /* the owner's count */
    char name[];
} principal_sum;

/* tsearch's, by name; NULL at first. */
typedef void *principals;

/* One member more; NULL when out of memory. */
principal_sum *principals_enter(principals *all, const char *name);

/* One less. Takes NULL. */
void principals_leave(principals *all, principal_sum *sum);

#endif

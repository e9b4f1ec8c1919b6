/* Memory for the store's own bookkeeping, never of a size that a peer chose. */
#ifndef LOCKSTOCK_SERVER_STORE_MEMORY_H
#define LOCKSTOCK_SERVER_STORE_MEMORY_H

#include <stddef.h>

/* Zeroed, to be freed with free(). Never NULL: a process that cannot note a call
 * it has taken cannot keep its promise to end it, so it ends itself (abort), and
 * its callers learn what a killed server's callers learn. */
void *memory_alloc(size_t size);

/* realloc under the same rule; what is new is not zeroed. */
void *memory_grow(void *old, size_t size);

/* A copy with a NUL after it. */
char *memory_copy(const char *text, size_t len);

#endif

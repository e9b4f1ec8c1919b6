/* What a lock protects: a thing that keeps the highest fence that wrote to it, and
 * refuses lower ones. A row of a database does the same with
 * UPDATE ... SET fence = :fence WHERE id = :id AND fence <= :fence. */
#ifndef SECKILL_RESOURCE_H
#define SECKILL_RESOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct resource {
    pthread_mutex_t mutex;
    uint64_t fence;     /* the highest that wrote */
    const char *writer; /* the last; static */
    unsigned writes;
} resource;
#define RESOURCE_INIT                                          \
    {                                                          \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .writer = "nobody" \
    }

/* False: refused, a later holder has written. */
bool resource_write(resource *r, const char *writer, uint64_t fence);

#endif

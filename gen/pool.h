/* Memory of a run of the generator, freed together at the end. The program exits when out of memory. */
#ifndef LOCKSTOCK_GEN_POOL_H
#define LOCKSTOCK_GEN_POOL_H

#include <stddef.h>

typedef struct gen_pool {
    struct pool_block *blocks;
} gen_pool;

/* Returns `count` zeroed elements of `size` bytes. */
void *pool_alloc(gen_pool *pool, size_t count, size_t size);
char *pool_format(gen_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pool_free(gen_pool *pool);

#endif

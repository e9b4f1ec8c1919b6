#include "pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct pool_block {
    struct pool_block *next;
    max_align_t data[];
};

void *pool_alloc(gen_pool *pool, size_t count, size_t size)
{
    struct pool_block *block = NULL;
    if (size == 0 || count <= (SIZE_MAX - sizeof *block) / size)
        block = calloc(1, sizeof *block + count * size);
    if (!block) {
        fputs("protoc-gen-lockstock: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    block->next = pool->blocks;
    pool->blocks = block;
    return block->data;
}

char *pool_format(gen_pool *pool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t size = len < 0 ? 1 : (size_t)len + 1;
    char *text = pool_alloc(pool, size, 1);
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return text;
}

void pool_free(gen_pool *pool)
{
    while (pool->blocks) {
        struct pool_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
}

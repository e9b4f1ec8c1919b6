/* The arena: blocks in a list, newest first; allocation moves a mark in the
 * newest one. Everything handed out is zeroed and lives until the next reset.
 *
 *   arena -> block (newest) -> block -> ... -> block (oldest, kept by a reset)
 */
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/arena.h>

/* Large enough for an ordinary call, so that a call usually allocates nothing. */
enum { BLOCK_BYTES = 4096 - 64 };

typedef struct block block;
struct block {
    block *next;
    size_t size; /* of data */
    size_t used;
    alignas(max_align_t) unsigned char data[];
};

struct lks_rpc_arena {
    block *blocks;
    ProtobufCAllocator allocator;
};

lks_rpc_slice lks_rpc_slice_of(const char *text)
{
    return (lks_rpc_slice){.data = text, .len = strlen(text)};
}

static void *allocator_alloc(void *data, size_t size)
{
    return lks_rpc_arena_alloc(data, size);
}

static void allocator_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

lks_rpc_arena *lks_rpc_arena_new(void)
{
    lks_rpc_arena *arena = malloc(sizeof *arena);
    if (!arena)
        return NULL;
    *arena = (lks_rpc_arena){
        .allocator = {.alloc = allocator_alloc, .free = allocator_free, .allocator_data = arena},
    };
    return arena;
}

/* Frees all blocks except the last of the list. */
static void keep_oldest(lks_rpc_arena *arena)
{
    while (arena->blocks && arena->blocks->next) {
        block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

void lks_rpc_arena_free(lks_rpc_arena *arena)
{
    if (!arena)
        return;
    keep_oldest(arena);
    free(arena->blocks);
    free(arena);
}

void lks_rpc_arena_reset(lks_rpc_arena *arena)
{
    keep_oldest(arena);
    /* A reset frees the blocks of a large call. */
    if (arena->blocks && arena->blocks->size > BLOCK_BYTES) {
        free(arena->blocks);
        arena->blocks = NULL;
    }
    if (arena->blocks)
        arena->blocks->used = 0;
}

size_t lks_rpc_arena_bytes(const lks_rpc_arena *arena)
{
    size_t bytes = sizeof *arena;

    for (const block *b = arena->blocks; b; b = b->next)
        bytes += sizeof *b + b->size;
    return bytes;
}

static block *grow(lks_rpc_arena *arena, size_t size)
{
    if (size < BLOCK_BYTES)
        size = BLOCK_BYTES;
    if (size > SIZE_MAX - sizeof(block))
        return NULL;
    block *fresh = malloc(sizeof *fresh + size);
    if (!fresh)
        return NULL;
    *fresh = (block){.next = arena->blocks, .size = size};
    arena->blocks = fresh;
    return fresh;
}

void *lks_rpc_arena_alloc(lks_rpc_arena *arena, size_t size)
{
    if (size > SIZE_MAX - alignof(max_align_t))
        return NULL;
    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    block *from = arena->blocks;
    if (!from || from->size - from->used < size)
        from = grow(arena, size);
    if (!from)
        return NULL;
    void *pointer = from->data + from->used;
    from->used += size;
    return memset(pointer, 0, size);
}

char *lks_rpc_arena_copy(lks_rpc_arena *arena, const void *data, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = lks_rpc_arena_alloc(arena, len + 1);
    if (copy && len > 0)
        memcpy(copy, data, len);
    return copy;
}

char *lks_rpc_arena_printf(lks_rpc_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len < 0 ? NULL : lks_rpc_arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}

ProtobufCAllocator *lks_rpc_arena_allocator(lks_rpc_arena *arena)
{
    return &arena->allocator;
}

/* Invariant: no function here returns NULL; memory.h has the reason. */
#include "memory.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "base/heap.h"

enum { KEPT_BYTES_MAX = 16 << 20, KEPT_BLOCK_BYTES_MAX = 4 << 20 };

void memory_keep_what_is_freed(void)
{
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX);
    mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES_MAX);
}

static void *checked(void *pointer, size_t size)
{
    if (!pointer) {
        log_error("out-of-memory", "bytes=%zu", size);
        abort();
    }
    return pointer;
}

void *memory_alloc(size_t size)
{
    return checked(calloc(1, size ? size : 1), size);
}

char *memory_copy(const char *text, size_t len)
{
    char *copy = memory_alloc(len + 1);

    memcpy(copy, text, len);
    return copy;
}

void memory_reserve_timers(struct heap *heap, size_t timers)
{
    if (!heap_reserve(heap, timers))
        checked(NULL, timers * sizeof *heap->timers);
}

lks_rpc_arena *memory_arena(void)
{
    return checked(lks_rpc_arena_new(), 0);
}

void *memory_in(lks_rpc_arena *arena, size_t size)
{
    return checked(lks_rpc_arena_alloc(arena, size), size);
}

char *memory_copy_in(lks_rpc_arena *arena, const void *data, size_t len)
{
    return checked(lks_rpc_arena_copy(arena, data, len), len);
}

char *memory_text_in(lks_rpc_arena *arena, const char *text)
{
    return memory_copy_in(arena, text, strlen(text));
}

char *memory_printf_in(lks_rpc_arena *arena, const char *format, ...)
{
    char brief[128]; /* enough for most texts */
    va_list args;

    va_start(args, format);
    int printed = vsnprintf(brief, sizeof brief, format, args);
    size_t len = printed > 0 ? (size_t)printed : 0;
    va_end(args);
    if (len < sizeof brief)
        return memory_copy_in(arena, brief, len);
    char *text = memory_in(arena, len + 1);
    va_start(args, format);
    vsnprintf(text, len + 1, format, args);
    va_end(args);
    return text;
}

/* Never returns NULL (memory.h says why). Used all over server/store/. */
#include "store/memory.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

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

void *memory_grow(void *old, size_t size)
{
    return checked(realloc(old, size ? size : 1), size);
}

char *memory_copy(const char *text, size_t len)
{
    char *copy = memory_alloc(len + 1);

    memcpy(copy, text, len);
    return copy;
}

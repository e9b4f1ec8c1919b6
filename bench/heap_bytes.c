/* Preloaded into lockstockd: writes the number of allocated bytes, with the overhead of the allocator, as a 64-bit
 * number to the file that HEAP_BYTES names. */
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADER_BYTES = 8 }; /* glibc's header of each block */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static _Atomic uint64_t before_main;
static _Atomic uint64_t *bytes = &before_main;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("HEAP_BYTES");
    int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;

    unsetenv("LD_PRELOAD"); /* redis-server, which lockstockd starts, has its own allocator */
    if (fd < 0 || ftruncate(fd, sizeof *bytes) != 0)
        return;
    void *at = mmap(NULL, sizeof *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return;
    bytes = at;
    atomic_store(bytes, atomic_load(&before_main));
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(bytes, malloc_usable_size(block) + HEADER_BYTES);
    return block;
}

static void uncount(void *block)
{
    if (block)
        atomic_fetch_sub(bytes, malloc_usable_size(block) + HEADER_BYTES);
}

void *malloc(size_t size)
{
    return counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return counted(__libc_calloc(n, size));
}

void *realloc(void *block, size_t size)
{
    uint64_t had = block ? malloc_usable_size(block) + HEADER_BYTES : 0;
    void *moved = __libc_realloc(block, size);

    if (moved || size == 0)
        atomic_fetch_sub(bytes, had);
    return counted(moved);
}

void free(void *block)
{
    uncount(block);
    __libc_free(block);
}

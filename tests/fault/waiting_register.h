/* What the clients of test_lock_waiters share in a mapped file: a resource that sees
 * when two hold it at once, or when a fence goes back. */
#ifndef LOCKSTOCK_TESTS_WAITING_REGISTER_H
#define LOCKSTOCK_TESTS_WAITING_REGISTER_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct waiting_register {
    atomic_int holders;
    atomic_int overlaps;
    atomic_int fences_back;
    atomic_int granted;
    _Atomic uint64_t fence;
} waiting_register;

/* NULL when the file cannot be mapped. It is made when it is not there. */
static inline waiting_register *waiting_register_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(waiting_register)) == 0)
        map = mmap(NULL, sizeof(waiting_register), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

#endif

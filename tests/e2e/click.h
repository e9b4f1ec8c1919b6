/* What the clicks of test_idempotency share in a mapped file: what was paid, and the
 * points at which they wait for each other. */
#ifndef LOCKSTOCK_TESTS_CLICK_H
#define LOCKSTOCK_TESTS_CLICK_H

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct click_register {
    atomic_int arrived;  /* clicks that are ready */
    atomic_int paid;     /* how often the side effect took place */
    atomic_int answered; /* clicks that have their answer */
    atomic_int go;       /* set by the test */
} click_register;

/* NULL when the file cannot be mapped. It is made when it is not there. */
static inline click_register *click_register_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(click_register)) == 0)
        map = mmap(NULL, sizeof(click_register), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

#endif

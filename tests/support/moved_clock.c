#include "support/moved_clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool moved_clock_open(moved_clock *c, const char *library, const char *dir)
{
    *c = (moved_clock){.env = {c->preload, c->shift, NULL}};
    /* LD_PRELOAD takes no path with a space in it. */
    snprintf(c->preload, sizeof c->preload, "LD_PRELOAD=%s/clock.so", dir);
    if (symlink(library, c->preload + strlen("LD_PRELOAD=")) != 0)
        return false;
    snprintf(c->shift, sizeof c->shift, "SHIFTED_CLOCK=%s/shift", dir);
    int fd = open(strchr(c->shift, '/'), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (ftruncate(fd, sizeof *c->shift_us) == 0) {
        void *shared = mmap(NULL, sizeof *c->shift_us, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        c->shift_us = shared == MAP_FAILED ? NULL : shared;
    }
    close(fd);
    return c->shift_us;
}

void moved_clock_close(moved_clock *c)
{
    if (c->shift_us)
        munmap((void *)(uintptr_t)c->shift_us, sizeof *c->shift_us);
    *c = (moved_clock){0};
}

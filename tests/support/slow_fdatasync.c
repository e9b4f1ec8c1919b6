/* LD_PRELOAD for redis-server: a disk that takes its time. fdatasync returns only
 * after SLOW_FDATASYNC_US more microseconds, and leaves a byte for each call in
 * the file SLOW_FDATASYNC_LOG, so that a test can see that it was in the way. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    static int (*real)(int);
    const char *log = getenv("SLOW_FDATASYNC_LOG"), *us = getenv("SLOW_FDATASYNC_US");

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    if (us) { /* the delay is under test */
        long delay = atol(us);
        nanosleep(&(struct timespec){.tv_sec = delay / 1000000, .tv_nsec = delay % 1000000 * 1000}, NULL);
    }
    int log_fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (log_fd >= 0) {
        ssize_t ignored = write(log_fd, ".", 1);
        (void)ignored;
        close(log_fd);
    }
    return real(fd);
}

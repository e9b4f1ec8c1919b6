/* Invariant: the directory belongs to whoever holds the flock; the note only
 * explains it. Used by embedded.c. */
#include "store/dirlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 10000, MOMENT_MS = 1000, LOOK_MS = 10, NOTE_BYTES = 256 };

typedef struct note {
    int pid;
    char socket_dir[NOTE_BYTES];
} note;

static note read_note(int lock)
{
    char text[NOTE_BYTES];
    note n = {0};
    ssize_t len = pread(lock, text, sizeof text - 1, 0);

    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%d %254[^\n]", &n.pid, n.socket_dir) < 1)
        n.pid = 0;
    return n;
}

/* Whether the process still lives after a moment: one that was just killed may
 * take that long. A zombie is dead: its descriptors are closed. */
static bool lives_on(int pid)
{
    struct pollfd end = {.fd = pid > 0 ? pidfd_open(pid, 0) : -1, .events = POLLIN};
    bool alive = end.fd >= 0 && poll(&end, 1, MOMENT_MS) == 0;

    if (end.fd >= 0)
        close(end.fd);
    return alive;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* flock(2) knows no timeout: looked at again and again, but only while what holds
 * the lock is the rest of a dead server. */
static lks_code take(int lock, const char *dir, lks_error *error)
{
    int64_t until = now_ms() + WAIT_MS;

    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "store: cannot lock %s/lock: %s", dir,
                                 strerror(errno));
        int pid = read_note(lock).pid;
        if (lives_on(pid))
            return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                                 "store: %s is used by another lockstockd (pid %d)", dir, pid);
        if (now_ms() >= until)
            return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                                 "store: %s is still held by a process of an ended lockstockd (pid %d)", dir, pid);
        poll(NULL, 0, LOOK_MS);
    }
    return LKS_OK;
}

lks_code dirlock_take(const char *dir, int *ret, lks_error *error)
{
    char path[PATH_MAX];
    int lock;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "store: cannot make the directory %s: %s",
                             dir, strerror(errno));
    if (snprintf(path, sizeof path, "%s/lock", dir) >= (int)sizeof path)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "store: the directory's name is too long");
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "store: cannot open %s: %s", path,
                             strerror(errno));
    if (take(lock, dir, error) != LKS_OK) {
        close(lock);
        return error->code;
    }
    dirlock_remove_socket_dir(read_note(lock).socket_dir);
    *ret = lock;
    return LKS_OK;
}

void dirlock_note(int lock, const char *socket_dir)
{
    char text[NOTE_BYTES];
    int len = snprintf(text, sizeof text, "%d %s\n", (int)getpid(), socket_dir);

    /* A note that is not written only makes a message or a cleaning poorer. */
    if (ftruncate(lock, 0) == 0 && len > 0 && pwrite(lock, text, (size_t)len, 0) < 0)
        return;
}

/* Anyone may have written the note: only what looks like ours, and is, goes. */
void dirlock_remove_socket_dir(const char *socket_dir)
{
    char path[NOTE_BYTES + 16];
    const char *name = strrchr(socket_dir, '/');
    struct stat found;

    if (!name || strncmp(name, "/lks-", 5) != 0 || lstat(socket_dir, &found) != 0 || !S_ISDIR(found.st_mode) ||
        found.st_uid != geteuid())
        return;
    snprintf(path, sizeof path, "%s/redis.sock", socket_dir);
    unlink(path);
    rmdir(socket_dir);
}

/* Invariant: the lock is the flock on the directory itself, which removing a file in it does not change. DIR/lock only
 * notes its holder. Used by embedded.c. */
#include "store/dirlock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAIT_MS = 10000, MOMENT_MS = 1000, LOOK_MS = 10, NOTE_BYTES = 32 };

/* The note's second line, if a store was served from the directory. */
#define SERVED "served\n"

static int open_note(int dir_fd, int flags)
{
    return openat(dir_fd, "lock", flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

/* Returns the pid in the note; 0 = none. */
static int read_note(int dir_fd, bool *has_served)
{
    char text[NOTE_BYTES];
    int note = open_note(dir_fd, O_RDONLY);
    ssize_t len = note >= 0 ? pread(note, text, sizeof text - 1, 0) : 0;

    if (note >= 0)
        close(note);
    text[len > 0 ? len : 0] = '\0';
    *has_served = strstr(text, SERVED);
    return (int)strtol(text, NULL, 10);
}

/* Whether the process still lives after a second, in which a killed one ends. A zombie counts as dead: its descriptors
 * are closed. */
static bool lives_on(int pid)
{
    struct pollfd end = {.fd = pid > 0 ? pidfd_open(pid, 0) : -1, .events = POLLIN};
    bool alive = end.fd >= 0 && poll(&end, 1, MOMENT_MS) == 0;

    if (end.fd >= 0)
        close(end.fd);
    return alive;
}

/* Polls, because flock(2) has no timeout; only while the redis-server of a dead server holds the lock. */
static lks_code lock_dir(int dir_fd, const char *dir, lks_error *error)
{
    uint64_t until_ns = clock_in_ms(WAIT_MS);
    bool has_served;

    while (flock(dir_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "cannot lock %s: %s", dir,
                                 strerror(errno));
        int pid = read_note(dir_fd, &has_served);
        if (lives_on(pid))
            return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s is used by another lockstockd (pid %d)",
                                 dir, pid);
        if (clock_now_ns() >= until_ns)
            return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO,
                                 "%s is still used by another process; lslocks shows which", dir);
        poll(NULL, 0, LOOK_MS);
    }
    return LKS_OK;
}

static lks_code unusable(lks_error *error, const char *dir, const char *name, const char *why)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "cannot use %s%s: %s", dir, name, why);
}

/* Opens a directory in which only this user may write: other users could put links to our files there, or data. */
static lks_code open_dir(const char *dir, int *ret, lks_error *error)
{
    struct stat found;
    const char *why = NULL;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &found) != 0)
        why = strerror(errno);
    else if (found.st_uid != geteuid())
        why = "it belongs to another user";
    else if (found.st_mode & (S_IWGRP | S_IWOTH))
        why = "other users can write to it (chmod go-w)";
    *ret = fd;
    if (why && fd >= 0)
        close(fd);
    return why ? unusable(error, dir, "", why) : LKS_OK;
}

/* Makes a file in the directory if it is missing. `name` begins with a slash. */
static lks_code make_file(int dir_fd, const char *dir, const char *name, lks_error *error)
{
    struct stat found;
    const char *why = NULL;
    int fd = openat(dir_fd, name + 1, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || fstat(fd, &found) != 0)
        why = errno == ELOOP ? "it is a symbolic link" : strerror(errno);
    else if (!S_ISREG(found.st_mode) || found.st_uid != geteuid())
        why = "it is not a regular file of this user";
    if (fd >= 0)
        close(fd);
    return why ? unusable(error, dir, name, why) : LKS_OK;
}

static lks_code make_data_private(int dir_fd, const char *dir, lks_error *error)
{
    int fd = openat(dir_fd, "appendonlydir", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = fd >= 0 && fchmod(fd, 0700) != 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    return failed ? unusable(error, dir, "/appendonlydir", strerror(failed)) : LKS_OK;
}

lks_code dirlock_take(const char *dir, int *ret, lks_error *error)
{
    int fd;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "cannot make the directory %s: %s", dir,
                             strerror(errno));
    lks_code code = open_dir(dir, &fd, error);
    if (code != LKS_OK)
        return code;
    if ((code = make_file(fd, dir, "/lock", error)) == LKS_OK && (code = lock_dir(fd, dir, error)) == LKS_OK &&
        (code = make_file(fd, dir, "/redis.log", error)) == LKS_OK)
        code = make_data_private(fd, dir, error);
    if (code == LKS_OK)
        *ret = fd;
    else
        close(fd);
    return code;
}

bool dirlock_has_served(int dir_fd)
{
    bool has_served;

    read_note(dir_fd, &has_served);
    return has_served;
}

/* Truncates after writing, so that a full disk keeps the old note. */
int dirlock_note(int dir_fd, int pid, bool has_served)
{
    char text[NOTE_BYTES];
    int len = snprintf(text, sizeof text, "%d\n%s", pid, has_served ? SERVED : ""), failure = 0;
    int note = open_note(dir_fd, O_WRONLY | O_CREAT);

    if (note < 0 || pwrite(note, text, (size_t)len, 0) != len || ftruncate(note, len) != 0)
        failure = errno;
    if (note >= 0)
        close(note);
    return failure;
}

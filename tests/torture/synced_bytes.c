/* LD_PRELOAD for redis-server: how many bytes of each file have reached the disk, so that a test can remove the
 * rest, as a power loss may. After each fdatasync and fsync the file's size, as it was before the call, is in the
 * file SYNCED_BYTES/<inode>, eight bytes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(ino_t inode, int64_t size)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%llu", getenv("SYNCED_BYTES"), (unsigned long long)inode);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, &size, sizeof size, 0) != sizeof size)
        abort(); /* a test that believes in it would take away too much */
    close(fd);
}

static int sync_and_note(int fd, const char *name)
{
    int (*real)(int);
    struct stat before;

    *(void **)&real = dlsym(RTLD_NEXT, name);
    int known = fstat(fd, &before), done = real(fd);
    if (done == 0 && known == 0 && S_ISREG(before.st_mode))
        note(before.st_ino, before.st_size);
    return done;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return sync_and_note(fd, "fdatasync");
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return sync_and_note(fd, "fsync");
}

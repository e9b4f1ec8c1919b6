/* Included by every file of an instrumented build: the switch of its mutants.
 *
 * LKS_MUTANT in the environment chooses a mutant by its id. LKS_MUTANT_REACHED names a file with a byte for each id:
 * a mutant that is reached sets its byte, in memory that the process shares with the file, so that also a process that
 * is killed leaves its marks. */
#ifndef LOCKSTOCK_TESTS_MUTANT_H
#define LOCKSTOCK_TESTS_MUTANT_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LKS_MUTANT_UNKNOWN = -2, LKS_MUTANT_NONE = -1 };

/* One copy in each program and library. */
__attribute__((weak, visibility("hidden"))) int lks_mutant_chosen = LKS_MUTANT_UNKNOWN;
__attribute__((weak, visibility("hidden"))) unsigned char *lks_mutant_reached;
__attribute__((weak, visibility("hidden"))) long lks_mutant_count;

__attribute__((weak, visibility("hidden"), no_sanitize("address"))) void lks_mutant_begin(void)
{
    const char *id = getenv("LKS_MUTANT"), *path = getenv("LKS_MUTANT_REACHED");
    int before = errno, file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat is;

    if (file >= 0 && fstat(file, &is) == 0 && is.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)is.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (bytes != MAP_FAILED) {
            lks_mutant_count = is.st_size;
            lks_mutant_reached = bytes;
        }
    }
    if (file >= 0)
        close(file);
    errno = before;
    lks_mutant_chosen = id ? atoi(id) : LKS_MUTANT_NONE;
}

__attribute__((no_sanitize("address", "thread"))) static inline int lks_mutant(int id)
{
    if (lks_mutant_chosen == LKS_MUTANT_UNKNOWN)
        lks_mutant_begin();
    if (lks_mutant_reached && id < lks_mutant_count)
        lks_mutant_reached[id] = 1;
    return id == lks_mutant_chosen;
}

#endif

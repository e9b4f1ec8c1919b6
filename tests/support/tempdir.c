/* Nothing outside the directory is ever removed: symbolic links are not followed
 * and mounted file systems not entered. */
#include "support/tempdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tempdir_make(void)
{
    const char *base = getenv("TMPDIR");
    char path[96]; /* leaves room for "/redis.sock" in sun_path */

    if (!base || base[0] != '/' || strlen(base) > 64)
        base = "/tmp";
    snprintf(path, sizeof path, "%s/lks-XXXXXX", base);
    if (!mkdtemp(path))
        return NULL;
    return strdup(path);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)remove(path); /* a file that a dying process removed first is fine */
    return 0;
}

void tempdir_remove(char *path)
{
    if (path) {
        (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
        free(path);
    }
}

bool tempdir_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool written = file && fputs(text, file) >= 0;

    written = file && fclose(file) == 0 && written;
    if (!written)
        perror(path);
    return written;
}

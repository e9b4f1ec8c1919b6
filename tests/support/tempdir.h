/* A directory of a test's own, with a name short enough for unix sockets. */
#ifndef LOCKSTOCK_TESTS_TEMPDIR_H
#define LOCKSTOCK_TESTS_TEMPDIR_H

#include <stdbool.h>

/* Makes an empty directory, mode 0700, under $TMPDIR or /tmp. Returns its
 * absolute path, to be given to tempdir_remove; NULL with errno set. */
char *tempdir_make(void);

/* Removes the directory with all it contains and frees the path. Takes NULL. */
void tempdir_remove(char *path);

/* Writes a text file, replacing an existing one. Returns false, with a line on stderr, if it cannot. */
bool tempdir_write(const char *path, const char *text);

#endif

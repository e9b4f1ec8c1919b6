/* The lock on an embedded store's directory, and the note in it that says who
 * holds it, and whether there should be data. Blocking, before the loop runs. */
#ifndef LOCKSTOCK_SERVER_STORE_DIRLOCK_H
#define LOCKSTOCK_SERVER_STORE_DIRLOCK_H

#include <stdbool.h>

#include <lockstock/status.h>

/* Makes the directory if it is missing, looks whether it and its files are this user's
 * alone, closes the data in it to others, and locks it. When the server that noted
 * itself in DIR/lock is dead, waits up to 10 s for what it left behind to go. *ret is
 * a descriptor of the directory, open for reading: it holds the lock, as does each
 * inherited copy of it; the caller closes it.
 * LKS_UNAVAILABLE: another server has it; LKS_INVALID_ARGUMENT: the
 * directory cannot be made or locked, is another user's or writable for others, or `lock` or
 * `redis.log` in it is no plain file of this user. */
lks_code dirlock_take(const char *dir, int *ret, lks_error *error);

/* Notes in DIR/lock who holds the lock, 0: nobody, and whether a store was ever served from there. An errno, or 0. */
int dirlock_note(int dir_fd, int pid, bool has_served);

/* Whether that was noted. False also when the note is missing. */
bool dirlock_has_served(int dir_fd);

#endif

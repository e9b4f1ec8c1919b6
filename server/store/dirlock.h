/* The lock on an embedded store's directory, and the note in it: the process that holds the lock, and whether there
 * should be data. Blocking; used before the loop runs. */
#ifndef LOCKSTOCK_SERVER_STORE_DIRLOCK_H
#define LOCKSTOCK_SERVER_STORE_DIRLOCK_H

#include <stdbool.h>

#include <lockstock/status.h>

/* Makes the directory if it is missing, checks that it and its files belong to this user alone, makes its data private,
 * and locks it. If the server in DIR/lock is dead, waits up to 10 s until its redis-server has ended. *ret is a
 * descriptor of the directory, which the caller closes; it holds the lock, as does each inherited copy.
 * LKS_UNAVAILABLE: another server has it; LKS_INVALID_ARGUMENT: the directory cannot be made or locked, belongs to
 * another user or is writable for others, or `lock` or `redis.log` in it is not a regular file of this user. */
lks_code dirlock_take(const char *dir, int *ret, lks_error *error);

/* Writes to DIR/lock the pid of the lock's holder (0: none), and whether a store was ever served from there. Returns 0
 * or an errno. */
int dirlock_note(int dir_fd, int pid, bool has_served);

/* Whether DIR/lock notes that a store was served; false if it is missing. */
bool dirlock_has_served(int dir_fd);

#endif

/* The tail of an embedded redis-server's append-only file. */
#ifndef LOCKSTOCK_SERVER_STORE_AOF_H
#define LOCKSTOCK_SERVER_STORE_AOF_H

#include <stdbool.h>
#include <sys/types.h>

/* Bytes of a file between two words about it. */
enum { AOF_PROGRESS_BYTES = 256 * 1024 * 1024 };

/* How far a file was read. False: to stop. */
typedef bool aof_progress(void *arg, off_t done, off_t size);

/* Cuts what DIR's append-only file ends with back to its last whole transaction:
 * to be called while no redis-server runs there, before one is started. *cut is
 * the number of bytes removed, mostly 0. A file that is damaged elsewhere is left
 * to redis-server, which refuses it. Reads the file once, 200 MB a second or so;
 * `progress` (NULL: none) is called by the same thread. 0 or an errno, ECANCELED
 * when it was stopped, and then nothing is changed. Any thread. */
int aof_mend(const char *dir, aof_progress *progress, void *arg, off_t *cut);

#endif

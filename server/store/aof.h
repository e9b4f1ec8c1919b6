/* The tail of an embedded redis-server's append-only file. */
#ifndef LOCKSTOCK_SERVER_STORE_AOF_H
#define LOCKSTOCK_SERVER_STORE_AOF_H

#include <sys/types.h>

/* Cuts what DIR's append-only file ends with back to its last whole transaction:
 * to be called while no redis-server runs there, before one is started. *cut is
 * the number of bytes removed, mostly 0. A file that is damaged elsewhere is left
 * to redis-server, which refuses it. 0 or an errno. Reads the file once; blocks. */
int aof_mend(const char *dir, off_t *cut);

#endif

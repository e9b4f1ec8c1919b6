/* A process that holds a lock (lks_mutex, kept by its watchdog), to be killed or
 * frozen: this very program, started anew with the arguments of holder_main.
 *
 *   parent                     holder
 *          <-- holds FENCE     it has the lock
 *   write  -->                 it writes, if it can
 *          <-- OK|STALE LOST   what CheckFence said; and its own lks_mutex_is_lost, 0 or 1 */
#ifndef SECKILL_HOLDER_H
#define SECKILL_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "child.h"

#define HOLDER_FLAG "--hold" /* followed by URLS NAME LEASE_MS */

typedef struct holder {
    child process;
    uint64_t fence;
} holder;

/* Starts `program` and waits until it holds the lock. The caller ends it with holder_end in any case. */
lks_code holder_start(const char *program, const char *urls, const char *name, uint32_t lease_ms, holder *ret,
                      lks_error *error);

/* Lets it write. */
lks_code holder_write(holder *h, bool *written, bool *lost, lks_error *error);

/* Kills it if it lives, and reaps. Takes a zeroed one. */
void holder_end(holder *h);

/* What the holder does; argv[1] is HOLDER_FLAG. Returns an exit status. */
int holder_main(int argc, char **argv);

#endif

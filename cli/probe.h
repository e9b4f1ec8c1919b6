/* Small reads that tell how a server is: what status and doctor ask. */
#ifndef LOCKSTOCK_CLI_PROBE_H
#define LOCKSTOCK_CLI_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"

typedef struct probe {
    lks_error error; /* its code LKS_OK: it was answered */
    uint64_t took_ns;
} probe;

/* What needs no store, and what does. Who may not read has been answered all the same. */
probe probe_server(lks_channel *channel);
probe probe_store(lks_channel *channel);

/* Whether nobody has answered. */
bool probe_is_down(const probe *p);

/* The servers of --server, each by itself: calls `each` with every URL, which lives in the arena, and a channel to it
 * alone, which is closed after that unless *channel is then NULL. Returns the worst of what `each` returned. Any other
 * code than EXIT_DONE of its own: said. */
typedef exit_code probe_each(void *arg, const char *url, lks_channel **channel);
exit_code probe_servers(const cli *c, probe_each *each, void *arg);

#endif

/* Small reads that show whether a server and its store answer. */
#ifndef LOCKSTOCK_CLI_PROBE_H
#define LOCKSTOCK_CLI_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"
#include "words.h"

typedef struct probe {
    lks_error error; /* code LKS_OK: answered */
    uint64_t took_ns;
} probe;

/* Make a call that uses no store, and one that uses the store, but not the lock store. PERMISSION_DENIED is an answer,
 * too. */
probe probe_server(lks_channel *channel);
probe probe_store(lks_channel *channel);

/* Returns whether there was no answer. */
bool probe_is_down(const probe *p);

/* Writes "1.2 ms", "down" or the name of the error. */
void probe_write(const probe *p, char text[WORDS_BYTES]);

/* Calls `each` for every server of --server with its URL, which is valid as long as the arena, and a channel to it.
 * Closes the channel unless `each` sets *channel to NULL. Returns the highest code that `each` returned; prints
 * errors of its own. */
typedef exit_code probe_each(void *arg, const char *url, lks_channel **channel);
exit_code probe_servers(const cli *c, probe_each *each, void *arg);

#endif

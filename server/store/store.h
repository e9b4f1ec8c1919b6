/* The store: all state, in Redis. Only server/store/ uses hiredis. Loop thread only, except where stated. */
#ifndef LOCKSTOCK_SERVER_STORE_H
#define LOCKSTOCK_SERVER_STORE_H

#include "store/types.h"

/* Checks the URL and, for embedded:, locks DIR and starts its redis-server (main thread only). Connects in the
 * background and reconnects, with backoff. LKS_INVALID_ARGUMENT: the URL; for embedded: as embedded_open. */
lks_code store_open(const store_options *options, store **ret, lks_error *error);

/* Reads the files again. New connections use them; existing ones get a new password at once, without losing a call. A
 * failure changes nothing; LKS_INVALID_ARGUMENT names the file. */
lks_code store_reload(store *store, lks_error *error);

/* Sends a call with the others of this loop turn. After deadline_ns (CLOCK_MONOTONIC) it ends with
 * LKS_DEADLINE_EXCEEDED: NO if it was not sent, else MAYBE. While the store is not ready it ends with
 * LKS_UNAVAILABLE, NO, unless the store becomes ready within 1 s and the deadline. */
void store_submit(store *store, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* Finds the first part whose `slot` is `from` or higher; returns false if there is none. A part keeps its slot and base
 * while it has that slot. */
bool store_part_from(const store *store, uint32_t from, store_part *ret);

/* Describes the state of the store. */
void store_describe(const store *store, store_view *ret);

/* Describes the i-th primary; returns false if there is none. */
bool store_describe_primary(const store *store, size_t i, store_primary *ret);

/* Describes the redis-server of an embedded store. Returns false if the store is not embedded. */
bool store_describe_process(const store *store, store_process *ret);

/* Returns when the client certificate expires, in seconds since 1970; 0: no certificate. */
int64_t store_certificate_ends(const store *store);

/* Returns why the server must exit, found after connecting: another data layout or an unsafe store. NULL = it need not
 * exit. */
const char *store_fatal(const store *store);

/* Ends calls under way with UNAVAILABLE and stops an embedded redis-server; `closed` runs on the loop after the store
 * was freed. Submit no more calls. */
void store_close(store *store, void (*closed)(void *arg), void *arg);

#endif

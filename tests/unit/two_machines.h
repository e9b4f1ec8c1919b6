/* A function library in a real redis-server, whose clock stands still where the test puts it, and in this process
 * (server/machine/functions.h), over the same keys at the same time. Main thread only. What it finds out of place fails
 * the test. */
#ifndef LOCKSTOCK_TESTS_TWO_MACHINES_H
#define LOCKSTOCK_TESTS_TWO_MACHINES_H

#include <stdbool.h>
#include <stdint.h>

#include "machine/keys.h"
#include "store/types.h"

typedef struct two_machines two_machines;

enum { TWO_MACHINES_SERVERS = 3 };

/* Starts a redis-server, and loads the library in both; it and the digest must outlive the two. NULL: it does not
 * start, or the engine does not load the library. */
two_machines *two_machines_new(const char *library, size_t len, const char *digest);
void two_machines_free(two_machines *m);

/* No keys, all servers subscribed, this time. */
void two_machines_reset(two_machines *m, int64_t now_us);

/* now_us must not go back. */
void two_machines_at(two_machines *m, int64_t now_us);

/* "s0" to "s2" listen to ls:wake:<server>. */
void two_machines_listen(two_machines *m, unsigned server, bool listens);

/* Runs the call in both; gives both replies, and the messages that both send, one a line: returns the engine's. All
 * live until two_machines_at. */
const char *two_machines_call(two_machines *m, const store_call *call, const store_value **redis,
                              const store_value **engine, const char **redis_messages);

/* Of the engine. */
const keys *two_machines_keys(const two_machines *m);

/* Packs the engine's keys, and goes on with what keys_unpack makes of them. */
void two_machines_repack(two_machines *m);

/* The keys of each: a line for each key, with its type, end and content. In the arena of the last call. */
const char *two_machines_redis_keys(two_machines *m);
const char *two_machines_engine_keys(two_machines *m);

/* Removes a key in both, or puts in its place one of another type that holds what no function has written. */
typedef enum two_machines_foreign { FOREIGN_NONE, FOREIGN_STRING, FOREIGN_HASH, FOREIGN_ZSET } two_machines_foreign;
void two_machines_put(two_machines *m, const char *key, two_machines_foreign foreign);

/* A value in one line. */
const char *two_machines_text(two_machines *m, const store_value *value);

#endif

/* A function library in a real redis-server, whose clock is set by the test, and in this process
 * (server/machine/functions.h), over the same keys at the same time. Main thread only. A difference fails
 * the test. */
#ifndef LOCKSTOCK_TESTS_TWO_MACHINES_H
#define LOCKSTOCK_TESTS_TWO_MACHINES_H

#include <stdbool.h>
#include <stdint.h>

#include "store/types.h"

typedef struct two_machines two_machines;

/* Starts a redis-server, and loads the library in both; it and the digest must outlive the two. NULL: it does not
 * start, or the engine does not load the library. */
two_machines *two_machines_new(const char *library, size_t len, const char *digest);
void two_machines_free(two_machines *m);

/* No keys, this time. */
void two_machines_reset(two_machines *m, int64_t now_us);

/* now_us must not go back. */
void two_machines_at(two_machines *m, int64_t now_us);

/* Runs the call in both; gives both replies, and the messages that both send, one a line: returns the engine's. All
 * live until two_machines_at. */
const char *two_machines_call(two_machines *m, const store_call *call, const store_value **redis,
                              const store_value **engine, const char **redis_messages);

/* The keys of each: a line for each key, with its type, end and content. In the arena of the last call. */
const char *two_machines_redis_keys(two_machines *m);
const char *two_machines_engine_keys(two_machines *m);

/* A value in one line. */
const char *two_machines_text(two_machines *m, const store_value *value);

#endif

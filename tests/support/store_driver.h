/* A store on a loop of its own, driven step by step by a test. Main thread only.
 * Nothing here sleeps: a wait runs the loop until its condition holds,
 * and fails the test after a minute. */
#ifndef LOCKSTOCK_TESTS_STORE_DRIVER_H
#define LOCKSTOCK_TESTS_STORE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

typedef struct store_driver store_driver;

/* How a call ended; lives until the driver is freed. */
typedef struct outcome {
    unsigned ends; /* how often done ran: 0 while under way, then 1 */
    bool inside;   /* done ran inside store_submit */
    lks_code code;
    lks_applied applied;
    uint32_t retry_after_ms;
    lks_reason reason;
    char message[256];
    const store_value *value; /* a copy; NULL unless code is LKS_OK */
} outcome;

/* For a call that must be sent before its deadline passes, also on a busy machine. */
enum { SENT_MS = 1000 };

/* A call in short: args are text, NULL-terminated. Zero timeout = 30 s. */
typedef struct driver_call {
    const char *function;
    const char *base; /* NULL = "ls:{test/g}:" */
    const char *args[8];
    unsigned weight;
    bool repeatable;
    int timeout_ms; /* negative: the deadline is past */
} driver_call;

/* A function library for tests, on the protocol of server/functions/common.lua:
 *   echo ARG...  {'ECHO', ARG...}      put NAME VALUE  {'PUT', 1 when it was new}
 *   get NAME     {'GOT', VALUE or ''}
 *   add N        {'ADDED', total} */
extern const char driver_library_text[], driver_library_digest[];

store_driver *store_driver_new(void);
struct uv_loop_s *store_driver_loop(store_driver *d);

/* Opens the store; loop, library and on_ready of the options are filled in, and the role is asked once a connection
 * unless they say how often. */
lks_code store_driver_open(store_driver *d, const store_options *options, lks_error *error);
store *store_driver_store(store_driver *d);

outcome *store_driver_submit(store_driver *d, const driver_call *call);

/* Submits and waits. */
outcome *store_driver_call(store_driver *d, const driver_call *call);

/* Runs the loop until the condition holds. */
void store_driver_until(store_driver *d, bool (*condition)(void *arg), void *arg);
void store_driver_wait(store_driver *d, const outcome *o);
void store_driver_wait_ready(store_driver *d, bool ready);

/* Whether it is ready, by store_describe. *reason, if not NULL: the fault, which may be that of a part of a ready
 * store; NULL = none. */
bool store_driver_ready(const store_driver *d, const char **reason);

/* How often readiness changed to ready; the last reason for not being so. */
unsigned store_driver_ups(const store_driver *d);
const char *store_driver_reason(const store_driver *d);
lks_reason store_driver_fault(const store_driver *d);

/* Closes the store and runs the loop until it is closed. */
void store_driver_close_store(store_driver *d);

/* The same if it is open; then frees. Fails the test when handles are left. */
void store_driver_free(store_driver *d);

/* The i-th element of an array reply as text; "" if it is missing. */
const char *outcome_text(const outcome *o, size_t i);
long long outcome_number(const outcome *o, size_t i);

/* Fails the test, showing both, unless the call ended like this, once. */
#define assert_outcome(o, code, applied) assert_outcome_at((o), (code), (applied), __FILE__, __LINE__)
void assert_outcome_at(const outcome *o, lks_code code, lks_applied applied, const char *file, int line);

#endif

/* Runs the function library of server/functions in this process: one Lua 5.1 state, the interpreter that Redis uses,
 * with the globals that Redis provides (redis, struct), over the keys of one group. A call returns the reply of FCALL.
 *
 * On the loop's thread. Out of memory of the process ends it (memory.h); a function that uses too much memory or too
 * many instructions gets an error. */
#ifndef LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_H
#define LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "machine/keys.h"
#include "store/types.h"

typedef struct functions functions;

/* Callbacks of a call, during functions_run. They call no function of this header. NULL: no effect. */
typedef struct functions_hooks {
    int64_t (*publish)(void *arg, lks_rpc_slice channel, lks_rpc_slice message); /* returns how many servers receive
                                                                                  * it */
    bool (*is_subscribed)(void *arg, lks_rpc_slice channel);
    void *arg;
} functions_hooks;

/* Loads the library. Its text is copied; the digest is the suffix of its functions' names. INTERNAL, with nothing to
 * close: it does not load. */
lks_code functions_open(const char *library_text, size_t len, const char *digest, functions **ret, lks_error *error);

/* Takes NULL. */
void functions_close(functions *f);

/* Runs one call over the keys at now_us, which is more than 0; keys that have ended are removed first. The
 * reply lives in the arena, each text with a NUL after it.
 *
 * is_full: the keys must not grow. A call that may make them grow is refused as by a Redis that has reached maxmemory:
 * STORE_ERROR "OOM ...", and nothing has run. Any other STORE_ERROR is a failure of the function or of this engine, in
 * the words of Redis. After it, and after a reply {'ERR', _, 'MAYBE', ...}, the keys may have a part of the function's
 * changes: they are not the result of a call, and keys_changes tells whether there is such a part. */
const store_value *functions_run(functions *f, keys *k, const functions_hooks *hooks, int64_t now_us,
                                 const store_call *call, bool is_full, lks_rpc_arena *arena);

/* The cost of the last functions_run: instructions of Lua, in steps of 10,000, and the maximum size of the state in
 * bytes since functions_open. */
typedef struct functions_use {
    uint64_t instructions;
    size_t bytes_max;
} functions_use;

functions_use functions_used(const functions *f);

#endif

/* Runs the function library of server/functions in this process, over the keys of one group. One Lua 5.1 state, the
 * interpreter of Redis, has the globals that Redis gives to functions (redis, struct). A call returns the reply of
 * FCALL.
 *
 * Loop thread only. If the process runs out of memory, it ends (memory.h). A function that uses too much memory or too
 * many instructions fails with an error. */
#ifndef LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_H
#define LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "machine/keys.h"
#include "store/types.h"

typedef struct functions functions;

/* Called by functions_run. They must not call functions of this header. NULL: there are no subscribers. */
typedef struct functions_hooks {
    int64_t (*publish)(void *arg, lks_rpc_slice channel, lks_rpc_slice message); /* returns how many servers get it */
    bool (*is_subscribed)(void *arg, lks_rpc_slice channel);
    void *arg;
} functions_hooks;

/* Loads the library. library_text is copied; `digest` is the suffix of its functions' names. If the library does not
 * load, returns INTERNAL, and there is nothing to close. */
lks_code functions_open(const char *library_text, size_t len, const char *digest, functions **ret, lks_error *error);

/* Takes NULL. */
void functions_close(functions *f);

/* Runs one call over the keys at now_us, which is more than 0; expired keys are removed first. The reply lives in the
 * arena, each text with a NUL after it.
 *
 * is_full: the keys must not grow. A call that may make them grow is refused, as Redis does at maxmemory: the reply is
 * STORE_ERROR "OOM ...", and the function has not run. Any other STORE_ERROR is a failure of the function or of this
 * engine, in the words of Redis. After it, and after a reply {'ERR', _, 'MAYBE', ...}, the keys may hold a part of what
 * the function writes, so they must not be used as its result. keys_changes tells whether there is such a part. */
const store_value *functions_run(functions *f, keys *k, const functions_hooks *hooks, int64_t now_us,
                                 const store_call *call, bool is_full, lks_rpc_arena *arena);

#endif

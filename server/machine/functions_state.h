/* Shared by functions.c and functions_redis.c. */
#ifndef LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_STATE_H
#define LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_STATE_H

#include <lua.h>

#include "machine/functions.h"

/* Flags of a function. */
enum { FUNCTIONS_NO_WRITES = 1, FUNCTIONS_ALLOW_OOM = 2 };

/* The running call. */
typedef struct functions_running {
    functions *functions;
    keys *keys;
    const functions_hooks *hooks;
    int64_t now_us;
    const store_call *call;
    bool is_full, only_reads, has_failed;
    lks_rpc_arena *arena;
    store_value *reply;
} functions_running;

struct functions {
    lua_State *L;
    char *digest;
    int callbacks, flags; /* references to tables in the registry; their keys are function names without digest */
    size_t bytes;
    functions_use use;
    bool is_loading;
    functions_running *running; /* NULL: none */
};

/* Sets the globals `redis` and `pcall`. Called in protected mode. */
void functions_open_redis(lua_State *L, functions *f);

/* Converts a Lua number to an integer as Redis does: it drops the fraction. */
int64_t functions_integer(double number);

#endif

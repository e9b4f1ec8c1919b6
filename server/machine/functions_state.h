/* Shared by functions.c and functions_redis.c. */
#ifndef LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_STATE_H
#define LOCKSTOCK_SERVER_MACHINE_FUNCTIONS_STATE_H

#include <lua.h>

#include "machine/functions.h"

/* The running call. */
typedef struct functions_running {
    functions *functions;
    keys *keys;
    const functions_hooks *hooks;
    int64_t now_us;
    const store_call *call;
    bool is_full, has_failed;
    lks_rpc_arena *arena;
    store_value *reply;
} functions_running;

struct functions {
    lua_State *L;
    char *digest;
    int definitions; /* a reference to a table in the registry: name -> the table that register_function got */
    size_t bytes;
    uint64_t instructions;      /* of the running call, in steps */
    functions_running *running; /* NULL: none */
};

/* Sets the globals `redis` and `pcall`. Called in protected mode. */
void functions_open_redis(lua_State *L, functions *f);

#endif

/* The Redis commands that the functions of the library may call, over the keys of a group. */
#ifndef LOCKSTOCK_SERVER_MACHINE_COMMANDS_H
#define LOCKSTOCK_SERVER_MACHINE_COMMANDS_H

#include <lua.h>

#include "machine/functions.h"

/* One command of a function. */
typedef struct command_call {
    lua_State *L;
    keys *keys;
    const functions_hooks *hooks;
    int64_t now_us;
    size_t n; /* number of words, at least 1; the first is the name of the command */
    const lks_rpc_slice *words;
} command_call;

/* Runs the command. Pushes the reply, as Redis converts RESP2 for Lua, and returns NULL. Or pushes nothing, changes no
 * key, and returns the error text of Redis, which is static. It raises a Lua error only when memory runs out. */
const char *command_run(const command_call *c);

void command_push_text(lua_State *L, lks_rpc_slice text);

#endif

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
    size_t n; /* number of words; the first is the name of the command */
    const lks_rpc_slice *words;
} command_call;

/* Pushes the reply, as Redis converts RESP2 for Lua, and returns NULL. Or pushes nothing, changes no key, and returns
 * the error text of Redis, which is static. It raises a Lua error only when memory runs out. */
typedef const char *command_run(const command_call *c);

typedef struct command {
    const char *name;
    int arity; /* number of words, with the name; negative: the minimum */
    command_run *run;
} command;

/* Returns NULL for an unknown command. */
const command *command_find(lks_rpc_slice name);

/* ---- shared by the files with handlers ---------------------------------------------- */

#define COMMAND_WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define COMMAND_SYNTAX "ERR syntax error"
#define COMMAND_NOT_INTEGER "ERR value is not an integer or out of range"

bool command_word_is(lks_rpc_slice word, const char *name);
bool command_integer(lks_rpc_slice word, int64_t *ret);
const char *command_push_integer(const command_call *c, int64_t number);
void command_push_text(lua_State *L, lks_rpc_slice text);

/* commands_items.c: hashes and sorted sets. */
command_run command_hdel, command_hget, command_hgetall, command_hincrby, command_hlen, command_hmget,
    command_hrandfield, command_hset, command_zadd, command_zcard, command_zrange, command_zrem, command_zscore;

#endif

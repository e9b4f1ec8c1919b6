/* The global `redis` for functions. */
#include <lauxlib.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "machine/commands.h"
#include "machine/functions_state.h"

enum { WORDS_FEW = 32, SHA1_BYTES = 20, NUMBER_TEXT_BYTES = 40 };

static functions *functions_at(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- redis.call, redis.pcall ---------------------------------------------------------- */

static int return_error(lua_State *L, const char *text, bool raises)
{
    lua_settop(L, 0);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "err");
    return raises ? lua_error(L) : 1;
}

static void number_to_text(lua_State *L, int at)
{
    double number = lua_tonumber(L, at);
    char text[NUMBER_TEXT_BYTES];
    bool is_whole =
        number >= -9007199254740992.0 && number <= 9007199254740992.0 && number == (double)(long long)number;
    int len = is_whole ? snprintf(text, sizeof text, "%lld", (long long)number)
                       : snprintf(text, sizeof text, "%.17g", number);

    lua_pushlstring(L, text, (size_t)len);
    lua_replace(L, at);
}

/* Reads n words from the stack; replaces numbers there by text. Returns false if a word is of another type. */
static bool read_words(lua_State *L, int n, lks_rpc_slice *words)
{
    for (int i = 1; i <= n; i++) {
        if (lua_type(L, i) == LUA_TNUMBER)
            number_to_text(L, i);
        if (lua_type(L, i) != LUA_TSTRING)
            return false;
        words[i - 1].data = lua_tolstring(L, i, &words[i - 1].len);
    }
    return true;
}

static const char *refusal_of(const command *known, int n)
{
    if (!known)
        return "ERR Unknown Redis command called from script";
    if (known->arity >= 0 ? n != known->arity : n < -known->arity)
        return "ERR Wrong number of args calling Redis command from script";
    return NULL;
}

static int run_command(lua_State *L, bool raises)
{
    const functions_running *r = functions_at(L)->running;
    int n = lua_gettop(L);
    lks_rpc_slice on_stack[WORDS_FEW];
    lks_rpc_slice *words = on_stack;

    if (!r)
        return return_error(L, "ERR redis.call/pcall can only be called inside a script invocation", raises);
    if (n == 0)
        return return_error(L, "ERR Please specify at least one argument for this redis.call() call", raises);
    if (n > WORDS_FEW)
        words = lua_newuserdata(L, (size_t)n * sizeof *words); /* above the words, until this function returns */
    if (!read_words(L, n, words))
        return return_error(L, "ERR Lua redis lib command arguments must be strings or integers", raises);
    const command *known = command_find(words[0]);
    const char *wrong = refusal_of(known, n);
    const command_call call = {
        .L = L, .keys = r->keys, .hooks = r->hooks, .now_us = r->now_us, .n = (size_t)n, .words = words};
    if (!wrong)
        wrong = known->run(&call);
    return wrong ? return_error(L, wrong, raises) : 1;
}

static int redis_call(lua_State *L)
{
    return run_command(L, true);
}

static int redis_pcall(lua_State *L)
{
    return run_command(L, false);
}

/* pcall as in Redis: for an error of redis.call it returns the text. */
static int protected_call(lua_State *L)
{
    luaL_checkany(L, 1);
    bool is_right = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == 0;
    if (!is_right && lua_istable(L, -1)) {
        lua_getfield(L, -1, "err");
        if (lua_isstring(L, -1))
            lua_replace(L, -2);
        else
            lua_pop(L, 1);
    }
    lua_pushboolean(L, is_right);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* ---- redis.register_function ---------------------------------------------------------- */

/* register_function{function_name=, callback=, flags=} */
static int register_function(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, LUA_REGISTRYINDEX, functions_at(L)->definitions);
    lua_getfield(L, 1, "function_name");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    return 0;
}

/* ---- other members -------------------------------------------------------------------- */

static int sha1hex(lua_State *L)
{
    unsigned char digest[SHA1_BYTES];
    char text[2 * SHA1_BYTES + 1];
    size_t len;

    if (lua_gettop(L) != 1)
        return return_error(L, "ERR wrong number of arguments", true);
    const char *data = lua_tolstring(L, 1, &len);
    if (EVP_Digest(data ? data : "", data ? len : 0, digest, NULL, EVP_sha1(), NULL) != 1)
        return luaL_error(L, "SHA-1 is not available");
    hex_encode(digest, sizeof digest, text);
    lua_pushlstring(L, text, 2 * (size_t)SHA1_BYTES);
    return 1;
}

void functions_open_redis(lua_State *L, functions *f)
{
    static const luaL_Reg members[] = {{"call", redis_call},
                                       {"pcall", redis_pcall},
                                       {"register_function", register_function},
                                       {"sha1hex", sha1hex},
                                       {NULL, NULL}};

    lua_newtable(L);
    for (const luaL_Reg *member = members; member->name; member++) {
        lua_pushlightuserdata(L, f);
        lua_pushcclosure(L, member->func, 1);
        lua_setfield(L, -2, member->name);
    }
    lua_setglobal(L, "redis");
    lua_pushcfunction(L, protected_call);
    lua_setglobal(L, "pcall");
}

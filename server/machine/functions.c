/* Every entry into Lua is protected (lua_cpcall), because an error outside it ends the process. A C function that Lua
 * calls owns no memory at a point where it may raise an error. */
#include "machine/functions.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "memory.h"
#include "machine/commands.h"
#include "machine/lua_struct.h"

enum {
    BYTES_MAX = 64 << 20,
    INSTRUCTIONS_MAX = 20000000,
    INSTRUCTIONS_OF_STEP = 10000,
    DEPTH_MAX = 8,
    WORDS_FEW = 32,
    SHA1_BYTES = 20,
    NUMBER_TEXT_BYTES = 40
};

typedef struct running_call {
    functions *functions;
    keys *keys;
    const functions_hooks *hooks;
    int64_t now_us;
    const store_call *call;
    bool is_full, has_failed;
    lks_rpc_arena *arena;
    store_value *reply;
} running_call;

struct functions {
    lua_State *L;
    char *digest;
    int definitions; /* a reference to a table in the registry: name -> the table that register_function got */
    size_t bytes;
    uint64_t instructions; /* of the running call, in steps */
    running_call *running; /* NULL: none */
};

/* ---- limits ------------------------------------------------------------------------- */

static void *allocate(void *arg, void *block, size_t old_size, size_t size)
{
    functions *f = arg;

    if (size == 0) {
        free(block);
        f->bytes -= old_size;
        return NULL;
    }
    if (size > old_size && size - old_size > BYTES_MAX - f->bytes)
        return NULL;
    void *moved = realloc(block, size);
    if (!moved)
        return size > old_size ? NULL : block; /* Lua assumes that shrinking a block never fails */
    f->bytes += size - old_size;
    return moved;
}

static functions *functions_of(lua_State *L)
{
    void *f;

    lua_getallocf(L, &f);
    return f;
}

static void on_step(lua_State *L, lua_Debug *debug)
{
    functions *f = functions_of(L);

    (void)debug;
    f->instructions += INSTRUCTIONS_OF_STEP;
    if (f->instructions < INSTRUCTIONS_MAX)
        return;
    lua_sethook(L, on_step, LUA_MASKCOUNT, 1); /* fails again at once if a pcall of the library catches the error */
    luaL_error(L, "the function ran for too long");
}

static void reset_instructions(functions *f)
{
    f->instructions = 0;
    lua_sethook(f->L, on_step, LUA_MASKCOUNT, INSTRUCTIONS_OF_STEP);
}

/* ---- errors ------------------------------------------------------------------------- */

/* Returns the text of the error value on top of the stack. The error stays there. */
static const char *error_text(lua_State *L)
{
    if (lua_istable(L, -1)) {
        lua_pushliteral(L, "err");
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
    const char *text = lua_tostring(L, -1);
    return text ? text : "an error without text";
}

/* Returns the error text after lua_cpcall has failed. Calls no Lua function that can raise an error. */
static const char *plain_error(lua_State *L)
{
    return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without text";
}

static int collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    return 0;
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

static int run_command(lua_State *L, bool raises)
{
    const running_call *r = functions_of(L)->running;
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
    const command_call call = {
        .L = L, .keys = r->keys, .hooks = r->hooks, .now_us = r->now_us, .n = (size_t)n, .words = words};
    const char *wrong = command_run(&call);
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

/* ---- other members -------------------------------------------------------------------- */

/* register_function{function_name=, callback=, flags=} */
static int register_function(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, LUA_REGISTRYINDEX, functions_of(L)->definitions);
    lua_getfield(L, 1, "function_name");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    return 0;
}

static int sha1hex(lua_State *L)
{
    unsigned char digest[SHA1_BYTES];
    char text[2 * SHA1_BYTES + 1];
    size_t len;

    const char *data = luaL_checklstring(L, 1, &len);
    if (EVP_Digest(data, len, digest, NULL, EVP_sha1(), NULL) != 1)
        return luaL_error(L, "SHA-1 is not available");
    hex_encode(digest, sizeof digest, text);
    lua_pushlstring(L, text, 2 * (size_t)SHA1_BYTES);
    return 1;
}

/* Sets the globals `redis` and `pcall`. */
static void open_redis(lua_State *L)
{
    static const luaL_Reg members[] = {{"call", redis_call},
                                       {"pcall", redis_pcall},
                                       {"register_function", register_function},
                                       {"sha1hex", sha1hex},
                                       {NULL, NULL}};

    luaL_register(L, "redis", members);
    lua_register(L, "pcall", protected_call);
}

/* ---- replies ------------------------------------------------------------------------ */

static store_value reply_of(lua_State *L, lks_rpc_arena *arena, int depth);

/* Drops the fraction. A number out of range, or none at all, gives what Redis gives on x86-64. */
static int64_t integer_of(double number)
{
    return number >= -9223372036854775808.0 && number < 9223372036854775808.0 ? (int64_t)number : INT64_MIN;
}

static store_value text_value(lua_State *L, lks_rpc_arena *arena, store_type type)
{
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);

    return (store_value){.type = type, .string = {memory_copy_in(arena, text, len), len}};
}

/* Returns whether that field of the table on top is a text. If so, pushes it. */
static bool has_text(lua_State *L, const char *field)
{
    lua_pushstring(L, field);
    lua_rawget(L, -2);
    if (lua_type(L, -1) == LUA_TSTRING)
        return true;
    lua_pop(L, 1);
    return false;
}

static store_value table_value(lua_State *L, lks_rpc_arena *arena, int depth)
{
    if (depth == DEPTH_MAX)
        luaL_error(L, "the reply is nested too deeply");
    const bool is_error = has_text(L, "err");
    if (is_error || has_text(L, "ok")) {
        store_value value = text_value(L, arena, is_error ? STORE_ERROR : STORE_STRING);
        lua_pop(L, 1);
        return value;
    }
    size_t room = lua_objlen(L, -1), n = 0; /* a nil follows element objlen; there may also be one before it */
    store_value *element = memory_in(arena, room * sizeof *element);
    for (; n < room; n++) {
        lua_rawgeti(L, -1, (int)n + 1);
        bool is_end = lua_isnil(L, -1);
        if (!is_end)
            element[n] = reply_of(L, arena, depth + 1);
        lua_pop(L, 1);
        if (is_end)
            break;
    }
    return (store_value){.type = STORE_ARRAY, .n = n, .element = element};
}

/* Converts the value on top, as Redis does. The value stays there. */
static store_value reply_of(lua_State *L, lks_rpc_arena *arena, int depth)
{
    luaL_checkstack(L, 4, "the reply is nested too deeply");
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        return text_value(L, arena, STORE_STRING);
    case LUA_TBOOLEAN:
        return lua_toboolean(L, -1) ? (store_value){.type = STORE_INTEGER, .integer = 1}
                                    : (store_value){.type = STORE_NIL};
    case LUA_TNUMBER:
        return (store_value){.type = STORE_INTEGER, .integer = integer_of(lua_tonumber(L, -1))};
    case LUA_TTABLE:
        return table_value(L, arena, depth);
    default:
        return (store_value){.type = STORE_NIL};
    }
}

static store_value error_value(lks_rpc_arena *arena, const char *text)
{
    return (store_value){.type = STORE_ERROR, .string = {memory_copy_in(arena, text, strlen(text)), strlen(text)}};
}

/* ---- a call ------------------------------------------------------------------------- */

/* Pushes the arguments that Redis passes to a function: the bases, and the words {argc arg...} (store/fcall.h). */
static void push_arguments(lua_State *L, const store_call *call)
{
    size_t more = call->whole_shard ? 1 : 0;
    int place = 0;

    lua_createtable(L, 1, 0);
    if (!call->whole_shard) {
        command_push_text(L, call->base);
        lua_rawseti(L, -2, 1);
    }
    lua_createtable(L, (int)(1 + more + call->n_args), 0);
    lua_pushinteger(L, (lua_Integer)(call->n_args + more));
    lua_rawseti(L, -2, ++place);
    if (call->whole_shard) {
        command_push_text(L, call->base);
        lua_rawseti(L, -2, ++place);
    }
    for (size_t i = 0; i < call->n_args; i++) {
        command_push_text(L, call->args[i]);
        lua_rawseti(L, -2, ++place);
    }
}

/* Pushes what register_function got for the function; nil: there is none. */
static void push_definition(lua_State *L, const functions *f, const char *name)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->definitions);
    lua_pushfstring(L, "%s_%s", name, f->digest);
    lua_rawget(L, -2);
}

/* Whether the function whose definition is on top never makes keys grow. */
static bool runs_when_full(lua_State *L)
{
    bool runs = false;

    lua_getfield(L, -1, "flags");
    for (size_t i = 1, n = lua_istable(L, -1) ? lua_objlen(L, -1) : 0; i <= n; i++) {
        lua_rawgeti(L, -1, (int)i);
        const char *flag = lua_tostring(L, -1);
        runs = runs || (flag && (strcmp(flag, "no-writes") == 0 || strcmp(flag, "allow-oom") == 0));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return runs;
}

static int run_protected(lua_State *L)
{
    running_call *r = lua_touserdata(L, 1);

    push_definition(L, r->functions, r->call->function);
    if (lua_isnil(L, -1)) {
        *r->reply = error_value(r->arena, "ERR Function not found");
        return 0;
    }
    if (r->is_full && !runs_when_full(L)) {
        *r->reply =
            error_value(r->arena, "OOM allow-oom flag is not set on the script, can not run it when used memory > "
                                  "'maxmemory'");
        return 0;
    }
    lua_getfield(L, -1, "callback");
    push_arguments(L, r->call);
    if (lua_pcall(L, 2, 1, 0) == 0) {
        *r->reply = reply_of(L, r->arena, 0);
        return 0;
    }
    r->has_failed = true;
    bool is_error_reply = lua_istable(L, -1);
    const char *text = error_text(L);
    *r->reply = error_value(r->arena, is_error_reply ? text : lua_pushfstring(L, "ERR %s", text));
    return 0;
}

const store_value *functions_run(functions *f, keys *k, const functions_hooks *hooks, int64_t now_us,
                                 const store_call *call, bool is_full, lks_rpc_arena *arena)
{
    store_value *reply = memory_in(arena, sizeof *reply);
    running_call running = {.functions = f,
                            .keys = k,
                            .hooks = hooks,
                            .now_us = now_us,
                            .call = call,
                            .is_full = is_full,
                            .arena = arena,
                            .reply = reply};

    keys_expire(k, now_us);
    reset_instructions(f);
    f->running = &running;
    if (lua_cpcall(f->L, run_protected, &running) != 0) {
        running.has_failed = true;
        *reply = error_value(arena, memory_printf_in(arena, "ERR %s", plain_error(f->L)));
    }
    f->running = NULL;
    lua_settop(f->L, 0);
    if (running.has_failed && lua_cpcall(f->L, collect, NULL) != 0)
        lua_settop(f->L, 0);
    return reply;
}

/* ---- the state ---------------------------------------------------------------------- */

static void open_libraries(lua_State *L)
{
    static const luaL_Reg libraries[] = {{"", luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math}};

    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        lua_pushcfunction(L, libraries[i].func);
        lua_pushstring(L, libraries[i].name);
        lua_call(L, 1, 0);
    }
}

typedef struct loading {
    functions *functions;
    lks_rpc_slice text;
} loading;

static int load_protected(lua_State *L)
{
    const loading *l = lua_touserdata(L, 1);
    const char *line_end = memchr(l->text.data, '\n', l->text.len);
    size_t head = line_end && l->text.data[0] == '#' ? (size_t)(line_end - l->text.data) : 0;

    open_libraries(L);
    lua_struct_open(L);
    open_redis(L);
    lua_newtable(L);
    l->functions->definitions = luaL_ref(L, LUA_REGISTRYINDEX);
    if (luaL_loadbuffer(L, l->text.data + head, l->text.len - head, "@user_function") != 0)
        lua_error(L);
    lua_call(L, 0, 0);
    return 0;
}

lks_code functions_open(const char *library_text, size_t len, const char *digest, functions **ret, lks_error *error)
{
    functions *f = memory_alloc(sizeof *f);
    loading l = {.functions = f, .text = {library_text, len}};

    f->digest = memory_copy(digest, strlen(digest));
    f->L = lua_newstate(allocate, f);
    if (!f->L) {
        functions_close(f);
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO,
                             "no memory for the interpreter of the function library");
    }
    reset_instructions(f);
    if (lua_cpcall(f->L, load_protected, &l) != 0) {
        lks_code code = lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "the function library does not load: %s",
                                      plain_error(f->L));
        functions_close(f);
        return code;
    }
    lua_settop(f->L, 0);
    *ret = f;
    return LKS_OK;
}

void functions_close(functions *f)
{
    if (!f)
        return;
    if (f->L)
        lua_close(f->L);
    free(f->digest);
    free(f);
}

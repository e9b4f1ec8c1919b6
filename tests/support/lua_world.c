/* Invariant: a thing's memory stays until all things have ended, for callbacks of calls refer to it. */
#include "support/lua_world.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/lossy_proxy.h"
#include "support/lua_things.h"
#include "support/moved_clock.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"

static thing *newest;
static lks_rpc_arena *kept; /* texts that fixtures refer to */

thing *thing_push(lua_State *L, const char *type, void *it, void (*end)(void *it))
{
    if (!it)
        luaL_error(L, "no %s: see the errors above", type);
    thing *t = calloc(1, sizeof *t);
    *t = (thing){.before = newest, .it = it, .end = end};
    newest = t;
    *(thing **)lua_newuserdata(L, sizeof(thing *)) = t;
    luaL_setmetatable(L, type);
    return t;
}

void *thing_at(lua_State *L, int index, const char *type)
{
    return (*(thing **)luaL_checkudata(L, index, type))->it;
}

void lua_world_end(void)
{
    for (thing *t = newest; t; t = t->before)
        t->end(t->it);
    while (newest) {
        thing *t = newest;
        newest = t->before;
        free(t->memory);
        free(t);
    }
    lks_rpc_arena_free(kept);
    kept = NULL;
}

const char *kept_text(const char *text)
{
    if (!kept)
        kept = lks_rpc_arena_new();
    return text ? lks_rpc_arena_copy(kept, text, strlen(text)) : NULL;
}

const char *const *kept_list(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return NULL;
    luaL_checktype(L, index, LUA_TTABLE);
    size_t n = (size_t)luaL_len(L, index);
    kept_text("");
    const char **list = lks_rpc_arena_alloc(kept, (n + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++, lua_pop(L, 1)) {
        lua_geti(L, index, (lua_Integer)i + 1);
        list[i] = kept_text(luaL_tolstring(L, -1, NULL));
        lua_pop(L, 1);
    }
    list[n] = NULL;
    return list;
}

const char *text_field(lua_State *L, int index, const char *name)
{
    const char *text = NULL;

    if (lua_istable(L, index)) {
        lua_getfield(L, index, name);
        text = kept_text(lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    return text;
}

lua_Integer number_field(lua_State *L, int index, const char *name)
{
    lua_Integer n = 0;

    if (lua_istable(L, index)) {
        lua_getfield(L, index, name);
        n = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return n;
}

const char *const *list_field(lua_State *L, int index, const char *name)
{
    const char *const *list = NULL;

    if (lua_istable(L, index)) {
        lua_getfield(L, index, name);
        list = kept_list(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    return list;
}

static int signal_number(lua_State *L, int index)
{
    static const char *const names[] = {"TERM", "KILL", "STOP", "CONT", "HUP", "INT", NULL};
    static const int numbers[] = {SIGTERM, SIGKILL, SIGSTOP, SIGCONT, SIGHUP, SIGINT};

    return numbers[luaL_checkoption(L, index, NULL, names)];
}

static void must(lua_State *L, bool good, const char *what)
{
    if (!good)
        luaL_error(L, "%s failed: see the errors above", what);
}

/* ---- processes: world.process({argv}, {env}), and of a server ------------------------------- */

enum { LIMIT_MS = 120000 };

static process *process_at(lua_State *L)
{
    server_fixture **server = luaL_testudata(L, 1, "Server");

    return server ? server_fixture_process(thing_at(L, 1, "Server")) : thing_at(L, 1, "Process");
}

static void end_process(void *it)
{
    process_free(it);
}

static void end_orderly(void *it)
{
    process_signal(it, SIGTERM);
    process_wait(it, LIMIT_MS, NULL);
    process_free(it);
}

/* process({argv}, {env}, true: SIGTERM at the end of the case in place of SIGKILL) */
static int l_process(lua_State *L)
{
    thing_push(L, "Process", process_spawn(kept_list(L, 1), kept_list(L, 2)),
               lua_toboolean(L, 3) ? end_orderly : end_process);
    return 1;
}

static int p_runs(lua_State *L)
{
    lua_pushboolean(L, !process_wait(process_at(L), 0, NULL));
    return 1;
}

static int p_signal(lua_State *L)
{
    process_signal(process_at(L), signal_number(L, 2));
    return 0;
}

/* line(text): the next line that contains the text */
static int p_line(lua_State *L)
{
    char line[1024];
    process *p = process_at(L);

    if (!process_wait_line(p, luaL_checkstring(L, 2), line, sizeof line, LIMIT_MS))
        return luaL_error(L, "no line \"%s\" in:\n%s", lua_tostring(L, 2), process_output(p));
    lua_pushstring(L, line);
    return 1;
}

static int p_output(lua_State *L)
{
    lua_pushstring(L, process_output(process_at(L)));
    return 1;
}

/* ended(code): fails unless it exits with it */
static int p_ended(lua_State *L)
{
    process *p = process_at(L);

    if (!process_exited_with(p, (int)luaL_optinteger(L, 2, 0), LIMIT_MS))
        return luaL_error(L, "it did not exit with %d:\n%s", (int)luaL_optinteger(L, 2, 0), process_output(p));
    lua_pushstring(L, process_output(p));
    return 1;
}

static int p_pid(lua_State *L)
{
    lua_pushinteger(L, process_pid(process_at(L)));
    return 1;
}

static int p_kill(lua_State *L)
{
    process_kill(process_at(L));
    return 0;
}

static const luaL_Reg process_methods[] = {{"signal", p_signal}, {"line", p_line},   {"output", p_output},
                                           {"runs", p_runs},     {"ended", p_ended}, {"pid", p_pid},
                                           {"kill", p_kill},     {NULL, NULL}};

/* ---- servers: world.server{store=, args=, env=} ------------------------- */

static void end_server(void *it)
{
    server_fixture_free(it);
}

static int l_server(lua_State *L)
{
    const server_fixture_options options = {
        .store = text_field(L, 1, "store"), .args = list_field(L, 1, "args"), .env = list_field(L, 1, "env")};

    thing_push(L, "Server", server_fixture_start(&options), end_server);
    return 1;
}

static server_fixture *server_at(lua_State *L)
{
    return thing_at(L, 1, "Server");
}

static int s_url(lua_State *L)
{
    lua_pushstring(L, server_fixture_url(server_at(L)));
    return 1;
}

static int s_dir(lua_State *L)
{
    lua_pushstring(L, server_fixture_dir(server_at(L)));
    return 1;
}

static int s_port(lua_State *L)
{
    lua_pushinteger(L, server_fixture_port(server_at(L)));
    return 1;
}

/* The pid of the redis-server that it runs; 0: none at the moment */
static int s_redis_pid(lua_State *L)
{
    lua_pushinteger(L, server_fixture_redis_pid(server_at(L)));
    return 1;
}

static int s_kill(lua_State *L)
{
    server_fixture_kill(server_at(L));
    return 0;
}

static int s_restart(lua_State *L)
{
    must(L, server_fixture_restart(server_at(L)), "restart");
    return 0;
}

static int s_stop(lua_State *L)
{
    must(L, server_fixture_stop(server_at(L), LIMIT_MS), "stop");
    return 0;
}

static const luaL_Reg server_methods[] = {
    {"url", s_url},         {"dir", s_dir},   {"port", s_port},     {"redis_pid", s_redis_pid}, {"kill", s_kill},
    {"restart", s_restart}, {"stop", s_stop}, {"signal", p_signal}, {"line", p_line},           {"output", p_output},
    {"ended", p_ended},     {"pid", p_pid},   {NULL, NULL}};

/* ---- a proxy that loses answers: world.proxy(port, "LOSE_FIRST_REPLIES" | "CUT_FIRST_REPLY") --- */

static void end_proxy(void *it)
{
    lossy_proxy_stop(it);
}

static int l_proxy(lua_State *L)
{
    static const char *const ways[] = {"LOSE_FIRST_REPLIES", "CUT_FIRST_REPLY", NULL};

    thing_push(
        L, "Proxy",
        lossy_proxy_start((unsigned short)luaL_checkinteger(L, 1), (lossy_way)luaL_checkoption(L, 2, NULL, ways)),
        end_proxy);
    return 1;
}

static int x_url(lua_State *L)
{
    lua_pushstring(L, lossy_proxy_url(thing_at(L, 1, "Proxy")));
    return 1;
}

static int x_hits(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)lossy_proxy_hits(thing_at(L, 1, "Proxy")));
    return 1;
}

static const luaL_Reg proxy_methods[] = {{"url", x_url}, {"hits", x_hits}, {NULL, NULL}};

/* ---- a clock that a script moves: world.clock(dir) ------------------------------------------- */

static void end_clock(void *it)
{
    moved_clock_close(it);
}

static int l_clock(lua_State *L)
{
    moved_clock *c = calloc(1, sizeof *c);
    bool opened = moved_clock_open(c, SHIFTED_CLOCK_PATH, luaL_checkstring(L, 1));

    thing_push(L, "Clock", c, end_clock)->memory = c;
    must(L, opened, "clock");
    return 1;
}

/* env(): the environment of a program that uses the clock */
static int c_env(lua_State *L)
{
    const moved_clock *c = thing_at(L, 1, "Clock");

    lua_newtable(L);
    for (lua_Integer i = 0; c->env[i]; i++) {
        lua_pushstring(L, c->env[i]);
        lua_seti(L, -2, i + 1);
    }
    return 1;
}

/* move(us): forward, or back */
static int c_move(lua_State *L)
{
    moved_clock *c = thing_at(L, 1, "Clock");

    atomic_fetch_add(c->shift_us, luaL_checkinteger(L, 2));
    return 0;
}

static const luaL_Reg clock_methods[] = {{"env", c_env}, {"move", c_move}, {NULL, NULL}};

/* ---- the rest ---------------------------------------------------------------------------------- */

static void end_dir(void *it)
{
    tempdir_remove(it);
}

/* dir(): the path of a directory that is removed at the end */
static int l_dir(lua_State *L)
{
    char *path = tempdir_make();

    thing_push(L, "Dir", path, end_dir);
    lua_pushstring(L, path);
    return 1;
}

static int l_pause(lua_State *L)
{
    process_pause();
    return 0;
}

static int l_now_ms(lua_State *L)
{
    lua_pushinteger(L, process_now_ms());
    return 1;
}

/* now_us(): of CLOCK_REALTIME */
static int l_now_us(lua_State *L)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    lua_pushinteger(L, (lua_Integer)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    return 1;
}

/* kill(pid, signal) */
static int l_kill(lua_State *L)
{
    lua_pushboolean(L, kill((pid_t)luaL_checkinteger(L, 1), signal_number(L, 2)) == 0);
    return 1;
}

/* gone(pid): waits for its end */
static int l_gone(lua_State *L)
{
    must(L, process_wait_gone((pid_t)luaL_checkinteger(L, 1), LIMIT_MS), "gone");
    return 0;
}

/* measure(pid): descriptors, KiB, threads */
static int l_measure(lua_State *L)
{
    pid_t pid = (pid_t)luaL_checkinteger(L, 1);

    lua_pushinteger(L, (lua_Integer)process_fd_count(pid));
    lua_pushinteger(L, (lua_Integer)process_rss_kib(pid));
    lua_pushinteger(L, (lua_Integer)process_thread_count(pid));
    return 3;
}

void things_define(lua_State *L, const char *type, const luaL_Reg *methods)
{
    luaL_newmetatable(L, type);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void lua_world_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"process", l_process}, {"server", l_server},   {"proxy", l_proxy},
                                         {"clock", l_clock},     {"dir", l_dir},         {"pause", l_pause},
                                         {"now_ms", l_now_ms},   {"now_us", l_now_us},   {"kill", l_kill},
                                         {"gone", l_gone},       {"measure", l_measure}, {NULL, NULL}};

    things_define(L, "Process", process_methods);
    things_define(L, "Server", server_methods);
    things_define(L, "Proxy", proxy_methods);
    things_define(L, "Clock", clock_methods);
    things_define(L, "Dir", (const luaL_Reg[]){{NULL, NULL}});
    luaL_newlib(L, functions);
    lua_pushstring(L, server_fixture_program());
    lua_setfield(L, -2, "program");
    lua_pushliteral(L, SOURCE_DIR);
    lua_setfield(L, -2, "source");
    lua_pushliteral(L, BINARY_DIR);
    lua_setfield(L, -2, "binary");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "sanitized");
#endif
    lua_world_open_calls(L);
    lua_world_open_callers(L);
    lua_world_open_manager(L);
    lua_setglobal(L, "world");
}

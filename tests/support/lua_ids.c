#include "support/lua_ids.h"

#include <lauxlib.h>

#include "services/id.h"

static snowflake *snowflake_at(lua_State *L)
{
    return luaL_checkudata(L, 1, "snowflake");
}

static int64_t number_of(lua_State *L, const char *field)
{
    lua_getfield(L, 2, field);
    int64_t value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

/* s:grant{worker=, first_ms=, end_ms=, clock_ms=, asked_ns=} */
static int l_grant(lua_State *L)
{
    const snowflake_range range = {.worker = number_of(L, "worker"),
                                   .first_ms = number_of(L, "first_ms"),
                                   .end_ms = number_of(L, "end_ms"),
                                   .clock_ms = number_of(L, "clock_ms"),
                                   .asked_ns = (uint64_t)number_of(L, "asked_ns")};

    snowflake_grant(snowflake_at(L), &range);
    return 0;
}

/* s:take(now_ns, count): a list of ids, or nil */
static int l_take(lua_State *L)
{
    static int64_t ids[ID_COUNT_MAX];
    size_t n = (size_t)luaL_checkinteger(L, 3);

    luaL_argcheck(L, n <= ID_COUNT_MAX, 3, "too many");
    if (!snowflake_take(snowflake_at(L), (uint64_t)luaL_checkinteger(L, 2), n, ids))
        return 0;
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, ids[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* s:has(now_ns, count) */
static int l_has(lua_State *L)
{
    lua_pushboolean(L,
                    snowflake_has(snowflake_at(L), (uint64_t)luaL_checkinteger(L, 2), (size_t)luaL_checkinteger(L, 3)));
    return 1;
}

static int l_unused_ms(lua_State *L)
{
    lua_pushinteger(L, snowflake_unused_ms(snowflake_at(L)));
    return 1;
}

static int l_snowflake(lua_State *L)
{
    snowflake_init(lua_newuserdatauv(L, sizeof(snowflake), 0));
    luaL_setmetatable(L, "snowflake");
    return 1;
}

/* uuid_format(tick, random) */
static int l_uuid_format(lua_State *L)
{
    char text[ID_UUID_LEN + 1];

    uuid_format((uint64_t)luaL_checkinteger(L, 1), (uint64_t)luaL_checkinteger(L, 2), text);
    lua_pushstring(L, text);
    return 1;
}

/* uuid_tick(last, seconds, nanoseconds) */
static int l_uuid_tick(lua_State *L)
{
    lua_pushinteger(
        L, (lua_Integer)uuid_tick((uint64_t)luaL_checkinteger(L, 1), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)));
    return 1;
}

void lua_ids_open(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"grant", l_grant}, {"take", l_take}, {"has", l_has}, {"unused_ms", l_unused_ms}, {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"snowflake", l_snowflake}, {"uuid_format", l_uuid_format}, {"uuid_tick", l_uuid_tick}, {NULL, NULL}};

    luaL_newmetatable(L, "snowflake");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    lua_setglobal(L, "ids");
}

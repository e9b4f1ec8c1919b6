/* Redis-servers, channels and their calls, for scripts. */
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/lockstock.h>
#include <lockstock/v1/admin.lks_client.h>

#include "support/lua_message.h"
#include "support/lua_things.h"
#include "support/redis_fixture.h"

/* ---- redis-servers: world.redis{append_only=, args=, env=} ------------------------------------- */

typedef struct redis {
    redis_fixture *fixture;
    redisContext *connection; /* NULL: none at the moment */
} redis;

static void end_redis(void *it)
{
    redis *r = it;

    if (r->connection)
        redisFree(r->connection);
    redis_fixture_free(r->fixture);
}

static int l_redis(lua_State *L)
{
    const redis_fixture_options options = {.append_only = number_field(L, 1, "append_only"),
                                           .args = list_field(L, 1, "args"),
                                           .env = list_field(L, 1, "env")};
    redis *r = calloc(1, sizeof *r);

    r->fixture = redis_fixture_start(&options);
    if (!r->fixture) {
        free(r);
        return luaL_error(L, "no redis-server: see the errors above");
    }
    thing_push(L, "Redis", r, end_redis)->memory = r;
    return 1;
}

static redis *redis_at(lua_State *L)
{
    return thing_at(L, 1, "Redis");
}

static int r_url(lua_State *L)
{
    lua_pushstring(L, redis_fixture_url(redis_at(L)->fixture));
    return 1;
}

static int r_dir(lua_State *L)
{
    lua_pushstring(L, redis_fixture_dir(redis_at(L)->fixture));
    return 1;
}

static int r_pid(lua_State *L)
{
    lua_pushinteger(L, redis_fixture_pid(redis_at(L)->fixture));
    return 1;
}

static int r_kill(lua_State *L)
{
    redis_fixture_kill(redis_at(L)->fixture);
    return 0;
}

static int r_stop(lua_State *L)
{
    return redis_fixture_stop(redis_at(L)->fixture) ? 0 : luaL_error(L, "redis-server does not stop");
}

static int r_restart(lua_State *L)
{
    return redis_fixture_restart(redis_at(L)->fixture) ? 0 : luaL_error(L, "redis-server does not start again");
}

/* A list as a table, nil as false, an error as text that begins with "-". */
static void push_reply(lua_State *L, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        lua_pushinteger(L, reply->integer);
        break;
    case REDIS_REPLY_ARRAY:
        luaL_checkstack(L, 4, "nested replies");
        lua_createtable(L, (int)reply->elements, 0);
        for (size_t i = 0; i < reply->elements; i++) {
            push_reply(L, reply->element[i]);
            lua_seti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case REDIS_REPLY_NIL:
        lua_pushboolean(L, 0);
        break;
    case REDIS_REPLY_ERROR:
        lua_pushfstring(L, "-%s", reply->str);
        break;
    default:
        lua_pushlstring(L, reply->str, reply->len);
    }
}

static redisReply *ask(redis *r, int n, const char **words, const size_t *lens)
{
    redisReply *reply = r->connection ? redisCommandArgv(r->connection, n, words, lens) : NULL;

    if (reply)
        return reply;
    if (r->connection)
        redisFree(r->connection);
    r->connection = redisConnectUnix(redis_fixture_socket(r->fixture));
    return r->connection->err ? NULL : redisCommandArgv(r->connection, n, words, lens);
}

/* ask(word, ...) */
static int r_ask(lua_State *L)
{
    enum { WORDS = 64 };
    const char *words[WORDS];
    size_t lens[WORDS];
    int n = lua_gettop(L) - 1;

    luaL_argcheck(L, n > 0 && n <= WORDS, 2, "no command, or a long one");
    for (int i = 0; i < n; i++)
        words[i] = luaL_checklstring(L, i + 2, &lens[i]);
    redisReply *reply = ask(redis_at(L), n, words, lens);
    if (!reply)
        return luaL_error(L, "no answer to %s", words[0]);
    push_reply(L, reply);
    freeReplyObject(reply);
    return 1;
}

static const luaL_Reg redis_methods[] = {{"url", r_url},   {"dir", r_dir},         {"pid", r_pid}, {"kill", r_kill},
                                         {"stop", r_stop}, {"restart", r_restart}, {"ask", r_ask}, {NULL, NULL}};

/* ---- channels: world.channel(urls, {timeout_ms=, ...}) ------------------------------------------- */

static void end_channel(void *it)
{
    lks_channel_close(it);
}

static int l_channel(lua_State *L)
{
    const lks_channel_options options = {
        .timeout_ms = (uint32_t)number_field(L, 2, "timeout_ms"),
        .in_flight_max = (uint32_t)number_field(L, 2, "in_flight_max"),
        .no_retry = number_field(L, 2, "no_retry"),
        .token = text_field(L, 2, "token"),
    };
    lks_channel *channel = NULL;
    lks_error error;

    if (lks_channel_open(luaL_checkstring(L, 1), &options, &channel, &error) != LKS_OK)
        return luaL_error(L, "%s: %s", lks_code_name(error.code), error.message);
    thing_push(L, "Channel", channel, end_channel);
    return 1;
}

/* Closes it before the case ends: calls under way end. */
static int ch_close(lua_State *L)
{
    thing *t = *(thing **)luaL_checkudata(L, 1, "Channel");

    lks_channel_close(t->it);
    t->it = NULL;
    return 0;
}

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {
    LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD) LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD)
        LKS_ID_METHODS(METHOD) LKS_GUARD_METHODS(METHOD) LKS_ADMIN_METHODS(METHOD)};

static const lks_rpc_method *const *more_methods;
static size_t n_more_methods;

void lua_world_add_methods(const lks_rpc_method *const *more, size_t n)
{
    more_methods = more;
    n_more_methods = n;
}

static const lks_rpc_method *method_of(const lks_rpc_method *const *all, size_t n, const char *end)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(strrchr(all[i]->path, '.'), end) == 0)
            return all[i];
    return NULL;
}

const lks_rpc_method *method_at(lua_State *L, int index)
{
    const char *name = luaL_checkstring(L, index), *dot = strchr(name, '.');
    char end[128];

    snprintf(end, sizeof end, ".%.*sService/%s", dot ? (int)(dot - name) : 0, name, dot ? dot + 1 : name);
    const lks_rpc_method *found = method_of(methods, sizeof methods / sizeof *methods, end);
    if (!found && !(found = method_of(more_methods, n_more_methods, end)))
        luaL_error(L, "no service has a method %s", name);
    return found;
}

/* methods(): {service = "Lock", name = "Lock.Acquire", effect = "WRITE"} of each */
static int l_methods(lua_State *L)
{
    static const char *const effects[] = {
        [LKS_RPC_EFFECT_READ] = "READ", [LKS_RPC_EFFECT_WRITE] = "WRITE", [LKS_RPC_EFFECT_ADMIN] = "ADMIN"};

    lua_newtable(L);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const char *service = strrchr(methods[i]->path, '.') + 1, *end = strstr(service, "Service/");
        lua_createtable(L, 0, 4);
        lua_pushlstring(L, service, (size_t)(end - service));
        lua_pushfstring(L, "%s.%s", lua_tostring(L, -1), end + strlen("Service/"));
        lua_setfield(L, -3, "name");
        lua_setfield(L, -2, "service");
        lua_pushstring(L, effects[methods[i]->effect]);
        lua_setfield(L, -2, "effect");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

typedef struct pending {
    lks_call *call;
    atomic_bool done;
} pending;

static void end_call(void *it)
{
    lks_call_free(((pending *)it)->call);
}

static void on_done(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                    const lks_error *error)
{
    pending *p = arg;

    atomic_store(&p->done, true);
}

static lks_call_options options_at(lua_State *L, int at)
{
    return (lks_call_options){
        .timeout_ms = (uint32_t)number_field(L, at, "timeout_ms"),
        .no_retry = number_field(L, at, "no_retry"),
    };
}

/* start(method, request, {timeout_ms=, no_retry=}): a call */
static int ch_start(lua_State *L)
{
    lks_channel *channel = thing_at(L, 1, "Channel");
    const lks_rpc_method *method = method_at(L, 2);
    const lks_call_options options = options_at(L, 4);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    pending *p = calloc(1, sizeof *p);
    lks_error error;

    const ProtobufCMessage *request = lua_message_read(L, 3, method->request, arena);
    thing_push(L, "Call", p, end_call)->memory = p;
    lks_code code = lks_call_start(channel, method, request, &options, on_done, NULL, p, &p->call, &error);
    lks_rpc_arena_free(arena);
    return code == LKS_OK ? 1 : luaL_error(L, "%s: %s", lks_code_name(code), error.message);
}

/* call(method, request, options): response or nil, error */
static int ch_call(lua_State *L)
{
    lks_channel *channel = thing_at(L, 1, "Channel");
    const lks_rpc_method *method = method_at(L, 2);
    const lks_call_options options = options_at(L, 4);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    ProtobufCMessage *response = NULL;
    lks_error error = {0};

    lks_call_run(channel, method, lua_message_read(L, 3, method->request, arena), &options, &response, &error);
    lks_rpc_arena_free(arena);
    lua_message_push_answer(L, response, &error);
    lks_message_free(response);
    return 2;
}

static int call_done(lua_State *L)
{
    pending *p = thing_at(L, 1, "Call");

    lua_pushboolean(L, atomic_load(&p->done));
    return 1;
}

/* wait(): response or nil, error */
static int call_wait(lua_State *L)
{
    pending *p = thing_at(L, 1, "Call");
    lks_error error = {0};

    lks_call_wait(p->call, &error);
    return lua_message_push_answer(L, lks_call_response(p->call), &error);
}

static int call_cancel(lua_State *L)
{
    lks_call_cancel(((pending *)thing_at(L, 1, "Call"))->call);
    return 0;
}

/* free(): before the case ends */
static int call_free(lua_State *L)
{
    pending *p = thing_at(L, 1, "Call");

    lks_call_free(p->call);
    p->call = NULL;
    return 0;
}

static const luaL_Reg channel_methods[] = {{"start", ch_start}, {"call", ch_call}, {"close", ch_close}, {NULL, NULL}};
static const luaL_Reg call_methods[] = {
    {"done", call_done}, {"wait", call_wait}, {"cancel", call_cancel}, {"free", call_free}, {NULL, NULL}};

void lua_world_open_calls(lua_State *L)
{
    things_define(L, "Redis", redis_methods);
    things_define(L, "Channel", channel_methods);
    things_define(L, "Call", call_methods);
    lua_pushcfunction(L, l_redis);
    lua_setfield(L, -2, "redis");
    lua_pushcfunction(L, l_channel);
    lua_setfield(L, -2, "channel");
    lua_pushcfunction(L, l_methods);
    lua_setfield(L, -2, "methods");
}

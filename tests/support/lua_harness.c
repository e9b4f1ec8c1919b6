/* Invariant: what a case started (waiting calls, subscriptions) ends with lua_harness_reset. */
#include "support/lua_harness.h"

#include <hiredis/hiredis.h>
#include <lauxlib.h>
#include <string.h>

#include "functions/library.h"
#include "services/stock_place.h"
#include "support/lua_message.h"
#include "support/machine_engine.h"
#include "test.h"

enum { SERVERS = 8, WAITING_MAX = 16384, NAMES_MAX = 64, ARGS_MAX = 4096 };

static harness *h;
static harness_waiting *waiting[WAITING_MAX];
static size_t n_waiting;
static struct {
    const char *server;
    redisContext *connection; /* not with the machine */
} listening[SERVERS];

/* A copy that stays: the harness does not copy ids of servers and names of namespaces. */
static const char *kept(const char *name)
{
    static char *names[NAMES_MAX];
    size_t i = 0;

    while (i < NAMES_MAX && names[i] && strcmp(names[i], name) != 0)
        i++;
    if (i == NAMES_MAX)
        fail_msg("more than %d names", NAMES_MAX);
    if (!names[i])
        names[i] = strdup(name);
    return names[i];
}

/* ---- one call ------------------------------------------------------------------- */

/* The request at `index` for the method, in the arena that *arena is set to. */
static const void *request_at(lua_State *L, int index, const char *method, lks_rpc_arena **arena)
{
    const service *s;

    if (!*arena)
        *arena = lks_rpc_arena_new();
    return lua_message_read(L, index, harness_method(method, &s)->method->request, *arena);
}

/* call(method, request): response or nil, error */
static int l_call(lua_State *L)
{
    const char *method = luaL_checkstring(L, 1);
    lks_rpc_arena *arena = NULL;
    lks_error error;
    const void *response = harness_call(h, method, request_at(L, 2, method, &arena), &error);

    lks_rpc_arena_free(arena);
    return lua_message_push_answer(L, response, &error);
}

/* call_bytes(method, bytes): response or nil, error */
static int l_call_bytes(lua_State *L)
{
    size_t len;
    const char *bytes = luaL_checklstring(L, 2, &len);
    lks_error error;
    const void *response = harness_call_bytes(h, luaL_checkstring(L, 1), bytes, len, &error);

    return lua_message_push_answer(L, response, &error);
}

/* together(method, requests): a list of {response=, error=} */
static int l_together(lua_State *L)
{
    enum { MANY = 256 };
    const char *method = luaL_checkstring(L, 1);
    lks_rpc_arena *arena = NULL;
    const void *requests[MANY], *responses[MANY] = {0};
    lks_error errors[MANY];
    size_t n = (size_t)luaL_len(L, 2);

    luaL_argcheck(L, n <= MANY, 2, "too many");
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, 2, (lua_Integer)i + 1);
        requests[i] = request_at(L, lua_gettop(L), method, &arena);
        lua_pop(L, 1);
    }
    harness_call_together(h, method, n, requests, responses, errors);
    lks_rpc_arena_free(arena);
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_createtable(L, 0, 2);
        lua_message_push_answer(L, responses[i], &errors[i]);
        lua_setfield(L, -3, "error");
        lua_setfield(L, -2, "response");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ---- calls that wait -------------------------------------------------------------- */

static harness_waiting *waiting_at(lua_State *L, int index)
{
    lua_Integer i = luaL_checkinteger(L, index);

    luaL_argcheck(L, i >= 1 && (size_t)i <= n_waiting, index, "no such call");
    return waiting[i - 1];
}

/* plan(server, method, request): the number of the call, which begin(number) makes */
static int l_plan(lua_State *L)
{
    const char *method = luaL_checkstring(L, 2);
    lks_rpc_arena *arena = NULL;

    luaL_argcheck(L, n_waiting < WAITING_MAX, 1, "too many calls");
    waiting[n_waiting++] = harness_plan(h, kept(luaL_checkstring(L, 1)), method, request_at(L, 3, method, &arena));
    lks_rpc_arena_free(arena);
    lua_pushinteger(L, (lua_Integer)n_waiting);
    return 1;
}

/* planned(number): how many store calls are planned, the weight of the first */
static int l_planned(lua_State *L)
{
    size_t weight, n = harness_planned(waiting_at(L, 1), &weight);

    lua_pushinteger(L, (lua_Integer)n);
    lua_pushinteger(L, (lua_Integer)weight);
    return 2;
}

static int l_begin(lua_State *L)
{
    harness_begin(h, waiting_at(L, 1));
    return 0;
}

/* event(number, "WOKEN" | "DEADLINE" | "ABANDONED", at once) */
static int l_event(lua_State *L)
{
    static const char *const names[] = {"WOKEN", "DEADLINE", "ABANDONED", NULL};
    static const service_event_kind kinds[] = {SERVICE_WOKEN, SERVICE_WAIT_OVER, SERVICE_ABANDONED};
    const service_event event = {.kind = kinds[luaL_checkoption(L, 2, NULL, names)]};

    harness_event(h, waiting_at(L, 1), event, lua_toboolean(L, 3));
    return 0;
}

/* grant(number, "7,8", "token copy"): a message contains the fences, for that copy of the call */
static int l_grant(lua_State *L)
{
    const char *text = luaL_checkstring(L, 2);
    int64_t fences[SERVICE_TARGETS_MAX];
    uint32_t n = 0;

    for (char *end; *text && n < SERVICE_TARGETS_MAX; text = *end == ',' ? end + 1 : end)
        fences[n++] = strtoll(text, &end, 10);
    harness_event(h, waiting_at(L, 1),
                  (service_event){SERVICE_GRANTED, n, fences, .to = lks_rpc_slice_of(luaL_checkstring(L, 3))}, false);
    return 0;
}

static int l_is_parked(lua_State *L)
{
    lua_pushboolean(L, harness_is_parked(waiting_at(L, 1)));
    return 1;
}

/* answer(number): response or nil, error */
static int l_answer(lua_State *L)
{
    lks_error error;
    const void *response = harness_answer(waiting_at(L, 1), &error);

    return lua_message_push_answer(L, response, &error);
}

/* ---- alarms -------------------------------------------------------------------------- */

/* alarms(number), alarms() of the last call: a list of {function=, base=, argument=, in_ms=, lasting=} */
static int l_alarms(lua_State *L)
{
    const service_alarm *a = lua_isnoneornil(L, 1) ? harness_last_alarms(h) : harness_alarms(waiting_at(L, 1));

    lua_newtable(L);
    for (lua_Integer i = 1; a; a = a->next, i++) {
        lua_createtable(L, 0, 5);
        lua_pushstring(L, a->function);
        lua_setfield(L, -2, "function");
        lua_pushlstring(L, a->base.data, a->base.len);
        lua_setfield(L, -2, "base");
        lua_pushlstring(L, a->argument.data, a->argument.len);
        lua_setfield(L, -2, "argument");
        lua_pushinteger(L, a->in_ms);
        lua_setfield(L, -2, "in_ms");
        lua_pushboolean(L, a->lasting);
        lua_setfield(L, -2, "lasting");
        lua_seti(L, -2, i);
    }
    return 1;
}

static int before_body = LUA_NOREF;

static lks_applied run_before(void *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, before_body);
    lua_call(L, 0, 1);
    const char *fails = lua_tostring(L, -1);
    const lks_applied applied = !fails                     ? LKS_APPLIED_YES
                                : strcmp(fails, "NO") == 0 ? LKS_APPLIED_NO
                                                           : LKS_APPLIED_MAYBE;
    lua_pop(L, 1);
    return applied;
}

/* before(n, body): before store call n of the calls that follow, body runs; "NO" or "MAYBE": that call then fails so */
static int l_before(lua_State *L)
{
    luaL_unref(L, LUA_REGISTRYINDEX, before_body);
    lua_pushvalue(L, 2);
    before_body = luaL_ref(L, LUA_REGISTRYINDEX);
    harness_before(h, (unsigned)luaL_checkinteger(L, 1), run_before, L);
    return 0;
}

/* ring(function, base, argument): the ms that the alarm replies */
static int l_ring(lua_State *L)
{
    const service_alarm alarm = {.function = luaL_checkstring(L, 1),
                                 .base = lks_rpc_slice_of(luaL_checkstring(L, 2)),
                                 .argument = lks_rpc_slice_of(luaL_optstring(L, 3, ""))};

    lua_pushinteger(L, harness_ring(h, &alarm));
    return 1;
}

/* ---- Redis, subscriptions -------------------------------------------------------------- */

/* redis(word, ...): the reply as harness_redis gives it */
static int l_redis(lua_State *L)
{
    static const char *args[ARGS_MAX];
    static size_t lens[ARGS_MAX];
    int n = lua_gettop(L);

    luaL_argcheck(L, n > 0 && n <= ARGS_MAX, 1, "no command, or a long one");
    for (int i = 0; i < n; i++)
        args[i] = luaL_checklstring(L, i + 1, &lens[i]);
    lua_pushstring(L, harness_redis_words(h, n, args, lens));
    return 1;
}

static size_t listener(const char *server)
{
    size_t i = 0;

    server = kept(server);
    while (i < SERVERS && listening[i].server && listening[i].server != server)
        i++;
    if (i == SERVERS)
        fail_msg("more than %d servers", SERVERS);
    listening[i].server = server;
    return i;
}

static const char *channel_of(size_t i)
{
    static char channel[128];

    snprintf(channel, sizeof channel, "ls:wake:%s", listening[i].server);
    return channel;
}

static void unlisten(size_t i)
{
    if (listening[i].server && harness_machine(h))
        machine_engine_listen(harness_machine(h), channel_of(i), false);
    if (!listening[i].connection)
        return;
    redisFree(listening[i].connection);
    listening[i].connection = NULL;
    /* Redis has noticed when it counts none. */
    while (atoi(strchr(harness_redis(h, "PUBSUB NUMSUB ls:wake:%s", listening[i].server), '\n') + 1) > 0)
        ;
}

/* listen(server, whether): the server subscribes, or its connection breaks */
static int l_listen(lua_State *L)
{
    const char *server = luaL_checkstring(L, 1);
    size_t i = listener(server);
    char path[256];

    unlisten(i);
    if (!lua_toboolean(L, 2))
        return 0;
    if (harness_machine(h))
        machine_engine_listen(harness_machine(h), channel_of(i), true);
    if (!harness_has_redis(h))
        return 0;
    assert_int_equal(sscanf(harness_redis(h, "CONFIG GET unixsocket"), "%*s %255s", path), 1);
    listening[i].connection = redisConnectUnix(path);
    assert_non_null(listening[i].connection);
    freeReplyObject(redisCommand(listening[i].connection, "SUBSCRIBE ls:wake:%s", server));
    return 0;
}

/* Appends {server, text} to the list on top. */
static void push_message(lua_State *L, const char *server, const char *text, size_t len)
{
    lua_createtable(L, 2, 0);
    lua_pushstring(L, server);
    lua_seti(L, -2, 1);
    lua_pushlstring(L, text, len);
    lua_seti(L, -2, 2);
    lua_seti(L, -2, luaL_len(L, -2) + 1);
}

/* A message is read after a PONG on its own connection, so that all that was published before are in. */
static void push_messages_of_redis(lua_State *L, size_t i)
{
    redisReply *reply = NULL;

    redisAppendCommand(listening[i].connection, "PING");
    for (;; freeReplyObject(reply)) {
        assert_int_equal(redisGetReply(listening[i].connection, (void **)&reply), REDIS_OK);
        if (strcmp(reply->element[0]->str, "message") != 0)
            break;
        push_message(L, listening[i].server, reply->element[2]->str, reply->element[2]->len);
    }
    freeReplyObject(reply);
}

static void push_messages_of_machine(lua_State *L, size_t i)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    lks_rpc_slice text;

    while ((text = machine_engine_message(harness_machine(h), channel_of(i), arena)).data)
        push_message(L, listening[i].server, text.data, text.len);
    lks_rpc_arena_free(arena);
}

/* messages(): a list of {server, text}, in order of the servers */
static int l_messages(lua_State *L)
{
    lua_newtable(L);
    for (size_t i = 0; i < SERVERS; i++) {
        if (listening[i].connection)
            push_messages_of_redis(L, i);
        if (listening[i].server && harness_machine(h))
            push_messages_of_machine(L, i);
    }
    return 1;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static int l_commands(lua_State *L)
{
    lua_pushinteger(L, harness_commands(h, luaL_checkstring(L, 1)));
    return 1;
}

/* store_call(method, function, base): the service of the method is told of a store call */
static int l_store_call(lua_State *L)
{
    const service *s;

    harness_method(luaL_checkstring(L, 1), &s);
    harness_store_call(h, s, luaL_checkstring(L, 2), luaL_checkstring(L, 3));
    return 0;
}

/* bucket_name(k): the name of bucket k of a group, 0 of its pool */
static int l_bucket_name(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)stock_bucket_name((unsigned)luaL_checkinteger(L, 1)));
    return 1;
}

static int l_snapshot(lua_State *L)
{
    lua_pushstring(L, harness_snapshot(h));
    return 1;
}

static int l_advance_ms(lua_State *L)
{
    harness_advance_ms(h, luaL_checkinteger(L, 1));
    return 0;
}

static int l_namespace(lua_State *L)
{
    harness_namespace(h, kept(luaL_checkstring(L, 1)));
    return 0;
}

static int l_repeat_ms(lua_State *L)
{
    harness_repeat_ms(h, (uint32_t)luaL_checkinteger(L, 1));
    return 0;
}

static int l_server(lua_State *L)
{
    harness_server(h, kept(luaL_checkstring(L, 1)));
    return 0;
}

static int l_server_ends(lua_State *L)
{
    harness_server_ends(h, luaL_checkstring(L, 1));
    return 0;
}

/* options{sequence_block=, remembers_refusals=}, of states that are made from now on in this case */
static int l_options(lua_State *L)
{
    service_options options = {.sequence_block = 1};

    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_getfield(L, 1, "sequence_block") != LUA_TNIL)
        options.sequence_block = luaL_checkinteger(L, -1);
    lua_getfield(L, 1, "remembers_refusals");
    options.remembers_refusals = lua_toboolean(L, -1);
    harness_service_options(h, &options);
    return 0;
}

static int l_alter(lua_State *L)
{
    harness_alter(h, luaL_checkstring(L, 1), luaL_checkstring(L, 2));
    return 0;
}

static int l_forget(lua_State *L)
{
    for (size_t i = 0; i < n_waiting; i++)
        if (harness_is_parked(waiting[i]))
            return 0;
    n_waiting = 0;
    harness_forget(h);
    return 0;
}

void lua_harness_close(void)
{
    for (size_t i = 0; i < SERVERS; i++)
        unlisten(i);
    n_waiting = 0;
}

void lua_harness_reset(harness *of)
{
    h = of;
    lua_harness_close();
    harness_service_options(h, &(service_options){.sequence_block = 1});
    harness_redis(h, "CONFIG SET maxmemory 0"); /* as a case that failed may have left it */
    harness_reset(h);
}

/* reset(): as before a case */
static int l_reset(lua_State *L)
{
    lua_harness_reset(h);
    return 0;
}

void lua_harness_open(lua_State *L, harness *of)
{
    static const luaL_Reg functions[] = {{"call", l_call},
                                         {"call_bytes", l_call_bytes},
                                         {"together", l_together},
                                         {"plan", l_plan},
                                         {"planned", l_planned},
                                         {"begin", l_begin},
                                         {"event", l_event},
                                         {"grant", l_grant},
                                         {"is_parked", l_is_parked},
                                         {"answer", l_answer},
                                         {"alarms", l_alarms},
                                         {"before", l_before},
                                         {"ring", l_ring},
                                         {"redis", l_redis},
                                         {"listen", l_listen},
                                         {"messages", l_messages},
                                         {"commands", l_commands},
                                         {"store_call", l_store_call},
                                         {"bucket_name", l_bucket_name},
                                         {"snapshot", l_snapshot},
                                         {"advance_ms", l_advance_ms},
                                         {"namespace", l_namespace},
                                         {"repeat_ms", l_repeat_ms},
                                         {"server", l_server},
                                         {"server_ends", l_server_ends},
                                         {"options", l_options},
                                         {"alter", l_alter},
                                         {"forget", l_forget},
                                         {"reset", l_reset},
                                         {NULL, NULL}};

    h = of;
    luaL_newlib(L, functions);
    lua_pushstring(L, functions_digest);
    lua_setfield(L, -2, "digest");
    lua_pushinteger(L, STORE_WEIGHT_MAX);
    lua_setfield(L, -2, "weight_max");
    lua_pushboolean(L, h && harness_machine(h) && !harness_has_redis(h));
    lua_setfield(L, -2, "is_machine");
    lua_pushboolean(L, h && harness_machine(h) && harness_has_redis(h));
    lua_setfield(L, -2, "has_two_stores");
    lua_setglobal(L, "harness");
}

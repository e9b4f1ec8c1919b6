/* world.caller(url, {ca=, certificate=}): a peer over SP's own bytes that says who it is; world.authority(name). */
#include <stdlib.h>
#include <string.h>

#include "conformance/caller.h"
#include "conformance/line.h"
#include "support/certificates.h"
#include "support/lua_message.h"
#include "support/lua_things.h"

/* ---- callers ------------------------------------------------------------------------------------ */

typedef struct caller {
    const wire_driver *driver;
    void *state;
    const line *line; /* the state's */
} caller;

static void end_caller(void *it)
{
    caller *c = it;

    if (c->state)
        c->driver->close(c->state);
    c->state = NULL;
}

/* nil when it is refused. The key of a certificate is in the file beside it, <certificate>.key. */
static int l_caller(lua_State *L)
{
    const char *url = luaL_checkstring(L, 1), *certificate = text_field(L, 2, "certificate");
    const line_tls tls = {.ca = text_field(L, 2, "ca"),
                          .certificate = certificate,
                          .key = certificate ? lua_pushfstring(L, "%s.key", certificate) : NULL};
    const wire_driver *driver = strncmp(url, "wss://", 6) == 0 ? &ws_driver : &sp_driver;
    line *l = line_open_tls(url, &tls);
    void *state = driver->open_on(l, url);

    if (!state)
        return 0;
    caller *c = malloc(sizeof *c);
    *c = (caller){.driver = driver, .state = state, .line = l};
    thing_push(L, "Caller", c, end_caller)->memory = c;
    return 1;
}

/* send(method, request, token, ns): does not wait. A method is a name, or the path of one that no service has. */
static int c_send(lua_State *L)
{
    caller *c = thing_at(L, 1, "Caller");
    const char *path = luaL_checkstring(L, 2), *token = lua_tostring(L, 4);
    const lks_rpc_method *method = *path == '/' ? NULL : method_at(L, 2);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    call_spec call = {.method = method ? method->path : path,
                      .payload = "",
                      .timeout_ms = LINE_TIMEOUT_MS / 2,
                      .ns = lua_tostring(L, 5),
                      .authorization = token ? lua_pushfstring(L, "Bearer %s", token) : NULL};

    if (method && lua_istable(L, 3)) {
        const ProtobufCMessage *request = lua_message_read(L, 3, method->request, arena);
        uint8_t *packed = lks_rpc_arena_alloc(arena, protobuf_c_message_get_packed_size(request) + 1);
        call.len = protobuf_c_message_pack(request, packed);
        call.payload = packed;
    }
    bool sent = c->driver->start(c->state, &call) != 0;
    lks_rpc_arena_free(arena);
    return sent ? 0 : luaL_error(L, "%s: the connection has ended", path);
}

/* ask(method, request, token, ns): {code=, applied=, message=, bare=, says_when=, response=} */
static int c_ask(lua_State *L)
{
    caller *c = thing_at(L, 1, "Caller");
    outcome got;

    c_send(L);
    if (!c->driver->await(c->state, &got))
        return luaL_error(L, "%s: the connection ended", lua_tostring(L, 2));
    lua_createtable(L, 0, 8);
    lua_pushstring(L, lks_code_name(got.code));
    lua_setfield(L, -2, "code");
    lua_pushstring(L, lks_applied_name(got.applied));
    lua_setfield(L, -2, "applied");
    lua_pushstring(L, got.message);
    lua_setfield(L, -2, "message");
    lua_pushboolean(L, got.bare);
    lua_setfield(L, -2, "bare");
    lua_pushboolean(L, got.says_when);
    lua_setfield(L, -2, "says_when");
    if (got.code == LKS_OK) {
        ProtobufCMessage *response = protobuf_c_message_unpack(method_at(L, 2)->response, NULL, got.len, got.payload);
        lua_message_push(L, response);
        lua_setfield(L, -2, "response");
        protobuf_c_message_free_unpacked(response, NULL);
    }
    free(got.payload);
    return 1;
}

/* server_name(): the common name of the server's certificate */
static int c_server_name(lua_State *L)
{
    lua_pushstring(L, line_server_name(((caller *)thing_at(L, 1, "Caller"))->line));
    return 1;
}

static int c_close(lua_State *L)
{
    end_caller(thing_at(L, 1, "Caller"));
    return 0;
}

/* ---- certificates ------------------------------------------------------------------------------- */

static void end_authority(void *it)
{
    authority_free(it);
}

static int l_authority(lua_State *L)
{
    thing_push(L, "Authority", authority_new(luaL_checkstring(L, 1)), end_authority);
    return 1;
}

/* write(path): its own certificate */
static int a_write(lua_State *L)
{
    authority_write(thing_at(L, 1, "Authority"), luaL_checkstring(L, 2));
    return 0;
}

/* sign(path, {common=, dns=, from_s=, until_s=}): a certificate, and its key in <path>.key */
static int a_sign(lua_State *L)
{
    const certificate_wish wish = {.common = {.text = text_field(L, 3, "common")},
                                   .dns = {{.text = text_field(L, 3, "dns")}},
                                   .valid_from_s = (long)number_field(L, 3, "from_s"),
                                   .valid_until_s = (long)number_field(L, 3, "until_s")};

    authority_sign(thing_at(L, 1, "Authority"), &wish, luaL_checkstring(L, 2),
                   lua_pushfstring(L, "%s.key", lua_tostring(L, 2)));
    return 0;
}

void lua_world_open_callers(lua_State *L)
{
    static const luaL_Reg functions[] = {{"caller", l_caller}, {"authority", l_authority}, {NULL, NULL}};
    static const luaL_Reg caller_methods[] = {
        {"send", c_send}, {"ask", c_ask}, {"server_name", c_server_name}, {"close", c_close}, {NULL, NULL}};

    things_define(L, "Caller", caller_methods);
    things_define(L, "Authority", (const luaL_Reg[]){{"write", a_write}, {"sign", a_sign}, {NULL, NULL}});
    luaL_setfuncs(L, functions, 0);
}

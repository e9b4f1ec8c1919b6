#include "support/lua_message.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

static void *at(const ProtobufCMessage *message, size_t offset)
{
    return (char *)message + offset;
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 4;
    }
}

/* ---- from a table ------------------------------------------------------------- */

/* The part of the name after the prefix that it shares with a first value ..._UNSPECIFIED; else after the last "__" of
 * the C name. */
static const char *word_of(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    const char *word = known ? known->c_name : "?";

    if (known && strstr(type->values[0].name, "UNSPECIFIED"))
        return known->name + strlen(type->values[0].name) - strlen("UNSPECIFIED");
    for (const char *at = word; (at = strstr(at, "__")); at += 2)
        word = at + 2;
    return word;
}

/* A value of the type by its word ("SHARED") or its number. */
static int read_enum(lua_State *L, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;

    if (lua_isinteger(L, -1))
        return (int)lua_tointeger(L, -1);
    const char *word = luaL_checkstring(L, -1);
    for (unsigned i = 0; i < type->n_values; i++)
        if (strcmp(word_of(type, type->values[i].value), word) == 0)
            return type->values[i].value;
    return luaL_error(L, "%s has no value %s", type->name, word);
}

static lua_Integer read_integer(lua_State *L, const ProtobufCFieldDescriptor *field)
{
    int is_integer;
    lua_Integer value = lua_tointegerx(L, -1, &is_integer);

    if (!is_integer)
        luaL_error(L, "%s is not an integer: %s", field->name, luaL_tolstring(L, -1, NULL));
    return value;
}

/* The value at the top of the stack, which is popped. */
static void read_value(lua_State *L, const ProtobufCFieldDescriptor *field, void *to, lks_rpc_arena *arena)
{
    size_t len;

    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)to = lua_toboolean(L, -1);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)to = read_enum(L, field);
        break;
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = luaL_checklstring(L, -1, &len);
        *(char **)to = lks_rpc_arena_copy(arena, text, len);
        break;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData *bytes = to;
        const char *text = luaL_checklstring(L, -1, &bytes->len);
        bytes->data = (uint8_t *)lks_rpc_arena_copy(arena, text, bytes->len);
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)to = lua_message_read(L, lua_gettop(L), field->descriptor, arena);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)to = luaL_checknumber(L, -1);
        break;
    default:
        if (size_of(field) == 8)
            *(int64_t *)to = read_integer(L, field);
        else
            *(int32_t *)to = (int32_t)read_integer(L, field);
    }
    lua_pop(L, 1);
}

static void read_list(lua_State *L, const ProtobufCFieldDescriptor *field, ProtobufCMessage *message,
                      lks_rpc_arena *arena)
{
    size_t size = size_of(field);

    luaL_checktype(L, -1, LUA_TTABLE);
    size_t n = (size_t)luaL_len(L, -1);
    char *list = lks_rpc_arena_alloc(arena, n * size + 1);
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, -1, (lua_Integer)i + 1);
        read_value(L, field, list + i * size, arena);
    }
    *(size_t *)at(message, field->quantifier_offset) = n;
    *(void **)at(message, field->offset) = list;
    lua_pop(L, 1);
}

ProtobufCMessage *lua_message_read(lua_State *L, int index, const ProtobufCMessageDescriptor *type,
                                   lks_rpc_arena *arena)
{
    ProtobufCMessage *message = lks_rpc_arena_alloc(arena, type->sizeof_message);

    luaL_checktype(L, index, LUA_TTABLE);
    luaL_checkstack(L, 8, "nested messages");
    protobuf_c_message_init(type, message);
    for (lua_pushnil(L); lua_next(L, index);) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "[a number]";
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type, name);
        if (!field)
            luaL_error(L, "%s has no field %s", type->short_name, name);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            read_list(L, field, message, arena);
            continue;
        }
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            *(uint32_t *)at(message, field->quantifier_offset) = field->id;
        else if (field->quantifier_offset)
            *(protobuf_c_boolean *)at(message, field->quantifier_offset) = 1;
        read_value(L, field, at(message, field->offset), arena);
    }
    return message;
}

/* ---- to a table ----------------------------------------------------------------- */

static void push_value(lua_State *L, const ProtobufCFieldDescriptor *field, const void *from)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        lua_pushboolean(L, *(const protobuf_c_boolean *)from);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        lua_pushstring(L, word_of(field->descriptor, *(const int *)from));
        break;
    case PROTOBUF_C_TYPE_STRING:
        lua_pushstring(L, *(char *const *)from);
        break;
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = from;
        lua_pushlstring(L, (const char *)bytes->data, bytes->len);
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        lua_message_push(L, *(ProtobufCMessage *const *)from);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        lua_pushnumber(L, *(const double *)from);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        lua_pushinteger(L, *(const uint32_t *)from);
        break;
    default:
        lua_pushinteger(L, size_of(field) == 8 ? *(const int64_t *)from : *(const int32_t *)from);
    }
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)at(message, field->quantifier_offset) == field->id;
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset)
        return *(const protobuf_c_boolean *)at(message, field->quantifier_offset);
    return true;
}

static void push_list(lua_State *L, const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    size_t n = *(const size_t *)at(message, field->quantifier_offset), size = size_of(field);
    const char *list = *(char *const *)at(message, field->offset);

    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        push_value(L, field, list + i * size);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
}

void lua_message_push(lua_State *L, const ProtobufCMessage *message)
{
    if (!message) {
        lua_pushnil(L);
        return;
    }
    luaL_checkstack(L, 8, "nested messages");
    lua_createtable(L, 0, (int)message->descriptor->n_fields);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            push_list(L, field, message);
        else if (is_set(message, field))
            push_value(L, field, at(message, field->offset));
        else
            continue;
        lua_setfield(L, -2, field->name);
    }
}

int lua_message_push_answer(lua_State *L, const ProtobufCMessage *response, const lks_error *error)
{
    lua_message_push(L, response);
    lua_createtable(L, 0, 8);
    lua_pushstring(L, lks_code_name(error->code));
    lua_setfield(L, -2, "code");
    lua_pushstring(L, lks_applied_name(error->applied));
    lua_setfield(L, -2, "applied");
    lua_pushstring(L, error->message);
    lua_setfield(L, -2, "message");
    lua_pushstring(L, error->field);
    lua_setfield(L, -2, "field");
    lua_pushstring(L, lks_reason_name(error->reason));
    lua_setfield(L, -2, "reason");
    lua_pushboolean(L, error->origin == LKS_ORIGIN_PEER);
    lua_setfield(L, -2, "from_peer");
    lua_pushinteger(L, error->retry_after_ms);
    lua_setfield(L, -2, "retry_after_ms");
    return 2;
}

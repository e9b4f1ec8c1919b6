#include "machine/lua_struct.h"

#include <ctype.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 8, DIGITS_MAX = 9 };

/* One option of a format. */
typedef struct option {
    char kind; /* 'i' for all integers */
    bool is_signed;
    size_t size; /* of c: the number after it */
} option;

typedef struct format {
    lua_State *L;
    const char *at;
    bool big_endian;
} format;

static size_t read_size(format *f, size_t default_size)
{
    size_t size = 0;

    if (!isdigit((unsigned char)*f->at))
        return default_size;
    for (int digits = 0; isdigit((unsigned char)*f->at); digits++) {
        if (digits == DIGITS_MAX)
            luaL_error(f->L, "a size in the format is too large");
        size = 10 * size + (size_t)(*f->at++ - '0');
    }
    return size;
}

static size_t integer_size(format *f, char kind)
{
    switch (tolower((unsigned char)kind)) {
    case 'b':
        return 1;
    case 'h':
        return sizeof(short);
    case 'l':
        return sizeof(long);
    default:
        break;
    }
    size_t size = read_size(f, sizeof(int));
    if (size == 0 || size > NUMBER_BYTES_MAX)
        luaL_error(f->L, "integral size %d is not from 1 to %d", (int)size, NUMBER_BYTES_MAX);
    return size;
}

/* Reads the next option that packs data. Returns false at the end of the format. */
static bool next_option(format *f, option *o)
{
    while (*f->at == ' ' || *f->at == '<' || *f->at == '>') {
        if (*f->at != ' ')
            f->big_endian = *f->at == '>';
        f->at++;
    }
    *o = (option){.kind = *f->at};
    if (o->kind == '\0')
        return false;
    f->at++;
    switch (o->kind) {
    case 'b':
    case 'B':
    case 'h':
    case 'H':
    case 'i':
    case 'I':
    case 'l':
    case 'L':
        o->is_signed = islower((unsigned char)o->kind);
        o->size = integer_size(f, o->kind);
        o->kind = 'i';
        break;
    case 'f':
        o->size = sizeof(float);
        break;
    case 'd':
        o->size = sizeof(double);
        break;
    case 'x':
        o->size = 1;
        break;
    case 'c':
        o->size = read_size(f, 1);
        break;
    case 's':
        break;
    default:
        luaL_argerror(f->L, 1, lua_pushfstring(f->L, "invalid format option '%c'", o->kind));
    }
    return true;
}

/* ---- pack -------------------------------------------------------------------------- */

static void add_bits(const format *f, luaL_Buffer *b, uint64_t bits, size_t size)
{
    for (size_t i = 0; i < size; i++)
        luaL_addchar(b, (char)(bits >> 8 * (f->big_endian ? size - 1 - i : i)));
}

/* Replaces a number that does not fit in 64 bits by the nearest one that does. Redis leaves this to its compiler. */
static uint64_t integer_bits(double number)
{
    if (number != number)
        return 0;
    if (number >= 18446744073709551615.0)
        return UINT64_MAX;
    if (number >= 9223372036854775807.0)
        return (uint64_t)number;
    return number <= -9223372036854775808.0 ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)number;
}

static void add_text(lua_State *L, luaL_Buffer *b, int arg, const option *o)
{
    size_t len;
    const char *text = luaL_checklstring(L, arg, &len);

    luaL_argcheck(L, len >= o->size, arg + 1, "string too short");
    luaL_addlstring(b, text, o->size > 0 ? o->size : len);
    if (o->kind == 's')
        luaL_addchar(b, '\0');
}

static int pack(lua_State *L)
{
    format f = {.L = L, .at = luaL_checkstring(L, 1)};
    luaL_Buffer b;
    option o;
    int arg = 2;

    lua_pushnil(L); /* so a missing argument is nil, and not a part of the buffer */
    luaL_buffinit(L, &b);
    while (next_option(&f, &o)) {
        if (o.kind == 'x') {
            luaL_addchar(&b, '\0');
        } else if (o.kind == 'c' || o.kind == 's') {
            add_text(L, &b, arg++, &o);
        } else if (o.kind == 'i') {
            add_bits(&f, &b, integer_bits(luaL_checknumber(L, arg++)), o.size);
        } else if (o.kind == 'd') {
            double number = luaL_checknumber(L, arg++);
            uint64_t bits;
            memcpy(&bits, &number, sizeof bits);
            add_bits(&f, &b, bits, sizeof bits);
        } else {
            float number = (float)luaL_checknumber(L, arg++);
            uint32_t bits;
            memcpy(&bits, &number, sizeof bits);
            add_bits(&f, &b, bits, sizeof bits);
        }
    }
    luaL_pushresult(&b);
    return 1;
}

/* ---- unpack ------------------------------------------------------------------------ */

static uint64_t read_bits(const format *f, const char *from, size_t size)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)(unsigned char)from[f->big_endian ? size - 1 - i : i] << 8 * i;
    return bits;
}

static void push_integer(lua_State *L, uint64_t bits, const option *o)
{
    unsigned above = (unsigned)(8 * (NUMBER_BYTES_MAX - o->size));

    if (o->is_signed)
        lua_pushnumber(L, (lua_Number)((int64_t)(bits << above) >> above));
    else
        lua_pushnumber(L, (lua_Number)bits);
}

static void push_number(lua_State *L, const format *f, const char *from, const option *o)
{
    uint64_t bits = read_bits(f, from, o->size);

    if (o->kind == 'i') {
        push_integer(L, bits, o);
    } else if (o->kind == 'd') {
        double number;
        memcpy(&number, &bits, sizeof number);
        lua_pushnumber(L, number);
    } else {
        uint32_t low_bits = (uint32_t)bits;
        float number;
        memcpy(&number, &low_bits, sizeof number);
        lua_pushnumber(L, (lua_Number)number);
    }
}

/* Returns the size for c0: pops the previous value. */
static size_t size_before(lua_State *L)
{
    if (lua_gettop(L) < 3 || !lua_isnumber(L, -1))
        luaL_error(L, "format 'c0' needs a previous size");
    double size = lua_tonumber(L, -1);
    lua_pop(L, 1);
    luaL_argcheck(L, size >= 0 && size <= INT_MAX, 2, "data string too short");
    return (size_t)size;
}

/* Pushes the text at `from`, where `left` bytes follow. Returns how many bytes it has read. */
static size_t push_text(lua_State *L, const option *o, const char *from, size_t left)
{
    size_t size = o->size;

    if (o->kind == 's') {
        const char *end = memchr(from, '\0', left);
        if (!end)
            luaL_error(L, "unfinished string in data");
        lua_pushlstring(L, from, (size_t)(end - from));
        return (size_t)(end - from) + 1;
    }
    if (size == 0) {
        size = size_before(L);
        luaL_argcheck(L, size <= left, 2, "data string too short");
    }
    lua_pushlstring(L, from, size);
    return size;
}

static int unpack(lua_State *L)
{
    format f = {.L = L, .at = luaL_checkstring(L, 1)};
    size_t len;
    const char *data = luaL_checklstring(L, 2, &len);
    lua_Integer position = luaL_optinteger(L, 3, 1);
    option o;

    luaL_argcheck(L, position > 0, 3, "offset must be 1 or greater");
    size_t at = (size_t)position - 1;
    lua_settop(L, 2);
    while (next_option(&f, &o)) {
        luaL_argcheck(L, at <= len && o.size <= len - at, 2, "data string too short");
        luaL_checkstack(L, 2, "too many results");
        if (o.kind == 'c' || o.kind == 's') {
            at += push_text(L, &o, data + at, len - at);
        } else {
            if (o.kind != 'x')
                push_number(L, &f, data + at, &o);
            at += o.size;
        }
    }
    lua_pushinteger(L, (lua_Integer)at + 1);
    return lua_gettop(L) - 2;
}

void lua_struct_open(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, pack);
    lua_setfield(L, -2, "pack");
    lua_pushcfunction(L, unpack);
    lua_setfield(L, -2, "unpack");
    lua_setglobal(L, "struct");
}

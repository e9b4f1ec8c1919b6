/* The table of commands, and the commands for any key, for strings and for the server. A handler checks everything,
 * then changes the keys, then pushes its reply: so its change is complete even if the push fails. */
#include "machine/commands.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "memory.h"

enum { SCAN_COUNT = 10, STRING_BYTES_MAX = 512 << 20, DIGITS = 20 };

#define WRONG_EXPIRE "ERR invalid expire time in 'set' command"

/* ---- words and replies -------------------------------------------------------------- */

bool command_word_is(lks_rpc_slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

bool command_integer(lks_rpc_slice word, int64_t *ret)
{
    char text[DIGITS + 1];
    char *end;

    if (word.len == 0 || word.len > DIGITS)
        return false;
    memcpy(text, word.data, word.len);
    text[word.len] = '\0';
    errno = 0;
    *ret = strtoll(text, &end, 10);
    return end == text + word.len && errno == 0;
}

void command_push_text(lua_State *L, lks_rpc_slice text)
{
    lua_pushlstring(L, text.data ? text.data : "", text.len);
}

const char *command_push_integer(const command_call *c, int64_t number)
{
    lua_pushnumber(c->L, (lua_Number)number);
    return NULL;
}

static void push_digits(lua_State *L, int64_t number)
{
    char text[DIGITS + 2];

    lua_pushlstring(L, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
}

static const char *push_nil(const command_call *c)
{
    lua_pushboolean(c->L, 0);
    return NULL;
}

static const char *push_status(const command_call *c, const char *status)
{
    lua_createtable(c->L, 0, 1);
    lua_pushstring(c->L, status);
    lua_setfield(c->L, -2, "ok");
    return NULL;
}

/* ---- strings ------------------------------------------------------------------------ */

static const char *get(const command_call *c)
{
    lks_rpc_slice value;
    keys_found found = keys_get(c->keys, c->words[1], &value);

    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    if (found == KEYS_ABSENT)
        return push_nil(c);
    command_push_text(c->L, value);
    return NULL;
}

typedef struct set_options {
    bool if_new, returns_old, keeps_end;
    const lks_rpc_slice *ms;
} set_options;

static bool read_set_options(const command_call *c, set_options *o)
{
    for (size_t i = 3; i < c->n; i++)
        if (command_word_is(c->words[i], "NX"))
            o->if_new = true;
        else if (command_word_is(c->words[i], "GET"))
            o->returns_old = true;
        else if (command_word_is(c->words[i], "KEEPTTL") && !o->ms)
            o->keeps_end = true;
        else if (command_word_is(c->words[i], "PX") && !o->ms && !o->keeps_end && i + 1 < c->n)
            o->ms = &c->words[++i];
        else
            return false;
    return true;
}

static const char *set_end(const command_call *c, const set_options *o, int64_t *end_us)
{
    int64_t ms;

    *end_us = o->keeps_end ? KEYS_KEEP_END : 0;
    if (!o->ms)
        return NULL;
    if (!command_integer(*o->ms, &ms))
        return COMMAND_NOT_INTEGER;
    if (ms <= 0 || ms > (INT64_MAX - c->now_us) / 1000)
        return WRONG_EXPIRE;
    *end_us = c->now_us + ms * 1000;
    return NULL;
}

static const char *set(const command_call *c)
{
    set_options o = {0};
    int64_t end_us;

    if (!read_set_options(c, &o))
        return COMMAND_SYNTAX;
    const char *wrong = set_end(c, &o, &end_us);
    if (wrong)
        return wrong;
    bool is_there = keys_find(c->keys, c->words[1]);
    if (o.returns_old) {
        wrong = get(c); /* pushes the old value */
        if (wrong)
            return wrong;
    }
    if (o.if_new && is_there)
        return o.returns_old ? NULL : push_nil(c);
    keys_set(c->keys, c->words[1], c->words[2], end_us);
    return o.returns_old ? NULL : push_status(c, "OK");
}

static const char *setrange(const command_call *c)
{
    const lks_rpc_slice bytes = c->words[3];
    lks_rpc_slice old = {"", 0};
    int64_t at;

    if (!command_integer(c->words[2], &at))
        return COMMAND_NOT_INTEGER;
    if (at < 0 || at > STRING_BYTES_MAX)
        return "ERR offset is out of range";
    if (keys_get(c->keys, c->words[1], &old) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    const size_t end = (size_t)at + bytes.len, len = end > old.len ? end : old.len;
    char *text = memory_alloc(len + 1);
    memcpy(text, old.data, old.len);
    memcpy(text + at, bytes.data, bytes.len);
    keys_set(c->keys, c->words[1], (lks_rpc_slice){text, len}, KEYS_KEEP_END);
    free(text);
    return command_push_integer(c, (int64_t)len);
}

/* ---- any key ------------------------------------------------------------------------ */

static const char *del(const command_call *c)
{
    int64_t n = 0;

    for (size_t i = 1; i < c->n; i++)
        n += keys_delete(c->keys, c->words[i]);
    return command_push_integer(c, n);
}

static const char *pexpire(const command_call *c)
{
    int64_t ms;

    if (!command_integer(c->words[2], &ms))
        return COMMAND_NOT_INTEGER;
    if (ms > (INT64_MAX - c->now_us) / 1000)
        return "ERR invalid expire time in 'pexpire' command";
    if (ms <= 0)
        return command_push_integer(c, keys_delete(c->keys, c->words[1]));
    return command_push_integer(c, keys_set_end(c->keys, c->words[1], c->now_us + ms * 1000));
}

typedef struct scan {
    lua_State *L;
    const char *pattern; /* NULL: all */
    int n;
} scan;

static void take_key(void *arg, const keys_entry *key)
{
    scan *s = arg;

    if (s->pattern && fnmatch(s->pattern, key->name.data, 0) != 0)
        return;
    command_push_text(s->L, key->name);
    lua_rawseti(s->L, -2, ++s->n);
}

static const char *scan_keys(const command_call *c)
{
    scan s = {.L = c->L};
    int64_t count = SCAN_COUNT, from;

    if (!command_integer(c->words[1], &from) || from < 0)
        return "ERR invalid cursor";
    for (size_t i = 2; i < c->n; i += 2)
        if (i + 1 < c->n && command_word_is(c->words[i], "MATCH"))
            s.pattern = c->words[i + 1].data;
        else if (i + 1 == c->n || !command_word_is(c->words[i], "COUNT"))
            return COMMAND_SYNTAX;
        else if (!command_integer(c->words[i + 1], &count))
            return COMMAND_NOT_INTEGER;
    if (count < 1)
        return COMMAND_SYNTAX;
    lua_createtable(c->L, 2, 0);
    lua_newtable(c->L);
    uint64_t cursor = (uint64_t)from;
    keys_scan(c->keys, &cursor, (size_t)count, take_key, &s);
    lua_rawseti(c->L, -2, 2);
    push_digits(c->L, (int64_t)cursor);
    lua_rawseti(c->L, -2, 1);
    return NULL;
}

/* ---- the server --------------------------------------------------------------------- */

static const char *time_now(const command_call *c)
{
    lua_createtable(c->L, 2, 0);
    push_digits(c->L, c->now_us / 1000000);
    lua_rawseti(c->L, -2, 1);
    push_digits(c->L, c->now_us % 1000000);
    lua_rawseti(c->L, -2, 2);
    return NULL;
}

static const char *cluster(const command_call *c)
{
    (void)c;
    return "ERR This instance has cluster support disabled";
}

static const char *publish(const command_call *c)
{
    return command_push_integer(c, c->hooks ? c->hooks->publish(c->hooks->arg, c->words[1], c->words[2]) : 0);
}

static const char *pubsub(const command_call *c)
{
    if (!command_word_is(c->words[1], "NUMSUB"))
        return "ERR unknown subcommand. Try PUBSUB HELP.";
    lua_createtable(c->L, 2 * ((int)c->n - 2), 0);
    for (size_t i = 2; i < c->n; i++) {
        command_push_text(c->L, c->words[i]);
        lua_rawseti(c->L, -2, 2 * (int)i - 3);
        command_push_integer(c, c->hooks && c->hooks->is_subscribed(c->hooks->arg, c->words[i]));
        lua_rawseti(c->L, -2, 2 * (int)i - 2);
    }
    return NULL;
}

/* ---- the table ---------------------------------------------------------------------- */

/* Sorted by name. */
static const command commands[] = {
    {"CLUSTER", -2, cluster},
    {"DEL", -2, del},
    {"GET", 2, get},
    {"HDEL", -3, command_hdel},
    {"HGET", 3, command_hget},
    {"HGETALL", 2, command_hgetall},
    {"HINCRBY", 4, command_hincrby},
    {"HLEN", 2, command_hlen},
    {"HMGET", -3, command_hmget},
    {"HRANDFIELD", 4, command_hrandfield},
    {"HSET", -4, command_hset},
    {"PEXPIRE", 3, pexpire},
    {"PUBLISH", 3, publish},
    {"PUBSUB", -2, pubsub},
    {"SCAN", -2, scan_keys},
    {"SET", -3, set},
    {"SETRANGE", 4, setrange},
    {"TIME", 1, time_now},
    {"UNLINK", -2, del},
    {"ZADD", 4, command_zadd},
    {"ZCARD", 2, command_zcard},
    {"ZRANGE", -4, command_zrange},
    {"ZREM", 3, command_zrem},
    {"ZSCORE", 3, command_zscore},
};

static int compare_names(const void *name, const void *row)
{
    return strcasecmp(name, ((const command *)row)->name);
}

const command *command_find(lks_rpc_slice name)
{
    char text[16];

    if (name.len >= sizeof text)
        return NULL;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return bsearch(text, commands, sizeof commands / sizeof commands[0], sizeof commands[0], compare_names);
}

/* A handler checks everything, then changes the keys, then pushes its reply: so its change is complete even if the push
 * fails. */
#include "machine/commands.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "memory.h"

enum { SCAN_COUNT = 10, STRING_BYTES_MAX = 512 << 20, DIGITS = 20, SCORE_BYTES = 64 };

#define WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define SYNTAX "ERR syntax error"
#define NOT_INTEGER "ERR value is not an integer or out of range"
#define WRONG_EXPIRE "ERR invalid expire time in 'set' command"

/* ---- words and replies -------------------------------------------------------------- */

static bool word_is(lks_rpc_slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

static bool read_integer(lks_rpc_slice word, int64_t *ret)
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

static const char *push_integer(const command_call *c, int64_t number)
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

static const char *push_or_nil(const command_call *c, keys_found found, lks_rpc_slice text)
{
    if (found == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    if (found == KEYS_ABSENT)
        return push_nil(c);
    command_push_text(c->L, text);
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
    lks_rpc_slice value = {NULL, 0};
    keys_found found = keys_get(c->keys, c->words[1], &value);

    return push_or_nil(c, found, value);
}

typedef struct set_options {
    bool if_new, returns_old, keeps_end;
    const lks_rpc_slice *ms;
} set_options;

static bool read_set_options(const command_call *c, set_options *o)
{
    for (size_t i = 3; i < c->n; i++)
        if (word_is(c->words[i], "NX"))
            o->if_new = true;
        else if (word_is(c->words[i], "GET"))
            o->returns_old = true;
        else if (word_is(c->words[i], "KEEPTTL") && !o->ms)
            o->keeps_end = true;
        else if (word_is(c->words[i], "PX") && !o->ms && !o->keeps_end && i + 1 < c->n)
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
    if (!read_integer(*o->ms, &ms))
        return NOT_INTEGER;
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
        return SYNTAX;
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

    if (!read_integer(c->words[2], &at))
        return NOT_INTEGER;
    if (at < 0 || at > STRING_BYTES_MAX)
        return "ERR offset is out of range";
    if (keys_get(c->keys, c->words[1], &old) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    const size_t end = (size_t)at + bytes.len, len = end > old.len ? end : old.len;
    char *text = memory_alloc(len + 1);
    memcpy(text, old.data, old.len);
    memcpy(text + at, bytes.data, bytes.len);
    keys_set(c->keys, c->words[1], (lks_rpc_slice){text, len}, KEYS_KEEP_END);
    free(text);
    return push_integer(c, (int64_t)len);
}

/* ---- hashes -------------------------------------------------------------------------- */

static bool is_no_hash(const command_call *c)
{
    const keys_entry *key = keys_find(c->keys, c->words[1]);

    return key && key->type != KEYS_HASH;
}

static const char *hget(const command_call *c)
{
    lks_rpc_slice value = {NULL, 0};
    keys_found found = keys_field(c->keys, c->words[1], c->words[2], &value);

    return push_or_nil(c, found, value);
}

static const char *hmget(const command_call *c)
{
    if (is_no_hash(c))
        return WRONG_TYPE;
    lua_createtable(c->L, (int)c->n - 2, 0);
    for (size_t i = 2; i < c->n; i++) {
        lks_rpc_slice value = {NULL, 0};
        push_or_nil(c, keys_field(c->keys, c->words[1], c->words[i], &value), value);
        lua_rawseti(c->L, -2, (int)i - 1);
    }
    return NULL;
}

static const char *hset(const command_call *c)
{
    int64_t n_new = 0;

    if (c->n % 2 != 0)
        return "ERR wrong number of arguments for 'hset' command";
    if (is_no_hash(c))
        return WRONG_TYPE;
    for (size_t i = 2; i < c->n; i += 2)
        n_new += keys_set_field(c->keys, c->words[1], c->words[i], c->words[i + 1]) == KEYS_ABSENT;
    return push_integer(c, n_new);
}

static const char *hdel(const command_call *c)
{
    int64_t n = 0;

    if (is_no_hash(c))
        return WRONG_TYPE;
    for (size_t i = 2; i < c->n; i++)
        n += keys_delete_field(c->keys, c->words[1], c->words[i]) == KEYS_FOUND;
    return push_integer(c, n);
}

static const char *hlen(const command_call *c)
{
    const keys_item *first;
    size_t n;

    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    return push_integer(c, (int64_t)n);
}

/* Pushes the first n fields and their values. */
static void push_fields(lua_State *L, const keys_item *first, size_t n)
{
    int place = 0;

    lua_createtable(L, (int)(2 * n), 0);
    for (const keys_item *field = first; field && n > 0; field = keys_next_field(field), n--) {
        command_push_text(L, field->name);
        lua_rawseti(L, -2, ++place);
        command_push_text(L, field->value);
        lua_rawseti(L, -2, ++place);
    }
}

static const char *hgetall(const command_call *c)
{
    const keys_item *first;
    size_t n;

    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    push_fields(c->L, first, n);
    return NULL;
}

static const char *hincrby(const command_call *c)
{
    lks_rpc_slice value;
    int64_t by, number = 0;
    char text[24];

    if (!read_integer(c->words[3], &by))
        return NOT_INTEGER;
    keys_found found = keys_field(c->keys, c->words[1], c->words[2], &value);
    if (found == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    if (found == KEYS_FOUND && !read_integer(value, &number))
        return "ERR hash value is not an integer";
    if (__builtin_add_overflow(number, by, &number))
        return "ERR increment or decrement would overflow";
    int len = snprintf(text, sizeof text, "%lld", (long long)number);
    keys_set_field(c->keys, c->words[1], c->words[2], (lks_rpc_slice){text, (size_t)len});
    return push_integer(c, number);
}

/* Returns the first fields, with their values: Redis may return any. A negative count is not supported. */
static const char *hrandfield(const command_call *c)
{
    const keys_item *first;
    int64_t count;
    size_t n;

    if (!word_is(c->words[3], "WITHVALUES"))
        return SYNTAX;
    if (!read_integer(c->words[2], &count) || count < 0)
        return NOT_INTEGER;
    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    push_fields(c->L, first, (uint64_t)count < n ? (size_t)count : n);
    return NULL;
}

/* ---- sorted sets --------------------------------------------------------------------- */

/* A score is a whole number. */
static const char *zadd(const command_call *c)
{
    int64_t score;

    if (!read_integer(c->words[2], &score))
        return "ERR value is not a valid float";
    keys_found found = keys_set_member(c->keys, c->words[1], c->words[3], (double)score);
    if (found == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    return push_integer(c, found == KEYS_ABSENT);
}

static const char *zrem(const command_call *c)
{
    keys_found found = keys_delete_member(c->keys, c->words[1], c->words[2]);

    if (found == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    return push_integer(c, found == KEYS_FOUND);
}

static const char *zcard(const command_call *c)
{
    const keys_item *const *members;
    size_t n;

    if (keys_members(c->keys, c->words[1], &members, &n) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    return push_integer(c, (int64_t)n);
}

static void push_score(lua_State *L, double score)
{
    char text[SCORE_BYTES];

    lua_pushlstring(L, text, (size_t)snprintf(text, sizeof text, "%.17g", score));
}

static const char *zscore(const command_call *c)
{
    double score;
    keys_found found = keys_score(c->keys, c->words[1], c->words[2], &score);

    if (found == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    if (found == KEYS_FOUND)
        push_score(c->L, score);
    else
        lua_pushboolean(c->L, 0);
    return NULL;
}

/* Supports ranges by index only. */
static const char *zrange(const command_call *c)
{
    bool with_scores = c->n == 5 && word_is(c->words[4], "WITHSCORES");
    const keys_item *const *members;
    int64_t from, to;
    size_t n;

    if (c->n > 5 || (c->n == 5 && !with_scores))
        return SYNTAX;
    if (!read_integer(c->words[2], &from) || !read_integer(c->words[3], &to))
        return NOT_INTEGER;
    if (keys_members(c->keys, c->words[1], &members, &n) == KEYS_WRONG_TYPE)
        return WRONG_TYPE;
    from = from < 0 ? from + (int64_t)n : from;
    to = to < 0 ? to + (int64_t)n : to;
    from = from < 0 ? 0 : from;
    to = to >= (int64_t)n ? (int64_t)n - 1 : to;
    int place = 0;
    lua_createtable(c->L, from > to ? 0 : (int)(to - from + 1) * (with_scores ? 2 : 1), 0);
    for (int64_t i = from; i <= to; i++) {
        command_push_text(c->L, members[i]->name);
        lua_rawseti(c->L, -2, ++place);
        if (!with_scores)
            continue;
        push_score(c->L, members[i]->score);
        lua_rawseti(c->L, -2, ++place);
    }
    return NULL;
}

/* ---- any key ------------------------------------------------------------------------ */

static const char *del(const command_call *c)
{
    int64_t n = 0;

    for (size_t i = 1; i < c->n; i++)
        n += keys_delete(c->keys, c->words[i]);
    return push_integer(c, n);
}

static const char *pexpire(const command_call *c)
{
    int64_t ms;

    if (!read_integer(c->words[2], &ms))
        return NOT_INTEGER;
    if (ms > (INT64_MAX - c->now_us) / 1000)
        return "ERR invalid expire time in 'pexpire' command";
    if (ms <= 0)
        return push_integer(c, keys_delete(c->keys, c->words[1]));
    return push_integer(c, keys_set_end(c->keys, c->words[1], c->now_us + ms * 1000));
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

    if (!read_integer(c->words[1], &from) || from < 0)
        return "ERR invalid cursor";
    for (size_t i = 2; i < c->n; i += 2)
        if (i + 1 < c->n && word_is(c->words[i], "MATCH"))
            s.pattern = c->words[i + 1].data;
        else if (i + 1 == c->n || !word_is(c->words[i], "COUNT"))
            return SYNTAX;
        else if (!read_integer(c->words[i + 1], &count))
            return NOT_INTEGER;
    if (count < 1)
        return SYNTAX;
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
    return push_integer(c, c->hooks ? c->hooks->publish(c->hooks->arg, c->words[1], c->words[2]) : 0);
}

static const char *pubsub(const command_call *c)
{
    if (!word_is(c->words[1], "NUMSUB"))
        return "ERR unknown subcommand. Try PUBSUB HELP.";
    lua_createtable(c->L, 2 * ((int)c->n - 2), 0);
    for (size_t i = 2; i < c->n; i++) {
        command_push_text(c->L, c->words[i]);
        lua_rawseti(c->L, -2, 2 * (int)i - 3);
        push_integer(c, c->hooks && c->hooks->is_subscribed(c->hooks->arg, c->words[i]));
        lua_rawseti(c->L, -2, 2 * (int)i - 2);
    }
    return NULL;
}

/* ---- the table ---------------------------------------------------------------------- */

typedef struct command {
    const char *name;
    int arity; /* number of words, with the name; negative: the minimum */
    const char *(*run)(const command_call *c);
} command;

/* Sorted by name. */
static const command commands[] = {
    {"CLUSTER", -2, cluster},  {"DEL", -2, del},
    {"GET", 2, get},           {"HDEL", -3, hdel},
    {"HGET", 3, hget},         {"HGETALL", 2, hgetall},
    {"HINCRBY", 4, hincrby},   {"HLEN", 2, hlen},
    {"HMGET", -3, hmget},      {"HRANDFIELD", 4, hrandfield},
    {"HSET", -4, hset},        {"PEXPIRE", 3, pexpire},
    {"PUBLISH", 3, publish},   {"PUBSUB", -2, pubsub},
    {"SCAN", -2, scan_keys},   {"SET", -3, set},
    {"SETRANGE", 4, setrange}, {"TIME", 1, time_now},
    {"UNLINK", -2, del},       {"ZADD", 4, zadd},
    {"ZCARD", 2, zcard},       {"ZRANGE", -4, zrange},
    {"ZREM", 3, zrem},         {"ZSCORE", 3, zscore},
};

static int compare_names(const void *name, const void *row)
{
    return strcasecmp(name, ((const command *)row)->name);
}

static const command *find(lks_rpc_slice name)
{
    char text[16];

    if (name.len >= sizeof text)
        return NULL;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return bsearch(text, commands, sizeof commands / sizeof commands[0], sizeof commands[0], compare_names);
}

const char *command_run(const command_call *c)
{
    const command *known = find(c->words[0]);

    if (!known)
        return "ERR Unknown Redis command called from script";
    if (known->arity >= 0 ? c->n != (size_t)known->arity : c->n < (size_t)-known->arity)
        return "ERR Wrong number of args calling Redis command from script";
    return known->run(c);
}

/* The commands for hashes and sorted sets. */
#include "machine/commands.h"

#include <stdio.h>

enum { SCORE_BYTES = 64 };

static const char *push_or_nil(const command_call *c, keys_found found, lks_rpc_slice text)
{
    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    if (found == KEYS_ABSENT)
        lua_pushboolean(c->L, 0);
    else
        command_push_text(c->L, text);
    return NULL;
}

/* ---- hashes -------------------------------------------------------------------------- */

static bool is_no_hash(const command_call *c)
{
    const keys_entry *key = keys_find(c->keys, c->words[1]);

    return key && key->type != KEYS_HASH;
}

const char *command_hget(const command_call *c)
{
    lks_rpc_slice value = {NULL, 0};
    keys_found found = keys_field(c->keys, c->words[1], c->words[2], &value);

    return push_or_nil(c, found, value);
}

const char *command_hmget(const command_call *c)
{
    if (is_no_hash(c))
        return COMMAND_WRONG_TYPE;
    lua_createtable(c->L, (int)c->n - 2, 0);
    for (size_t i = 2; i < c->n; i++) {
        lks_rpc_slice value = {NULL, 0};
        push_or_nil(c, keys_field(c->keys, c->words[1], c->words[i], &value), value);
        lua_rawseti(c->L, -2, (int)i - 1);
    }
    return NULL;
}

const char *command_hset(const command_call *c)
{
    int64_t n_new = 0;

    if (c->n % 2 != 0)
        return "ERR wrong number of arguments for 'hset' command";
    if (is_no_hash(c))
        return COMMAND_WRONG_TYPE;
    for (size_t i = 2; i < c->n; i += 2)
        n_new += keys_set_field(c->keys, c->words[1], c->words[i], c->words[i + 1]) == KEYS_ABSENT;
    return command_push_integer(c, n_new);
}

const char *command_hdel(const command_call *c)
{
    int64_t n = 0;

    if (is_no_hash(c))
        return COMMAND_WRONG_TYPE;
    for (size_t i = 2; i < c->n; i++)
        n += keys_delete_field(c->keys, c->words[1], c->words[i]) == KEYS_FOUND;
    return command_push_integer(c, n);
}

const char *command_hlen(const command_call *c)
{
    const keys_item *first;
    size_t n;

    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    return command_push_integer(c, (int64_t)n);
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

const char *command_hgetall(const command_call *c)
{
    const keys_item *first;
    size_t n;

    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    push_fields(c->L, first, n);
    return NULL;
}

const char *command_hincrby(const command_call *c)
{
    lks_rpc_slice value;
    int64_t by, number = 0;
    char text[24];

    if (!command_integer(c->words[3], &by))
        return COMMAND_NOT_INTEGER;
    keys_found found = keys_field(c->keys, c->words[1], c->words[2], &value);
    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    if (found == KEYS_FOUND && !command_integer(value, &number))
        return "ERR hash value is not an integer";
    if (__builtin_add_overflow(number, by, &number))
        return "ERR increment or decrement would overflow";
    int len = snprintf(text, sizeof text, "%lld", (long long)number);
    keys_set_field(c->keys, c->words[1], c->words[2], (lks_rpc_slice){text, (size_t)len});
    return command_push_integer(c, number);
}

/* Returns the first fields, with their values: Redis may return any. A negative count is not supported. */
const char *command_hrandfield(const command_call *c)
{
    const keys_item *first;
    int64_t count;
    size_t n;

    if (!command_word_is(c->words[3], "WITHVALUES"))
        return COMMAND_SYNTAX;
    if (!command_integer(c->words[2], &count) || count < 0)
        return COMMAND_NOT_INTEGER;
    if (keys_fields(c->keys, c->words[1], &first, &n) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    push_fields(c->L, first, (uint64_t)count < n ? (size_t)count : n);
    return NULL;
}

/* ---- sorted sets --------------------------------------------------------------------- */

/* A score is a whole number. */
const char *command_zadd(const command_call *c)
{
    int64_t score;

    if (!command_integer(c->words[2], &score))
        return "ERR value is not a valid float";
    keys_found found = keys_set_member(c->keys, c->words[1], c->words[3], (double)score);
    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    return command_push_integer(c, found == KEYS_ABSENT);
}

const char *command_zrem(const command_call *c)
{
    keys_found found = keys_delete_member(c->keys, c->words[1], c->words[2]);

    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    return command_push_integer(c, found == KEYS_FOUND);
}

const char *command_zcard(const command_call *c)
{
    const keys_item *const *members;
    size_t n;

    if (keys_members(c->keys, c->words[1], &members, &n) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    return command_push_integer(c, (int64_t)n);
}

static void push_score(lua_State *L, double score)
{
    char text[SCORE_BYTES];

    lua_pushlstring(L, text, (size_t)snprintf(text, sizeof text, "%.17g", score));
}

const char *command_zscore(const command_call *c)
{
    double score;
    keys_found found = keys_score(c->keys, c->words[1], c->words[2], &score);

    if (found == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
    if (found == KEYS_FOUND)
        push_score(c->L, score);
    else
        lua_pushboolean(c->L, 0);
    return NULL;
}

/* Supports ranges by index only. */
const char *command_zrange(const command_call *c)
{
    bool with_scores = c->n == 5 && command_word_is(c->words[4], "WITHSCORES");
    const keys_item *const *members;
    int64_t from, to;
    size_t n;

    if (c->n > 5 || (c->n == 5 && !with_scores))
        return COMMAND_SYNTAX;
    if (!command_integer(c->words[2], &from) || !command_integer(c->words[3], &to))
        return COMMAND_NOT_INTEGER;
    if (keys_members(c->keys, c->words[1], &members, &n) == KEYS_WRONG_TYPE)
        return COMMAND_WRONG_TYPE;
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

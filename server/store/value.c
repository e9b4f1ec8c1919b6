/* A decoded value never outlives what it was made of (value_of) unless it was
 * copied (store_value_copy). Depth is bounded by hiredis' reader: 7 levels. */
#include "store/value.h"

#include <hiredis/hiredis.h>
#include <string.h>
#include <strings.h>

static bool decode(lks_rpc_arena *arena, const redisReply *reply, store_value *ret)
{
    store_value *element;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        *ret = (store_value){.type = STORE_INTEGER, .integer = reply->integer};
        return true;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        *ret = (store_value){.type = STORE_STRING, .string = {reply->str, reply->len}};
        return true;
    case REDIS_REPLY_ERROR:
        *ret = (store_value){.type = STORE_ERROR, .string = {reply->str, reply->len}};
        return true;
    case REDIS_REPLY_ARRAY:
        element = lks_rpc_arena_alloc(arena, reply->elements * sizeof *element);
        if (!element)
            return false;
        *ret = (store_value){.type = STORE_ARRAY, .n = reply->elements, .element = element};
        for (size_t i = 0; i < reply->elements; i++) {
            if (!decode(arena, reply->element[i], &element[i]))
                return false;
        }
        return true;
    default:
        *ret = (store_value){.type = STORE_NIL};
        return true;
    }
}

const store_value *value_of(lks_rpc_arena *arena, const redisReply *reply)
{
    store_value *value = lks_rpc_arena_alloc(arena, sizeof *value);

    return value && decode(arena, reply, value) ? value : NULL;
}

const redisReply *value_field(const redisReply *pairs, const char *name)
{
    for (size_t i = 0; pairs->type == REDIS_REPLY_ARRAY && i + 1 < pairs->elements; i += 2) {
        if (pairs->element[i]->type == REDIS_REPLY_STRING && strcasecmp(pairs->element[i]->str, name) == 0)
            return pairs->element[i + 1];
    }
    return NULL;
}

bool value_is(const store_value *value, const char *text)
{
    return value->type == STORE_STRING && value->string.len == strlen(text) &&
           memcmp(value->string.data, text, value->string.len) == 0;
}

static bool copy(lks_rpc_arena *arena, const store_value *value, store_value *ret)
{
    *ret = *value;
    if (value->type == STORE_STRING || value->type == STORE_ERROR) {
        ret->string.data = lks_rpc_arena_copy(arena, value->string.data, value->string.len);
        return ret->string.data != NULL;
    }
    if (value->type != STORE_ARRAY)
        return true;
    store_value *element = lks_rpc_arena_alloc(arena, value->n * sizeof *element);
    if (!element)
        return false;
    ret->element = element;
    for (size_t i = 0; i < value->n; i++) {
        if (!copy(arena, &value->element[i], &element[i]))
            return false;
    }
    return true;
}

const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value)
{
    store_value *copied = lks_rpc_arena_alloc(arena, sizeof *copied);

    return copied && copy(arena, value, copied) ? copied : NULL;
}

/* A value from value_of points into its reply; a copy (store_value_copy) does not. hiredis' reader limits the depth to
 * 7 levels. */
#include "store/value.h"

#include <hiredis/hiredis.h>
#include <string.h>
#include <strings.h>

#include "memory.h"
#include "slice.h"

static store_value decode(lks_rpc_arena *arena, const redisReply *reply)
{
    store_value *element;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (store_value){.type = STORE_INTEGER, .integer = reply->integer};
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return (store_value){.type = STORE_STRING, .string = {reply->str, reply->len}};
    case REDIS_REPLY_ERROR:
        return (store_value){.type = STORE_ERROR, .string = {reply->str, reply->len}};
    case REDIS_REPLY_ARRAY:
        element = memory_in(arena, reply->elements * sizeof *element);
        for (size_t i = 0; i < reply->elements; i++)
            element[i] = decode(arena, reply->element[i]);
        return (store_value){.type = STORE_ARRAY, .n = reply->elements, .element = element};
    default:
        return (store_value){.type = STORE_NIL};
    }
}

const store_value *value_of(lks_rpc_arena *arena, const redisReply *reply)
{
    store_value *value = memory_in(arena, sizeof *value);

    *value = decode(arena, reply);
    return value;
}

const redisReply *value_field(const redisReply *pairs, const char *name)
{
    for (size_t i = 0; pairs->type == REDIS_REPLY_ARRAY && i + 1 < pairs->elements; i += 2)
        if (pairs->element[i]->type == REDIS_REPLY_STRING && strcasecmp(pairs->element[i]->str, name) == 0)
            return pairs->element[i + 1];
    return NULL;
}

const char *value_text(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_STRING ? reply->str : "";
}

const char *value_field_text(const redisReply *pairs, const char *name)
{
    return value_text(value_field(pairs, name));
}

bool value_is(const store_value *value, const char *text)
{
    return value->type == STORE_STRING && slice_is(value->string, text);
}

static store_value copy(lks_rpc_arena *arena, const store_value *value)
{
    store_value copied = *value;

    if (value->type == STORE_STRING || value->type == STORE_ERROR) {
        copied.string.data = memory_copy_in(arena, value->string.data, value->string.len);
    } else if (value->type == STORE_ARRAY) {
        store_value *element = memory_in(arena, value->n * sizeof *element);
        for (size_t i = 0; i < value->n; i++)
            element[i] = copy(arena, &value->element[i]);
        copied.element = element;
    }
    return copied;
}

const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value)
{
    store_value *copied = memory_in(arena, sizeof *copied);

    *copied = copy(arena, value);
    return copied;
}

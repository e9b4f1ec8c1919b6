/* Converts replies of hiredis to store_value. */
#ifndef LOCKSTOCK_SERVER_STORE_VALUE_H
#define LOCKSTOCK_SERVER_STORE_VALUE_H

#include <stdbool.h>

#include "store/types.h"

struct redisReply;

/* Converts a reply. The value's nodes are in the arena, its bytes in the reply: it is valid as long as both. */
const store_value *value_of(lks_rpc_arena *arena, const struct redisReply *reply);

/* Returns the value of `name` in a flat array of names and values, ignoring case; NULL = none, or no such array. */
const struct redisReply *value_field(const struct redisReply *pairs, const char *name);

/* Returns the text of a string; "" for NULL and other replies. */
const char *value_text(const struct redisReply *reply);

/* value_text of value_field. */
const char *value_field_text(const struct redisReply *pairs, const char *name);

bool value_is(const store_value *value, const char *text);

#endif

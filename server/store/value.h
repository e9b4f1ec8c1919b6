/* Replies without Redis: hiredis' tree as store_value. */
#ifndef LOCKSTOCK_SERVER_STORE_VALUE_H
#define LOCKSTOCK_SERVER_STORE_VALUE_H

#include <stdbool.h>

#include "store/store.h"

struct redisReply;

/* The reply as a store_value: nodes in the arena, bytes still the reply's, so
 * that it lives as long as both. */
const store_value *value_of(lks_rpc_arena *arena, const struct redisReply *reply);

/* What follows `name`, in any case, in a flat array of names and values; NULL =
 * nothing, or no such array. */
const struct redisReply *value_field(const struct redisReply *pairs, const char *name);

/* Whether a string of a reply is this text. */
bool value_is(const store_value *value, const char *text);

#endif

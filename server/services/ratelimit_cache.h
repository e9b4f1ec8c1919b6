/* The policies that this server has read lately, and the names of which it has read that
 * there is none: a bounded number, the least recently used one goes first. What it holds
 * is as old as read_ns says; whether that is too old is the caller's to say. Loop thread
 * only. */
#ifndef LOCKSTOCK_SERVER_RATELIMIT_CACHE_H
#define LOCKSTOCK_SERVER_RATELIMIT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

#include "services/ratelimit.h"

typedef struct ratelimit_cache ratelimit_cache;

typedef struct cached_policy {
    bool exists, shadow;
    limit_spec spec;
    uint64_t read_ns; /* CLOCK_MONOTONIC, before it was asked for */
} cached_policy;

/* Room for `capacity` names, at least 1. */
ratelimit_cache *ratelimit_cache_new(size_t capacity);

/* Takes NULL. */
void ratelimit_cache_free(ratelimit_cache *c);

/* What is known of the name, now the most recently used one; valid until the cache is
 * changed. NULL: nothing. */
const cached_policy *ratelimit_cache_find(ratelimit_cache *c, lks_rpc_slice ns, const char *name);

/* Keeps a copy in place of what was known. */
void ratelimit_cache_put(ratelimit_cache *c, lks_rpc_slice ns, const char *name, const cached_policy *policy);

void ratelimit_cache_forget(ratelimit_cache *c, lks_rpc_slice ns, const char *name);

#endif

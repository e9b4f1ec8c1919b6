/* uthash with a random seed: a client that can choose keys cannot choose keys that collide. */
#ifndef LOCKSTOCK_SERVER_HASHED_H
#define LOCKSTOCK_SERVER_HASHED_H

#include <stdlib.h>

/* The seed is chosen once per process. Thread-safe. */
unsigned hashed_of(const void *key, size_t len);

#define HASH_FUNCTION(key, len, hash) ((hash) = hashed_of(key, len))
#define uthash_fatal(message) abort() /* as memory_alloc */
#include <uthash.h>

#endif

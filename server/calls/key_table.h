/* Finds by a text what lives in structs of the caller's: a hash table that grows with
 * what is in it, so that a look takes the same few steps for any number. Several may
 * have the same key. */
#ifndef LOCKSTOCK_SERVER_KEY_TABLE_H
#define LOCKSTOCK_SERVER_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>

typedef struct keyed {
    TAILQ_ENTRY(keyed) in_bucket;
    lks_rpc_slice key; /* the caller's; it must stay while it is in the table */
    uint64_t hash;
} keyed;

/* Zeroed at first. */
typedef struct key_table {
    struct key_bucket *buckets;
    size_t n_buckets, n;
    uint64_t seed; /* nobody outside can choose keys that meet */
} key_table;

/* Puts it in, after those of the same key; its key is set. */
void key_table_add(key_table *table, keyed *k);

/* Takes it out; it must be in. */
void key_table_remove(key_table *table, keyed *k);

/* The first with that key, and the next with the key of k; NULL = none. */
keyed *key_table_find(const key_table *table, lks_rpc_slice key);
keyed *key_table_next(const keyed *k);

/* Frees the table, which must be empty. */
void key_table_clear(key_table *table);

#endif

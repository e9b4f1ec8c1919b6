/* Invariant: a chain holds what hashes to its bucket, those of one key in the order in
 * which they came; there are no more entries than buckets. */
#include "calls/key_table.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/method.h>

#include "base/hash.h"
#include "memory.h"

enum { BUCKETS_MIN = 16 };

typedef TAILQ_HEAD(key_bucket, keyed) key_bucket;

static uint64_t hash_of(uint64_t seed, lks_rpc_slice key)
{
    return hash_folded(hash_more(HASH_START ^ seed, key.data, key.len));
}

static bool is_of(const keyed *k, uint64_t hash, lks_rpc_slice key)
{
    return k->hash == hash && k->key.len == key.len && memcmp(k->key.data, key.data, key.len) == 0;
}

static key_bucket *bucket_of(const key_table *table, uint64_t hash)
{
    return &table->buckets[hash % table->n_buckets];
}

/* A random id is of 16 bytes and more. */
static uint64_t new_seed(void)
{
    char id[LKS_RPC_RANDOM_ID_LEN + 1];

    lks_rpc_random_id(id);
    return hash_of(0, lks_rpc_slice_of(id));
}

/* Twice the width. */
static void widen(key_table *table)
{
    key_table wide = {.n_buckets = table->n_buckets ? 2 * table->n_buckets : BUCKETS_MIN, .n = table->n};
    keyed *k;

    wide.seed = table->n_buckets ? table->seed : new_seed();
    wide.buckets = memory_alloc(wide.n_buckets * sizeof *wide.buckets);
    for (size_t i = 0; i < wide.n_buckets; i++)
        TAILQ_INIT(&wide.buckets[i]);
    for (size_t i = 0; i < table->n_buckets; i++) {
        while ((k = TAILQ_FIRST(&table->buckets[i]))) {
            TAILQ_REMOVE(&table->buckets[i], k, in_bucket);
            TAILQ_INSERT_TAIL(bucket_of(&wide, k->hash), k, in_bucket);
        }
    }
    free(table->buckets);
    *table = wide;
}

void key_table_add(key_table *table, keyed *k)
{
    if (table->n >= table->n_buckets)
        widen(table);
    k->hash = hash_of(table->seed, k->key);
    TAILQ_INSERT_TAIL(bucket_of(table, k->hash), k, in_bucket);
    table->n++;
}

void key_table_remove(key_table *table, keyed *k)
{
    TAILQ_REMOVE(bucket_of(table, k->hash), k, in_bucket);
    table->n--;
}

keyed *key_table_find(const key_table *table, lks_rpc_slice key)
{
    if (table->n == 0)
        return NULL;
    uint64_t hash = hash_of(table->seed, key);
    keyed *k = TAILQ_FIRST(bucket_of(table, hash));

    while (k && !is_of(k, hash, key))
        k = TAILQ_NEXT(k, in_bucket);
    return k;
}

keyed *key_table_next(const keyed *k)
{
    keyed *next = TAILQ_NEXT(k, in_bucket);

    while (next && !is_of(next, k->hash, k->key))
        next = TAILQ_NEXT(next, in_bucket);
    return next;
}

void key_table_clear(key_table *table)
{
    free(table->buckets);
    *table = (key_table){0};
}

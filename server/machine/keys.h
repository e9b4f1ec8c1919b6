/* The keys of one group, as in Redis: strings, hashes and sorted sets, each with an optional expiry (its end). A key is
 * found by name in a sorted array; a field or a member in a hash table.
 *
 * Times are microseconds of the group's time, which the caller passes. A key whose end has passed stays until
 * keys_expire. Used by one thread at a time. If memory runs out, the process ends (memory.h). Returned slices point
 * into the keys, and are valid until the next change. */
#ifndef LOCKSTOCK_SERVER_MACHINE_KEYS_H
#define LOCKSTOCK_SERVER_MACHINE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

typedef struct keys keys;

typedef enum keys_type { KEYS_STRING = 1, KEYS_HASH, KEYS_ZSET } keys_type;

/* Whether a key, field or member exists. WRONG_TYPE: the key has another type, and nothing was changed. */
typedef enum keys_found { KEYS_WRONG_TYPE = -1, KEYS_ABSENT, KEYS_FOUND } keys_found;

typedef struct keys_entry {
    lks_rpc_slice name; /* a NUL follows it */
    keys_type type;
    int64_t end_us; /* 0: it does not expire; never negative */
} keys_entry;

/* A field of a hash, or a member of a sorted set. */
typedef struct keys_item {
    lks_rpc_slice name;
    lks_rpc_slice value; /* only of a field */
    double score;        /* only of a member */
} keys_item;

/* Returns an empty set of keys. The caller frees it. */
keys *keys_new(void);

/* Takes NULL. */
void keys_free(keys *k);

size_t keys_count(const keys *k);

/* How many bytes keys_pack writes. O(1). */
size_t keys_bytes(const keys *k);

/* How many writes have changed the keys since keys_new or keys_unpack. keys_expire does not count: every reader of the
 * keys gets the same result from its own call. */
uint64_t keys_changes(const keys *k);

/* Removes the keys whose end is before now_us, as Redis does. */
void keys_expire(keys *k, int64_t now_us);

/* ---- any key ------------------------------------------------------------------- */

/* Returns NULL if there is no such key. */
const keys_entry *keys_find(const keys *k, lks_rpc_slice name);

/* Returns the i-th key, in the byte order of names; i < keys_count. */
const keys_entry *keys_at(const keys *k, size_t i);

/* Passes about `count` (at least 1) keys to `take`, and moves *cursor: 0 at first, and 0 again after the last. It is a
 * place in the order of hashes, and has at most 48 bits, so it fits in the 12 hex digits of a page token. A key that exists
 * during all steps is passed once, whatever else changes between the steps. O(keys). */
void keys_scan(const keys *k, uint64_t *cursor, size_t count, void (*take)(void *arg, const keys_entry *key),
               void *arg);

/* Returns whether the key existed. */
bool keys_delete(keys *k, lks_rpc_slice name);

/* Sets when a key expires; 0: never. Returns whether the key exists. */
bool keys_set_end(keys *k, lks_rpc_slice name, int64_t end_us);

/* ---- strings ------------------------------------------------------------------- */

enum { KEYS_KEEP_END = -1 }; /* as end_us: leave the end as it is */

keys_found keys_get(const keys *k, lks_rpc_slice name, lks_rpc_slice *ret);

/* Creates the key, or replaces a key of any type. */
void keys_set(keys *k, lks_rpc_slice name, lks_rpc_slice value, int64_t end_us);

/* ---- hashes -------------------------------------------------------------------- */

/* Fields keep the order in which they were added; a new value does not move a field. */

keys_found keys_field(const keys *k, lks_rpc_slice name, lks_rpc_slice field, lks_rpc_slice *ret);

/* Returns KEYS_FOUND if the field existed, KEYS_ABSENT if it is new. */
keys_found keys_set_field(keys *k, lks_rpc_slice name, lks_rpc_slice field, lks_rpc_slice value);

/* Returns KEYS_FOUND if the field existed. Deleting the last field deletes the key. */
keys_found keys_delete_field(keys *k, lks_rpc_slice name, lks_rpc_slice field);

/* *first: the first of n fields. keys_next_field returns the next one, NULL after the last. */
keys_found keys_fields(const keys *k, lks_rpc_slice name, const keys_item **first, size_t *n);
const keys_item *keys_next_field(const keys_item *field);

/* ---- sorted sets --------------------------------------------------------------- */

keys_found keys_score(const keys *k, lks_rpc_slice name, lks_rpc_slice member, double *ret);

/* Returns KEYS_FOUND if the member existed, KEYS_ABSENT if it is new. The score must not be NaN or -0. */
keys_found keys_set_member(keys *k, lks_rpc_slice name, lks_rpc_slice member, double score);

/* Returns KEYS_FOUND if the member existed. Deleting the last member deletes the key. */
keys_found keys_delete_member(keys *k, lks_rpc_slice name, lks_rpc_slice member);

/* *members: the n members, sorted by score; equal scores are sorted by the bytes of the member. */
keys_found keys_members(const keys *k, lks_rpc_slice name, const keys_item *const **members, size_t *n);

/* ---- as bytes ------------------------------------------------------------------ */

/* Writes keys_bytes bytes, and returns their end. Equal keys give equal bytes; for equality the order of the fields of
 * a hash counts. O(bytes). */
char *keys_pack(const keys *k, char *at);

/* Reads what keys_pack has written. Returns NULL for any other bytes. The caller frees. */
keys *keys_unpack(const void *data, size_t len);

#endif

/* Shared by keys.c and keys_pack.c. */
#ifndef LOCKSTOCK_SERVER_MACHINE_KEYS_STATE_H
#define LOCKSTOCK_SERVER_MACHINE_KEYS_STATE_H

#include "hashed.h"

#include "base/heap.h"
#include "machine/keys.h"
#include "machine/packed.h"

typedef struct item {
    keys_item seen;
    UT_hash_handle hh;
    char name[];
} item;

typedef struct entry {
    keys_entry seen;
    struct timer end; /* at_ns has microseconds here: the heap only compares */
    uint64_t hash;    /* for keys_scan */
    size_t shared;    /* length of the common prefix with the previous name */
    char *value;      /* of a string */
    size_t len;
    item *items; /* fields or members */
    size_t n_items, room;
    size_t item_bytes; /* packed size of all items */
    item **members;    /* sorted */
    char name[];
} entry;

/* Invariant: entries are sorted by name, without duplicates; a hash or sorted set has at least one item; `bytes` is the
 * number of bytes that keys_pack writes, without the head. */
struct keys {
    entry **entries;
    size_t n, room;
    struct heap ends;
    size_t bytes;
    uint64_t changes;
};

enum { KEYS_HEAD_BYTES = 2, KEYS_HASH_BITS = 47 };

int keys_compare(lks_rpc_slice a, lks_rpc_slice b);
int keys_compare_members(const keys_item *a, const keys_item *b);

/* The length of the common prefix. */
size_t keys_common(lks_rpc_slice a, lks_rpc_slice b);

/* Adds an entry without value and items, after all others. */
entry *keys_append(keys *k, lks_rpc_slice name, keys_type type);

/* Call these around a change of an entry's value, items or end: they keep `bytes` right. */
void keys_before_change(keys *k, const entry *e);
void keys_after_change(keys *k, const entry *e);

void keys_move_end(keys *k, entry *e, int64_t end_us);

item *keys_item_of(const entry *e, lks_rpc_slice name);

/* Puts a member at `place`. Updates item_bytes and n_items, but not `bytes`. */
item *keys_add_item(entry *e, lks_rpc_slice name, lks_rpc_slice value, double score, size_t place);

#endif

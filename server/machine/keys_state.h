/* Shared by keys.c, keys_items.c and keys_pack.c. */
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
    struct timer end; /* its at_ns is the end in us: the heap only compares */
    uint64_t hash;    /* for keys_scan */
    size_t shared;    /* number of leading bytes equal to those of the previous name */
    char *value;      /* a string */
    size_t len;
    item *items; /* fields or members */
    size_t n_items, room;
    size_t item_bytes; /* their packed size */
    item **members;    /* in their order */
    char name[];
} entry;

/* Invariant: entries are sorted by name, each once; a hash or sorted set has at least one item; `bytes` is the size of
 * the output of keys_pack. */
struct keys {
    entry **entries;
    size_t n, room;
    struct heap ends;
    size_t bytes; /* without the head */
    uint64_t changes;
};

enum { KEYS_HEAD_BYTES = 2, KEYS_HASH_BITS = 47 };

int keys_compare(lks_rpc_slice a, lks_rpc_slice b);
int keys_compare_members(const keys_item *a, const keys_item *b);

/* Returns the length of the common prefix. */
size_t keys_common(lks_rpc_slice a, lks_rpc_slice b);

entry *keys_entry_of(const keys *k, lks_rpc_slice name);

/* Returns the entry of that type; NULL: it is absent, or has another type, see *found. */
entry *keys_entry_as(const keys *k, lks_rpc_slice name, keys_type type, keys_found *found);

/* Inserts a new entry, without value and items, at its place; its name must be new. */
entry *keys_insert(keys *k, lks_rpc_slice name, keys_type type);

/* Appends a new entry after all others. */
entry *keys_append(keys *k, lks_rpc_slice name, keys_type type);

void keys_remove(keys *k, entry *e);

/* Call these around a change of an entry's value, items or end: they update `bytes`. */
void keys_before_change(keys *k, const entry *e);
void keys_after_change(keys *k, const entry *e);

void keys_move_end(keys *k, entry *e, int64_t end_us);

/* In keys_items.c. Both update item_bytes and n_items, but not `bytes`. An added member goes to `place`. */
item *keys_item_of(const entry *e, lks_rpc_slice name);
item *keys_add_item(entry *e, lks_rpc_slice name, lks_rpc_slice value, double score, size_t place);
void keys_free_items(entry *e);

#endif

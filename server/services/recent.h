/* Facts that this server remembers for a moment, so that it need not ask the store again: numbers for a key, and the
 * time until which they hold. StockService keeps SOLD_OUT and numbers of buckets here, RateLimitService DENIED, BANNED
 * and policies. It never holds a grant.
 *
 *   put --> known --find, before ask_ns--> the numbers
 *             |   \-find, once from ask_ns on--> NULL: that caller asks the store, the others have the numbers
 *             \-- until_ns, forget, drop of its base, room for another --> NULL
 *
 * The table has a fixed size, finding allocates nothing, and what has no room is not remembered. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_RECENT_H
#define LOCKSTOCK_SERVER_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

enum {
    RECENT_NUMBERS = 8,
    RECENT_KEY_BYTES_MAX = 264, /* all parts of a key and two bytes for each part; a longer key is not remembered */
};

/* The maximum age of a remembered refusal (docs/stock.md, docs/ratelimit.md, docs/guarantees.md), and the age at which
 * the store is asked again, so that its answer comes before the end. */
#define REFUSAL_KNOWN_NS (UINT64_C(20) * 1000000)
#define REFUSAL_ASK_NS (UINT64_C(10) * 1000000)

typedef struct recent recent;

typedef struct recent_fact {
    uint64_t ask_ns;   /* from then on one caller asks the store again; equal to until_ns: no caller does */
    uint64_t until_ns; /* CLOCK_MONOTONIC: not remembered from then on */
    int64_t number[RECENT_NUMBERS];
} recent_fact;

/* The key of a fact: the same parts in the same order. */
typedef struct recent_key {
    lks_rpc_slice part[4];
    size_t n;
} recent_key;

/* Makes room for `places` facts, rounded up to a power of two. */
recent *recent_new(size_t places);

/* Takes NULL. */
void recent_free(recent *r);

/* Returns the fact for the key; valid until the table is changed. NULL: ask the store. */
const recent_fact *recent_find(recent *r, const recent_key *key, uint64_t now_ns);

/* Replaces the fact for the key by a copy. `base` is for recent_drop: the store's key of the group
 * ("ls:{namespace/group}:"). */
void recent_put(recent *r, lks_rpc_slice base, const recent_key *key, const recent_fact *what, uint64_t now_ns);

void recent_forget(recent *r, const recent_key *key, uint64_t now_ns);

/* Forget everything that was put with the base, and perhaps some facts of other bases; or everything. */
void recent_drop(recent *r, lks_rpc_slice base);
void recent_drop_all(recent *r);

#endif

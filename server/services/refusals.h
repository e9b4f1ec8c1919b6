/* Refusals that this server remembers for a moment, so that the same question need not go to the store again:
 * what was refused (a key) with which numbers, until when. It never holds a grant. StockService keeps SOLD_OUT
 * here, RateLimitService DENIED and BANNED.
 *
 *   put --> known --find, before ask_ns--> the numbers
 *             |   \-find, once from ask_ns on--> NULL: that caller asks the store, the others have the numbers
 *             \-- until_ns, forget, drop of its base, room for another --> NULL
 *
 * The table has a fixed size, finding takes no memory, and what has no room is not remembered. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_REFUSALS_H
#define LOCKSTOCK_SERVER_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

enum {
    REFUSAL_NUMBERS = 8,
    REFUSAL_KEY_BYTES_MAX = 240, /* of a key's parts together, and two for each part; a longer one is not remembered */
};

/* How old what is told may be, by each service (docs/stock.md, docs/ratelimit.md, docs/guarantees.md); and when the
 * store is asked again, which leaves the answer the rest of the time to come. */
#define REFUSAL_KNOWN_NS (UINT64_C(20) * 1000000)
#define REFUSAL_ASK_NS (UINT64_C(10) * 1000000)

typedef struct refusals refusals;

typedef struct refusal {
    uint64_t ask_ns;   /* from then on one caller asks the store again; until_ns: none does before the end */
    uint64_t until_ns; /* CLOCK_MONOTONIC: unknown from then on */
    int64_t number[REFUSAL_NUMBERS];
} refusal;

/* What a refusal is about: the same parts in the same order. */
typedef struct refusal_key {
    const lks_rpc_slice *part;
    size_t n;
} refusal_key;

/* Room for `places` of them, rounded up to a power of two. */
refusals *refusals_new(size_t places);

/* Takes NULL. */
void refusals_free(refusals *r);

/* What is known of the key now; valid until the table is changed. NULL: the store has to be asked. */
const refusal *refusals_find(refusals *r, const refusal_key *key, uint64_t now_ns);

/* Keeps a copy in place of what was known. `base` is the store's key of the group ("ls:{namespace/group}:"). */
void refusals_put(refusals *r, lks_rpc_slice base, const refusal_key *key, const refusal *what, uint64_t now_ns);

void refusals_forget(refusals *r, const refusal_key *key, uint64_t now_ns);

/* Forgets all that was put with the base, and perhaps some of other bases; and all there is. */
void refusals_drop(refusals *r, lks_rpc_slice base);
void refusals_drop_all(refusals *r);

#endif

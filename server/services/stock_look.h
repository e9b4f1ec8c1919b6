/* The result of a look at all buckets of a group and its pool, and its sums. Pure.
 *
 * The pool knows an item's on_hand: the units that it has itself, and those that it has lent to buckets. */
#ifndef LOCKSTOCK_SERVER_STOCK_LOOK_H
#define LOCKSTOCK_SERVER_STOCK_LOOK_H

#include "lockstock/v1/stock.lks.h"
#include "services/service.h"

/* An item in a bucket, or in the pool (bucket 0). */
typedef struct bucket_item {
    bool exists; /* false: `version` is that of the last deleted item */
    lks_item_state state;
    int64_t available, reserved;
    int64_t sold; /* 0 in the pool */
    int64_t lent; /* of the pool: units that buckets have, sold or not, and units under way; 0 in a bucket */
    int64_t version, limit, opens_in_ms, closes_in_ms;
    int64_t born, era, opens, closes, retain; /* functions/stock_base.lua */
} bucket_item;

/* Units under way from one bucket to another. */
typedef struct bucket_move {
    size_t sku;
    unsigned from, to;
    int64_t id, units, born;
} bucket_move;

typedef struct bucket_moves {
    bucket_move *move;
    size_t n;
} bucket_moves;

typedef struct bucket_look {
    unsigned n_buckets;
    const char *const *skus;
    size_t n_skus;
    bucket_item *items; /* for each sku the pool's item, then each bucket's; NULL: no look yet */
    uint64_t since_ns;  /* the items are unchanged since then: an earlier look found the same versions */
    bool unchanged;     /* the previous look found the same: at some moment all of this held */
} bucket_look;

/* Reads the replies of stock_look: one for the pool, then one for each bucket. Returns the moves that are under way. */
bucket_moves look_read(bucket_look *look, answer *a);

const bucket_item *look_item(const bucket_look *look, size_t sku, unsigned bucket);

/* Return the available units in one bucket, or in all: only units of the pool's item, not of a deleted item. */
int64_t look_available(const bucket_look *look, size_t sku, unsigned bucket);
int64_t look_total(const bucket_look *look, size_t sku);

/* Returns the version of the whole item, which changes when any bucket's does. */
int64_t look_version(const bucket_look *look, size_t sku);

/* Whether the counts can be from the same moment. After a failover has lost a part of a move they never are. */
bool look_fits(const bucket_look *look);

bool look_found_any(const bucket_look *look);

/* Makes the item from a `view` (functions/stock_base.lua), for a group that is not in buckets. Text is not copied. */
lks_item *stock_item(answer *a, const store_value *view, const char *group, const char *sku);

/* Returns the whole item; NULL: the pool does not have it. */
lks_item *look_whole_item(lks_rpc_arena *arena, const bucket_look *look, const char *group, size_t sku);

#endif

/* PutItem, Adjust and DeleteItem of an item in buckets. */
#ifndef LOCKSTOCK_SERVER_STOCK_POOL_H
#define LOCKSTOCK_SERVER_STOCK_POOL_H

#include "services/stock_transfer.h"

typedef struct pool_change pool_change;

/* Plans the call of a method that changes an item: `function`, or `in_pool` where the group is in buckets. Returns the
 * one that it planned, whose arguments follow, with the version that it must expect in *version. Returns NULL when the
 * plan failed or another call was planned. buckets: how many the request wants; 0: any. */
const plan_function *pool_call(plan *p, const char *group, const char *const *sku, const plan_function *function,
                               const plan_function *in_pool, int32_t buckets, int64_t *version);

/* The same for DeleteItem, with all arguments. */
void pool_delete_call(plan *p, const char *group, const char *const *sku, int64_t version);

/* `replied` of PutItem and Adjust; `too_little` is the error when all buckets together have too few units. */
transfer_step pool_put_replied(answer *a, transfer *t);
transfer_step pool_adjust_replied(answer *a, transfer *t);

/* PutItem fails when the item exists, whatever its version. */
void pool_must_be_new(plan *p, bool must_be_new);

/* Whether Adjust was done by an earlier call. */
bool pool_replayed(const transfer *t);

#endif

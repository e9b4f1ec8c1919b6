/* PutItem, Adjust and DeleteItem of an item in buckets. */
#ifndef LOCKSTOCK_SERVER_STOCK_POOL_H
#define LOCKSTOCK_SERVER_STOCK_POOL_H

#include "services/stock_transfer.h"

typedef struct pool_change pool_change;

/* Plans the call of a method that changes an item, in the group or its pool. Returns true if the arguments of
 * `function` follow, with *version as the expected version; false if the plan failed, or another call was planned.
 * buckets: the number in the request; 0: any. */
bool pool_call(plan *p, const char *group, const char *const *sku, const plan_function *function, int32_t buckets,
               int64_t *version);

/* The same for DeleteItem, with all arguments. */
void pool_delete_call(plan *p, const char *group, const char *const *sku, int64_t version);

/* `replied` of PutItem and Adjust. They fail if all buckets together have too few units. */
transfer_step pool_put_replied(answer *a, transfer *t);
transfer_step pool_adjust_replied(answer *a, transfer *t);

/* Makes PutItem fail if the item exists, with any version. */
void pool_must_be_new(plan *p, bool must_be_new);

/* Whether an earlier call has done the Adjust. */
bool pool_replayed(const transfer *t);

#endif

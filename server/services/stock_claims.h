/* Per-buyer limits of a group in buckets (functions/stock_claims.lua). Invariant: an order of an item with a limit is
 * made only after its units were claimed in the bucket of its buyer.
 *
 *   the order says CLAIM --> CLAIM --CLAIMED--> the order again, with the claim
 *                            ^  \--OVER--> LOOK_AT_CLAIMS: the orders of the buyer's other claims
 *                            +--- SETTLE_CLAIMS: what these orders really have <--+
 */
#ifndef LOCKSTOCK_SERVER_STOCK_CLAIMS_H
#define LOCKSTOCK_SERVER_STOCK_CLAIMS_H

#include "services/stock_transfer.h"

/* In `replied`: the bucket of t->order has said CLAIM. The next step. */
transfer_step claims_begin(answer *a, transfer *t);

/* When the order was refused: UNCLAIM, or DONE when it has no claim. */
transfer_step claims_end(transfer *t);

/* In prepare: when the order's units were claimed; 0: they were not. */
int64_t claims_claimed_at(const transfer *t);

#endif

/* Per-buyer limits of a group in buckets (functions/stock_claims.lua). Invariant: an order of an item with a limit is
 * made only after its units were claimed in the bucket of its buyer.
 *
 *   the order replies CLAIM --> CLAIM --CLAIMED--> the order again, with the claim
 *                            |  \--NO_ITEM--> the bucket gets the item, then the order again
 *                            ^  \--OVER--> LOOK_AT_CLAIMS: the orders of the buyer's other claims
 *                            +--- SETTLE_CLAIMS: the units that these orders have <--+
 */
#ifndef LOCKSTOCK_SERVER_STOCK_CLAIMS_H
#define LOCKSTOCK_SERVER_STOCK_CLAIMS_H

#include "services/stock_moves.h"

/* In `replied`: the bucket of t->order has replied CLAIM. Returns the next step. */
transfer_step claims_begin(answer *a, transfer *t);

/* After the order was refused: UNCLAIM, or DONE if it has no claim. */
transfer_step claims_end(transfer *t);

/* In prepare: returns when the order's units were claimed; 0: not claimed. */
int64_t claims_claimed_at(const transfer *t);

/* The prepare and finish of the steps. */
transfer_prepare claim_prepare, look_at_claims_prepare, settle_claims_prepare, unclaim_prepare;
transfer_decide claim_finish, look_at_claims_finish;

#endif

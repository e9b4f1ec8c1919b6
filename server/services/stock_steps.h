/* The rows of the table of steps (stock_transfer.c). prepare plans the store calls of a step; finish reads their
 * replies and returns the next step. */
#ifndef LOCKSTOCK_SERVER_STOCK_STEPS_H
#define LOCKSTOCK_SERVER_STOCK_STEPS_H

#include "services/stock_transfer.h"

typedef void transfer_prepare(plan *p, transfer *t);

/* stock_moves.c */
transfer_prepare look_prepare, update_prepare, send_prepare, receive_prepare, acknowledge_prepare;
transfer_decide look_finish, send_finish, receive_finish;

/* stock_claims.c */
transfer_prepare claim_prepare, look_at_claims_prepare, settle_claims_prepare, unclaim_prepare;
transfer_decide claim_finish, look_at_claims_finish;

#endif

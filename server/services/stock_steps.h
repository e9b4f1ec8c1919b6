/* The rows of the table of steps (stock_transfer.c). prepare plans the store calls of a step; finish reads their
 * replies and returns the next step. */
#ifndef LOCKSTOCK_SERVER_STOCK_STEPS_H
#define LOCKSTOCK_SERVER_STOCK_STEPS_H

#include "services/stock_transfer.h"

typedef void transfer_prepare(plan *p, transfer *t);

/* stock_moves.c */
transfer_prepare plan_look, plan_update, plan_send, plan_receive, plan_acknowledge;
transfer_decide look_finished, look_follows, send_finished, receive_finished;

/* stock_claims.c */
transfer_prepare plan_claim, plan_look_at_claims, plan_settle_claims, plan_unclaim;
transfer_decide claim_finished, look_at_claims_finished, settle_claims_finished, unclaim_finished;

#endif

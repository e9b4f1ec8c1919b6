/* The rounds of a StockService call, above all those of a group in buckets: one item that is kept in n groups and a
 * pool (functions/stock_moves.lua), and its units that move between them.
 *
 * A method plans its own call, CALL, and reads the last reply in its finish, when the transfer is DONE. In between the
 * transfer runs other steps, of which each has a row in the table of stock_transfer.c. Two functions of the method
 * decide where to go: `replied` when its own call has a reply, `looked` when all buckets were looked at.
 *
 *    CALL --reply--> replied --+--> DONE: the method's finish
 *     ^                        |
 *     |                        v            has a bucket lost its settings, or are units under way (transfer_settle):
 *     +----- looked <-------- LOOK            UPDATE -> LOOK
 *     |         |              ^              RECEIVE -> ACKNOWLEDGE -> LOOK
 *     |         v              |
 *     |       SEND -------> RECEIVE -------> ACKNOWLEDGE
 *     |                        |
 *     +-- the next CALL acknowledges the units
 *
 * A step may run again, in this call or another one, and has no effect of the method: units only move, and each move
 * has an id. */
#ifndef LOCKSTOCK_SERVER_STOCK_TRANSFER_H
#define LOCKSTOCK_SERVER_STOCK_TRANSFER_H

#include "services/stock_moves.h"

/* Return the transfer of a call. transfer_in makes it if there is none. */
transfer *transfer_in(plan *p);
transfer *transfer_of(const answer *a);

/* In prepare: sets the group of the call. The second one does not use this server's memory: it asks the group. */
transfer *transfer_begin(plan *p, const char *group);
transfer *transfer_begin_asked(plan *p, const char *group);

/* Like plan_call; if the group is in buckets the call goes to the bucket of the order, or to the pool (order_id
 * NULL). */
void transfer_call(plan *p, const plan_function *function, const char *group, const char *only, const char *order_id,
                   size_t each_max);

/* Runs before the finish of every method. Returns false if there is no answer yet, or the call failed. */
bool transfer_finished(const ProtobufCMessage *request, answer *a);

/* In finish: makes the method's call again. */
void transfer_again(answer *a);

/* Makes room for the lines of an order. */
void transfer_set_lines(lks_rpc_arena *arena, transfer_order *order, size_t n);

/* Used in stock_transfer.c: asks the group when nothing was found and this server only remembers that the group is in
 * buckets. */
transfer_step transfer_ask_group(answer *a, transfer *t);

#endif

/* A reservation of stock: reserved, then confirmed, or given back at the end of the
 * block.
 *
 *     LKS_RESERVATION lks_reservation *reservation = NULL;
 *     if (lks_reservation_make(channel, &order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED)
 *         return sold_out(&error);
 *     if (pay(order.order_id))
 *         lks_reservation_confirm(reservation, true, &error);
 *
 * The stock is held for hold_ms by the store itself: what a process that dies has
 * reserved comes back when that is over, even if no process is left.
 *
 * A reservation is used by one thread at a time, but for lks_reservation_is_lost. The
 * channel must be closed after its reservations were freed. In a forked child every
 * function fails, and frees nothing; the child must exec. */
#ifndef LOCKSTOCK_RESERVATION_H
#define LOCKSTOCK_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/v1/stock.lks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_reservation lks_reservation;

typedef struct lks_reservation_line {
    const char *sku;
    int64_t quantity; /* at least 1 */
} lks_reservation_line;

typedef struct lks_reservation_order {
    const char *group;    /* in which the skus are; NULL or "" = the sku of the only line */
    const char *order_id; /* 1..128 bytes, of your own; NULL = a random one */
    const char *buyer_id; /* where an item has a per-buyer limit; NULL = none */
    const lks_reservation_line *lines;
    size_t n_lines;   /* 1..64, each sku once: all or nothing */
    uint32_t hold_ms; /* how soon it comes back after a crash: at least 10; 0 = 60,000 */
    uint32_t keep_ms; /* for so long the hold is extended in the background, until it is confirmed,
                          cancelled or freed; 0 = not at all */
} lks_reservation_order;

/* Reserves. Blocks like any call. LKS_RESERVE_OUTCOME_RESERVED: *ret is set, to be freed. Any other outcome: nothing
 * is reserved and error->message says what there is; LKS_RESERVE_OUTCOME_UNSPECIFIED (0): the call failed, error->code
 * says why. One that failed in doubt (error->applied is not NO) is cancelled in the background, and its order_id is
 * then used up. So is one that was refused after a try without an answer; that cancel is waited for, 1 s at most, and
 * error->applied is MAYBE if it takes longer. The same order_id with the same lines and buyer is the same reservation,
 * that of a process before this one too; one that is over (sold, cancelled, run out) is lost from the beginning, and a
 * confirm says which. error may be NULL. */
lks_reserve_outcome lks_reservation_make_sized(lks_channel *channel, const lks_reservation_order *order,
                                               size_t order_bytes, lks_reservation **ret, lks_error *error);

static inline lks_reserve_outcome lks_reservation_make(lks_channel *channel, const lks_reservation_order *order,
                                                       lks_reservation **ret, lks_error *error)
{
    return lks_reservation_make_sized(channel, order, sizeof(lks_reservation_order), ret, error);
}

/* The order's id, until it is freed. */
const char *lks_reservation_order_id(const lks_reservation *reservation);

/* Whether the order had been reserved before, and this is that one. */
bool lks_reservation_is_replayed(const lks_reservation *reservation);

/* True when the hold may be over: it was not extended, or a server says so. What is lost
 * may still be confirmed, with reacquire. Does not block, sends nothing. */
bool lks_reservation_is_lost(const lks_reservation *reservation);

/* Sells what is reserved. With `reacquire` also what had run out, if the stock is still
 * there. LKS_CONFIRM_OUTCOME_CONFIRMED: sold. Any other outcome: not sold; with EXPIRED it
 * may be tried again with reacquire. LKS_CONFIRM_OUTCOME_UNSPECIFIED (0): the call
 * failed; if in doubt (error->applied is not NO), confirm again to know: from then on
 * freeing it does not cancel it any more, since it may be paid for. Blocks. */
lks_confirm_outcome lks_reservation_confirm(lks_reservation *reservation, bool reacquire, lks_error *error);

/* Gives it back now; reason, for the order's readers, may be NULL.
 * LKS_CANCEL_OUTCOME_CANCELLED, or UNKNOWN_ORDER (nothing was left of it): nothing is
 * reserved any more. ALREADY_CONFIRMED: it is sold. LKS_CANCEL_OUTCOME_UNSPECIFIED (0):
 * the call failed. Blocks. */
lks_cancel_outcome lks_reservation_cancel(lks_reservation *reservation, const char *reason, lks_error *error);

/* ---- without a thread that waits --------------------------------------------------------------------------- The
 * same with callbacks, each of which runs once, on the channel's completion thread; one that a cancel causes runs
 * inside lks_reservation_make_cancel. They must not block. Outcomes and errors are those of the functions above; error
 * is valid until the callback returns, and is LKS_CANCELLED if the channel was closed first. On failure of a function
 * that starts something nothing was started and the callback does not run: LKS_INVALID_ARGUMENT,
 * LKS_RESOURCE_EXHAUSTED, LKS_FAILED_PRECONDITION (in a forked child), LKS_CANCELLED (the channel is closing). One
 * operation of a reservation at a time; none of them blocks. */

typedef void lks_reservation_made(void *arg, lks_reserve_outcome outcome, const lks_error *error);

/* lks_reservation_make. *ret is set before `done` can run, and is to be freed after it, whatever the outcome. */
lks_code lks_reservation_make_start_sized(lks_channel *channel, const lks_reservation_order *order, size_t order_bytes,
                                          lks_reservation_made *done, void *arg, lks_reservation **ret,
                                          lks_error *error);

static inline lks_code lks_reservation_make_start(lks_channel *channel, const lks_reservation_order *order,
                                                  lks_reservation_made *done, void *arg, lks_reservation **ret,
                                                  lks_error *error)
{
    return lks_reservation_make_start_sized(channel, order, sizeof(lks_reservation_order), done, arg, ret, error);
}

/* Gives up reserving: unless `done` has run or is about to, runs it now, on this thread, with UNSPECIFIED and
 * LKS_CANCELLED. What is still reserved is cancelled in the background. Thread-safe. */
void lks_reservation_make_cancel(lks_reservation *reservation);

typedef void lks_reservation_confirmed(void *arg, lks_confirm_outcome outcome, const lks_error *error);
lks_code lks_reservation_confirm_start(lks_reservation *reservation, bool reacquire, lks_reservation_confirmed *done,
                                       void *arg, lks_error *error);

typedef void lks_reservation_cancelled(void *arg, lks_cancel_outcome outcome, const lks_error *error);
lks_code lks_reservation_cancel_start(lks_reservation *reservation, const char *reason, lks_reservation_cancelled *done,
                                      void *arg, lks_error *error);

/* Frees it, and cancels it unless it was confirmed, cancelled, or confirmed in doubt.
 * Waits for the answer, 2 s at most, and continues in the background after that; on a
 * completion thread it does not wait at all. Takes NULL. */
void lks_reservation_free(lks_reservation *reservation);

/* lks_reservation_free of *reservation, and makes it NULL: the scoped form. */
void lks_reservation_cleanup(lks_reservation **reservation);

#if defined(__GNUC__)
#define LKS_RESERVATION __attribute__((cleanup(lks_reservation_cleanup)))
#endif

#ifdef __cplusplus
}
#endif

#endif

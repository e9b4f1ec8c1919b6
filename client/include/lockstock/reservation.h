/* A reservation of stock, which is confirmed, or given back at the end of the block.
 *
 *     LKS_RESERVATION lks_reservation *reservation = NULL;
 *     if (lks_reservation_make(channel, &order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED)
 *         return sold_out(&error);
 *     if (pay(order.order_id))
 *         lks_reservation_confirm(reservation, true, &error);
 *
 * The store itself holds the stock for hold_ms: the reservation of a process that dies is given back after that time,
 * even if no process is left.
 *
 * Only one thread at a time may use a reservation, except for lks_reservation_is_lost. Close the channel after its
 * reservations were freed. In a forked child every function fails, and frees nothing; the child must exec. */
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
    const char *group;    /* the group of the skus; NULL or "" = the sku of the only line */
    const char *order_id; /* 1..128 bytes, chosen by the caller; NULL = a random one */
    const char *buyer_id; /* for items with a per-buyer limit; NULL = none */
    const lks_reservation_line *lines;
    size_t n_lines;   /* 1..64, each sku once: all or nothing */
    uint32_t hold_ms; /* how soon the stock is given back after a crash: at least 10; 0 = 60,000 */
    /* How long the hold is extended in the background, until it is confirmed, cancelled or freed; 0 = not at all. */
    uint32_t keep_ms;
} lks_reservation_order;

/* Reserves. Blocks like any call. LKS_RESERVE_OUTCOME_RESERVED: *ret is set; the caller frees it. Any other outcome:
 * nothing is reserved and error->message says why; LKS_RESERVE_OUTCOME_UNSPECIFIED (0): the call failed, and
 * error->code says why. An order that failed in doubt (error->applied is not NO) is cancelled in the background, and
 * its order_id cannot be used again. The same happens to an order that was refused after an unanswered try; this
 * function waits for that cancel, 1 s at most, and error->applied is MAYBE if it takes longer. The same order_id with
 * the same lines and buyer is the same reservation, also if an earlier process made it. If that reservation is over
 * (sold, cancelled, expired), it is lost from the beginning, and a confirm says which. error may be NULL. */
lks_reserve_outcome lks_reservation_make_sized(lks_channel *channel, const lks_reservation_order *order,
                                               size_t order_bytes, lks_reservation **ret, lks_error *error);

static inline lks_reserve_outcome lks_reservation_make(lks_channel *channel, const lks_reservation_order *order,
                                                       lks_reservation **ret, lks_error *error)
{
    return lks_reservation_make_sized(channel, order, sizeof(lks_reservation_order), ret, error);
}

/* The order's id, until it is freed. */
const char *lks_reservation_order_id(const lks_reservation *reservation);

/* Whether the order had already been reserved before. */
bool lks_reservation_is_replayed(const lks_reservation *reservation);

/* True when the hold may be over: it was not extended, or a server reported it. A lost reservation may still be
 * confirmed, with reacquire. Does not block, sends nothing. */
bool lks_reservation_is_lost(const lks_reservation *reservation);

/* Sells the reserved stock; with `reacquire` also after the hold has expired, if the stock is still available.
 * LKS_CONFIRM_OUTCOME_CONFIRMED: sold. Any other outcome: not sold; after EXPIRED, try again with reacquire.
 * LKS_CONFIRM_OUTCOME_UNSPECIFIED (0): the call failed; if in doubt (error->applied is not NO), confirm again to find
 * out: freeing it then does not cancel it any more, because it may be sold. Blocks. */
lks_confirm_outcome lks_reservation_confirm(lks_reservation *reservation, bool reacquire, lks_error *error);

/* Gives the stock back now; reason, for readers of the order, may be NULL. LKS_CANCEL_OUTCOME_CANCELLED, or
 * UNKNOWN_ORDER (the order does not exist any more): nothing is reserved any more. ALREADY_CONFIRMED: it is sold.
 * LKS_CANCEL_OUTCOME_UNSPECIFIED (0): the call failed. Blocks. */
lks_cancel_outcome lks_reservation_cancel(lks_reservation *reservation, const char *reason, lks_error *error);

/* ---- without a waiting thread -------------------------------------------------------------------------------
 * The same with callbacks. Each runs once, on the channel's completion thread; a callback that a cancel causes runs
 * inside lks_reservation_make_cancel. They must not block. Outcomes and errors are those of the functions above; error
 * is valid until the callback returns, and is LKS_CANCELLED if the channel was closed first. When a function that
 * starts an operation fails, nothing was started and the callback does not run: LKS_INVALID_ARGUMENT,
 * LKS_RESOURCE_EXHAUSTED, LKS_FAILED_PRECONDITION (in a forked child), LKS_CANCELLED (the channel is closing). Only one
 * operation of a reservation at a time. None of them blocks. */

typedef void lks_reservation_made(void *arg, lks_reserve_outcome outcome, const lks_error *error);

/* Starts lks_reservation_make. *ret is set before `done` can run; free it afterwards, with any outcome. */
lks_code lks_reservation_make_start_sized(lks_channel *channel, const lks_reservation_order *order, size_t order_bytes,
                                          lks_reservation_made *done, void *arg, lks_reservation **ret,
                                          lks_error *error);

static inline lks_code lks_reservation_make_start(lks_channel *channel, const lks_reservation_order *order,
                                                  lks_reservation_made *done, void *arg, lks_reservation **ret,
                                                  lks_error *error)
{
    return lks_reservation_make_start_sized(channel, order, sizeof(lks_reservation_order), done, arg, ret, error);
}

/* Cancels reserving: unless `done` has run or is about to, runs it now, on this thread, with UNSPECIFIED and
 * LKS_CANCELLED. An order that is still reserved is cancelled in the background. Thread-safe. */
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

/* The scoped form: calls lks_reservation_free for *reservation and sets it to NULL. */
void lks_reservation_cleanup(lks_reservation **reservation);

#if defined(__GNUC__)
#define LKS_RESERVATION __attribute__((cleanup(lks_reservation_cleanup)))
#endif

#ifdef __cplusplus
}
#endif

#endif

/* lks_reservation: Reserve, ExtendHold for one that was reserved before, then Confirm or Cancel. Invariant: an order
 * that may be reserved and that no caller owns any more is cancelled, in the background if necessary, unless it may be
 * sold: GRANT_HELD means that it is not sold, also not perhaps, and not cancelled. */
#include <lockstock/reservation.h>

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/stock.lks_client.h>

#include "base/clock.h"
#include "client/lease/grant.h"
#include "client/lease/lease_time.h"

enum { HOLD_MS = 60000, LINES_MAX = 64, CANCEL_MS = 2000 };

struct lks_reservation {
    struct grant grant;           /* first */
    const char *group, *order_id; /* constant; stored behind the struct */

    /* Of the Reserve. */
    bool replayed;
    lks_reserve_outcome outcome;
    const lks_reservation_order *order; /* valid while it is sent */

    /* Of the operation under way; a callback is NULL when a thread waits. */
    lks_reservation_made *made;
    lks_reservation_confirmed *confirmed;
    lks_reservation_cancelled *cancelled;
    void *arg;
    lks_confirm_outcome confirm_outcome;
    lks_cancel_outcome cancel_outcome;
};

static lks_reservation *of(struct grant *grant)
{
    return (lks_reservation *)grant;
}

static void fail_unexpected(lks_error *error)
{
    lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the answer has an unknown outcome");
}

/* ---- giving back --------------------------------------------------------------------- */

static lks_code send_cancel(struct grant *grant, const struct grant_call *call, const char *reason, lks_error *error)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = of(grant)->group;
    request.order_id = of(grant)->order_id;
    if (reason)
        request.reason = reason;
    return grant_send(grant, call, &lks_stock_cancel_method, &request.base, error);
}

static lks_code send_give_back(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    return send_cancel(grant, call, NULL, error);
}

static lks_cancel_outcome take_cancelled(lks_reservation *reservation, const lks_cancel_response *response)
{
    switch ((int)response->outcome) {
    case LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED:
        lks_error_set(&reservation->grant.error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "the order is sold");
        break;
    case LKS_CANCEL_OUTCOME_CANCELLED:
    case LKS_CANCEL_OUTCOME_UNKNOWN_ORDER:
        break;
    default:
        fail_unexpected(&reservation->grant.error);
        return LKS_CANCEL_OUTCOME_UNSPECIFIED;
    }
    grant_set_held(&reservation->grant, false);
    return response->outcome;
}

static void on_cancelled(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);

    reservation->grant.error = *error;
    reservation->cancel_outcome = code == LKS_OK ? take_cancelled(reservation, (const lks_cancel_response *)response)
                                                 : LKS_CANCEL_OUTCOME_UNSPECIFIED;
    if (reservation->cancelled)
        reservation->cancelled(reservation->arg, reservation->cancel_outcome, &reservation->grant.error);
}

static lks_code cancel(lks_reservation *reservation, const char *reason, uint32_t timeout_ms, lks_error *error)
{
    const struct grant_call call = {.kind = GRANT_ENDS, .timeout_ms = timeout_ms, .next = on_cancelled};

    return send_cancel(&reservation->grant, &call, reason, error);
}

lks_cancel_outcome lks_reservation_cancel(lks_reservation *reservation, const char *reason, lks_error *error)
{
    reservation->grant.waits = true;
    reservation->cancelled = NULL;
    cancel(reservation, reason, 0, NULL);
    if (error)
        *error = reservation->grant.error;
    return reservation->cancel_outcome;
}

lks_code lks_reservation_cancel_start(lks_reservation *reservation, const char *reason, lks_reservation_cancelled *done,
                                      void *arg, lks_error *error)
{
    reservation->grant.waits = false;
    reservation->cancelled = done;
    reservation->arg = arg;
    return cancel(reservation, reason, 0, error);
}

void lks_reservation_free(lks_reservation *reservation)
{
    if (!reservation || lease_check_process(NULL) != LKS_OK)
        return;
    if (atomic_load(&reservation->grant.state) == GRANT_HELD) { /* else a cancelled chain may still run */
        reservation->grant.waits = true;
        reservation->cancelled = NULL;
        cancel(reservation, NULL, CANCEL_MS, NULL);
    }
    grant_free(&reservation->grant);
}

void lks_reservation_cleanup(lks_reservation **reservation)
{
    lks_reservation_free(*reservation);
    *reservation = NULL;
}

/* ---- reserving ----------------------------------------------------------------------- */

/* Sets *error to, for example, "sold out", with the available quantity of the first line that cannot be reserved. */
static void refuse(const lks_reserve_response *response, const char *what, lks_error *error)
{
    if (response->n_lines == 0)
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", what);
    else
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s: %s, of which %lld are available", what,
                      response->lines[0]->sku, (long long)response->lines[0]->available);
}

static grant_answer reserved(struct grant *grant, const ProtobufCMessage *message)
{
    static const char *const refusals[] = {
        [LKS_RESERVE_OUTCOME_SOLD_OUT] = "sold out",
        [LKS_RESERVE_OUTCOME_BUYER_LIMIT] = "over the limit of the buyer",
        [LKS_RESERVE_OUTCOME_NOT_OPEN] = "not on sale yet",
        [LKS_RESERVE_OUTCOME_CLOSED] = "not on sale any more",
        [LKS_RESERVE_OUTCOME_UNKNOWN_SKU] = "no such item",
        [LKS_RESERVE_OUTCOME_CANCELLED] = "the order was cancelled",
    };
    const lks_reserve_response *response = (const lks_reserve_response *)message;
    lks_reservation *reservation = of(grant);
    size_t outcome = (size_t)response->outcome;

    reservation->replayed = response->replayed;
    grant->left_ms = response->hold_ms;
    if (response->outcome != LKS_RESERVE_OUTCOME_RESERVED &&
        (outcome >= sizeof refusals / sizeof *refusals || !refusals[outcome])) {
        fail_unexpected(&grant->error);
        return GRANT_FAILED;
    }
    reservation->outcome = response->outcome;
    if (response->outcome != LKS_RESERVE_OUTCOME_RESERVED) {
        refuse(response, refusals[outcome], &grant->error);
        return GRANT_REFUSED;
    }
    return response->replayed && grant->lease.keep_ms != 0 && grant->left_ms > 0 ? GRANT_UNCONFIRMED : GRANT_GRANTED;
}

/* Extends the hold, of a replay at once: a replay has the rest of an earlier hold, counted from when the server answers.
 * Counted from when the Reserve was sent, that rest may already be over. */
static lks_code send_extend(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    lks_extend_hold_request request = LKS_EXTEND_HOLD_REQUEST_INIT;
    struct grant_call own = *call;

    request.group = of(grant)->group;
    request.order_id = of(grant)->order_id;
    request.hold_ms = grant->lease.lease_ms;
    if (call->kind == GRANT_CONFIRMS)
        own.timeout_ms = lease_call_ms((uint64_t)grant->left_ms * CLOCK_NS_PER_MS);
    return grant_send(grant, &own, &lks_stock_extend_hold_method, &request.base, error);
}

static int64_t left_ms(const struct grant *grant, const ProtobufCMessage *message)
{
    const lks_extend_hold_response *response = (const lks_extend_hold_response *)message;

    (void)grant;
    return response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED ? response->hold_ms : 0;
}

/* The order is reserved; if the ExtendHold failed, for the rest of the earlier hold. */
static grant_answer unconfirmed(struct grant *grant, bool answered)
{
    (void)grant;
    (void)answered;
    return GRANT_GRANTED;
}

static void given_back(struct grant *grant, const ProtobufCMessage *response)
{
    const lks_cancel_outcome outcome = ((const lks_cancel_response *)response)->outcome;

    if (outcome == LKS_CANCEL_OUTCOME_CANCELLED || outcome == LKS_CANCEL_OUTCOME_UNKNOWN_ORDER ||
        outcome == LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED)
        grant->error.applied = LKS_APPLIED_NO;
    else
        grant_give_back_later(grant);
}

static void settled(struct grant *grant)
{
    lks_reservation *reservation = of(grant);

    if (reservation->made)
        reservation->made(reservation->arg, reservation->outcome, &grant->error);
}

static lks_code send_reserve(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_reservation *reservation = of(grant);
    const lks_reservation_order *order = reservation->order;
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
    lks_line lines[LINES_MAX], *list[LINES_MAX];

    for (size_t i = 0; i < order->n_lines; i++) {
        lines[i] = (lks_line)LKS_LINE_INIT;
        lines[i].sku = order->lines[i].sku;
        lines[i].quantity = order->lines[i].quantity;
        list[i] = &lines[i];
    }
    request.group = reservation->group;
    request.order_id = reservation->order_id;
    if (order->buyer_id)
        request.buyer_id = order->buyer_id;
    request.n_lines = order->n_lines;
    request.lines = list;
    request.fresh = !order->order_id; /* no other process can know the id */
    request.hold_ms = grant->lease.lease_ms;
    return grant_send(grant, call, &lks_stock_reserve_method, &request.base, error);
}

static const grant_kind chain = {.begin = send_reserve,
                                 .begun = reserved,
                                 .confirm = send_extend,
                                 .left_ms = left_ms,
                                 .unconfirmed = unconfirmed,
                                 .give_back = send_give_back,
                                 .give_back_ms = LEASE_TOMBSTONE_MS,
                                 .given_back = given_back,
                                 .settled = settled};

static lks_code read_order(lks_reservation_order *order, const lks_reservation_order *given, size_t given_bytes,
                           lks_error *error)
{
    lks_code code = lks_rpc_options_read(order, sizeof *order, given, given_bytes, "lks_reservation_order", error);

    if (code != LKS_OK)
        return code;
    bool has_group = order->group && *order->group != '\0';
    if (order->n_lines < 1 || order->n_lines > LINES_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "order.lines: must be 1 to %d", LINES_MAX);
    for (size_t i = 0; i < order->n_lines; i++)
        if (!order->lines[i].sku)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "order.lines[%zu].sku: must be given", i);
    if (!has_group && order->n_lines > 1)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "order.group: must be given with several lines");
    return LKS_OK;
}

/* One allocation: the reservation and its texts. */
static lks_code new_reservation(lks_channel *channel, const lks_reservation_order *order, lks_reservation **ret,
                                lks_error *error)
{
    char random[LKS_RPC_RANDOM_ID_LEN + 1];

    lks_rpc_random_id(random);
    const char *order_id = order->order_id ? order->order_id : random;
    const char *group = order->group && *order->group != '\0' ? order->group : order->lines[0].sku;
    lks_reservation *reservation = calloc(1, sizeof *reservation + strlen(order_id) + strlen(group) + 2);
    if (!reservation)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    char *text = (char *)(reservation + 1);
    reservation->group = text;
    reservation->order_id = strcpy(stpcpy(text, group) + 1, order_id);
    reservation->order = order;
    reservation->grant.kind = &chain;
    reservation->grant.lease = (struct lease){.kind = &grant_lease,
                                              .channel = channel,
                                              .lease_ms = order->hold_ms != 0 ? order->hold_ms : HOLD_MS,
                                              .keep_ms = order->keep_ms};
    lks_code code = grant_init(&reservation->grant, 0, error);
    if (code == LKS_OK)
        *ret = reservation;
    return code;
}

lks_reserve_outcome lks_reservation_make_sized(lks_channel *channel, const lks_reservation_order *order,
                                               size_t order_bytes, lks_reservation **ret, lks_error *error)
{
    lks_reservation *reservation = NULL;
    lks_reservation_order own;
    lks_error unwanted;

    error = error ? error : &unwanted;
    if (read_order(&own, order, order_bytes, error) != LKS_OK ||
        new_reservation(channel, &own, &reservation, error) != LKS_OK)
        return LKS_RESERVE_OUTCOME_UNSPECIFIED;
    grant_run(&reservation->grant, 0);
    lks_reserve_outcome outcome = reservation->outcome;
    *error = reservation->grant.error;
    if (outcome == LKS_RESERVE_OUTCOME_RESERVED)
        *ret = reservation;
    else
        lks_reservation_free(reservation);
    return outcome;
}

lks_code lks_reservation_make_start_sized(lks_channel *channel, const lks_reservation_order *order, size_t order_bytes,
                                          lks_reservation_made *done, void *arg, lks_reservation **ret,
                                          lks_error *error)
{
    lks_reservation *reservation = NULL;
    lks_reservation_order own;
    lks_code code = read_order(&own, order, order_bytes, error);

    if (code != LKS_OK || (code = new_reservation(channel, &own, &reservation, error)) != LKS_OK)
        return code;
    reservation->made = done;
    reservation->arg = arg;
    *ret = reservation; /* before the callback can run */
    code = grant_start(&reservation->grant, 0, error);
    if (code != LKS_OK)
        *ret = NULL;
    return code;
}

void lks_reservation_make_cancel(lks_reservation *reservation)
{
    lks_error error;

    if (grant_cancel(&reservation->grant, &error))
        reservation->made(reservation->arg, LKS_RESERVE_OUTCOME_UNSPECIFIED, &error);
}

const char *lks_reservation_order_id(const lks_reservation *reservation)
{
    return reservation->order_id;
}

bool lks_reservation_is_replayed(const lks_reservation *reservation)
{
    return reservation->replayed;
}

bool lks_reservation_is_lost(const lks_reservation *reservation)
{
    return lease_is_lost(&reservation->grant.lease);
}

/* ---- selling ------------------------------------------------------------------------- */

static lks_confirm_outcome take_confirmed(lks_confirm_outcome outcome, lks_error *error)
{
    static const char *const refusals[] = {
        [LKS_CONFIRM_OUTCOME_EXPIRED] = "the hold had ended",
        [LKS_CONFIRM_OUTCOME_CANCELLED] = "the order was cancelled",
        [LKS_CONFIRM_OUTCOME_SOLD_OUT] = "the hold had ended, and the stock is gone",
        [LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER] = "the order is not known any more",
    };

    if (outcome == LKS_CONFIRM_OUTCOME_CONFIRMED) {
        *error = (lks_error){.code = LKS_OK};
        return outcome;
    }
    if ((size_t)outcome < sizeof refusals / sizeof *refusals && refusals[outcome]) {
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", refusals[outcome]);
        return outcome;
    }
    fail_unexpected(error);
    return LKS_CONFIRM_OUTCOME_UNSPECIFIED;
}

/* A confirm in doubt may have sold it. */
static void on_confirmed(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);
    lks_confirm_outcome outcome = LKS_CONFIRM_OUTCOME_UNSPECIFIED;

    reservation->grant.error = *error;
    if (code == LKS_OK)
        outcome = take_confirmed(((const lks_confirm_response *)response)->outcome, &reservation->grant.error);
    if (outcome != LKS_CONFIRM_OUTCOME_UNSPECIFIED)
        grant_set_held(grant, outcome != LKS_CONFIRM_OUTCOME_CONFIRMED && outcome != LKS_CONFIRM_OUTCOME_CANCELLED);
    else if (grant->error.applied != LKS_APPLIED_NO)
        grant_set_held(grant, false);
    reservation->confirm_outcome = outcome;
    if (reservation->confirmed)
        reservation->confirmed(reservation->arg, outcome, &reservation->grant.error);
}

static lks_code confirm(lks_reservation *reservation, bool reacquire, lks_error *error)
{
    const struct grant_call call = {.kind = GRANT_ENDS, .next = on_confirmed};
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    request.reacquire_if_expired = reacquire;
    return grant_send(&reservation->grant, &call, &lks_stock_confirm_method, &request.base, error);
}

lks_confirm_outcome lks_reservation_confirm(lks_reservation *reservation, bool reacquire, lks_error *error)
{
    reservation->grant.waits = true;
    reservation->confirmed = NULL;
    confirm(reservation, reacquire, NULL);
    if (error)
        *error = reservation->grant.error;
    return reservation->confirm_outcome;
}

lks_code lks_reservation_confirm_start(lks_reservation *reservation, bool reacquire, lks_reservation_confirmed *done,
                                       void *arg, lks_error *error)
{
    reservation->grant.waits = false;
    reservation->confirmed = done;
    reservation->arg = arg;
    return confirm(reservation, reacquire, error);
}

/* lks_reservation. Invariant: an order that may be reserved and is not owned by a
 * caller any more is cancelled, in the background where need be, unless it may be sold. */
#include <lockstock/reservation.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/stock.lks_client.h>

#include "client/away.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "base/clock.h"
#include "client/lease/lease.h"

enum { HOLD_MS = 60000, LINES_MAX = 64, CANCEL_MS = 2000 };

struct lks_reservation {
    struct lease lease;
    char *group, *order_id; /* constant */
    bool replayed;
    bool settled; /* confirmed, perhaps confirmed, or cancelled: not to be cancelled at the end */
};

static lks_code succeed(lks_error *error)
{
    *error = (lks_error){.code = LKS_OK};
    return LKS_OK;
}

/* ---- the hold ------------------------------------------------------------------- */

static lks_reservation *of(struct lease *lease)
{
    return (lks_reservation *)((char *)lease - offsetof(lks_reservation, lease));
}

static void extended(void *arg, lks_code code, const lks_extend_hold_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;

    if (code == LKS_OK && response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED)
        batch->renewals[0].left_ms = response->hold_ms;
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_extend_hold_request extend_request(const lks_reservation *reservation)
{
    lks_extend_hold_request request = LKS_EXTEND_HOLD_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    request.hold_ms = reservation->lease.lease_ms;
    return request;
}

static lks_code extend(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    const lks_extend_hold_request request = extend_request(of(batch->renewals[0].lease));

    return lks_stock_extend_hold_start(channel, &request, &options, extended, batch, NULL, error);
}

static void reservation_free(lks_reservation *reservation)
{
    free(reservation->group);
    free(reservation->order_id);
    free(reservation);
}

static void free_kept(struct lease *lease)
{
    reservation_free(of(lease));
}

static const lease_kind kind = {.batch_max = 1, .renew = extend, .free = free_kept};

/* ---- giving back ---------------------------------------------------------------- */

static lks_cancel_request cancel_request(const lks_reservation *reservation, const char *reason)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    if (reason)
        request.reason = reason;
    return request;
}

/* Where it cannot even be started the hold ends by itself. */
static void cancel_later(const lks_reservation *reservation)
{
    const lks_call_options options = {.timeout_ms = LEASE_TOMBSTONE_MS, .insist = true};
    lks_cancel_request request = cancel_request(reservation, NULL);

    lks_stock_cancel_start(reservation->lease.channel, &request, &options, NULL, NULL, NULL, NULL);
}

static lks_cancel_outcome cancel(lks_reservation *reservation, const char *reason, uint32_t timeout_ms,
                                 lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    lks_cancel_request request = cancel_request(reservation, reason);
    lks_cancel_response *response = NULL;

    if (lks_stock_cancel(reservation->lease.channel, &request, &options, &response, error) != LKS_OK)
        return LKS_CANCEL_OUTCOME_UNSPECIFIED;
    lks_cancel_outcome outcome = response->outcome;
    lks_cancel_response_free(response);
    switch ((int)outcome) {
    case LKS_CANCEL_OUTCOME_CANCELLED:
    case LKS_CANCEL_OUTCOME_UNKNOWN_ORDER:
        reservation->settled = true;
        return outcome;
    case LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED:
        reservation->settled = true;
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "the order is sold");
        return outcome;
    default:
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
        return LKS_CANCEL_OUTCOME_UNSPECIFIED;
    }
}

lks_cancel_outcome lks_reservation_cancel(lks_reservation *reservation, const char *reason, lks_error *error)
{
    lks_error unwanted;

    return cancel(reservation, reason, 0, error ? error : &unwanted);
}

void lks_reservation_free(lks_reservation *reservation)
{
    lks_error error;

    if (!reservation || lease_check_process(NULL) != LKS_OK)
        return;
    if (!reservation->settled)
        cancel(reservation, NULL, CANCEL_MS, &error);
    if (!reservation->settled)
        cancel_later(reservation);
    lease_end(&reservation->lease);
    lease_drop(&reservation->lease);
}

void lks_reservation_cleanup(lks_reservation **reservation)
{
    lks_reservation_free(*reservation);
    *reservation = NULL;
}

/* ---- making ---------------------------------------------------------------------- */

static lks_code check(const lks_reservation_order *order, lks_error *error)
{
    bool has_group = order->group && *order->group != '\0';

    if (order->n_lines < 1 || order->n_lines > LINES_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "order.lines: must be 1 to %d", LINES_MAX);
    for (size_t i = 0; i < order->n_lines; i++)
        if (!order->lines[i].sku)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "order.lines[%zu].sku: must be given", i);
    if (!has_group && order->n_lines > 1)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "order.group: several lines need one");
    return LKS_OK;
}

static lks_code new_reservation(lks_channel *channel, const lks_reservation_order *order, lks_reservation **ret,
                                lks_error *error)
{
    char random[LKS_RPC_RANDOM_ID_LEN + 1];
    lks_code code = check(order, error);
    if (code != LKS_OK)
        return code;
    lks_reservation *reservation = calloc(1, sizeof *reservation);
    if (!reservation)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_rpc_random_id(random);
    reservation->order_id = strdup(order->order_id ? order->order_id : random);
    reservation->group = strdup(order->group && *order->group != '\0' ? order->group : order->lines[0].sku);
    reservation->lease = (struct lease){.kind = &kind,
                                        .channel = channel,
                                        .lease_ms = order->hold_ms != 0 ? order->hold_ms : HOLD_MS,
                                        .keep_ms = order->keep_ms};
    code = reservation->order_id && reservation->group
               ? lease_expect(&reservation->lease, error)
               : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (code != LKS_OK) {
        reservation_free(reservation);
        return code;
    }
    *ret = reservation;
    return LKS_OK;
}

/* "sold out" and, of the first line that is in the way, how much there is. */
static void tell_refusal(const lks_reserve_response *response, const char *what, lks_error *error)
{
    if (response->n_lines == 0)
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", what);
    else
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s: %s, of which %lld are available", what,
                      response->lines[0]->sku, (long long)response->lines[0]->available);
}

static lks_reserve_outcome take_answer(const lks_reserve_response *response, lks_error *error)
{
    switch ((int)response->outcome) {
    case LKS_RESERVE_OUTCOME_RESERVED:
        succeed(error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_SOLD_OUT:
        tell_refusal(response, "sold out", error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_BUYER_LIMIT:
        tell_refusal(response, "more than one buyer may have", error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_NOT_OPEN:
        tell_refusal(response, "not on sale yet", error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_CLOSED:
        tell_refusal(response, "not on sale any more", error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_UNKNOWN_SKU:
        tell_refusal(response, "no such item", error);
        return response->outcome;
    case LKS_RESERVE_OUTCOME_CANCELLED:
        tell_refusal(response, "the order was cancelled", error);
        return response->outcome;
    default:
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
        return LKS_RESERVE_OUTCOME_UNSPECIFIED;
    }
}

static lks_reserve_outcome reserve(lks_reservation *reservation, const lks_reservation_order *order, int64_t *left_ms,
                                   lks_error *error)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
    lks_reserve_response *response = NULL;
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
    request.fresh = !order->order_id; /* nobody else can know it */
    request.hold_ms = reservation->lease.lease_ms;
    if (lks_stock_reserve(reservation->lease.channel, &request, NULL, &response, error) != LKS_OK)
        return LKS_RESERVE_OUTCOME_UNSPECIFIED;
    bool doubtful = error_is_doubtful(error);
    lks_reserve_outcome outcome = take_answer(response, error);
    if (outcome != LKS_RESERVE_OUTCOME_RESERVED && doubtful)
        error->applied = LKS_APPLIED_MAYBE;
    reservation->replayed = response->replayed;
    *left_ms = response->hold_ms;
    lks_reserve_response_free(response);
    return outcome;
}

/* What may be reserved, also after the refusal of a later try, is cancelled. A refusal is true once a server has
 * answered that. */
static void cancel_unreturned(lks_reservation *reservation, bool refused, lks_error *error)
{
    lks_error unwanted;

    if (refused)
        cancel(reservation, NULL, LEASE_REFUSED_MS, &unwanted);
    if (reservation->settled)
        error->applied = LKS_APPLIED_NO;
    else
        cancel_later(reservation);
}

/* A replay tells what is left of an earlier hold, counted from when the server answers. Counted from when the Reserve was
 * sent, that may seem to be over, so the hold is extended at once. */
static void extend_now(lks_reservation *reservation, uint64_t *sent_ns, int64_t *left_ms)
{
    const lks_call_options options = {.timeout_ms = lease_call_ms((uint64_t)*left_ms * CLOCK_NS_PER_MS),
                                      .insist = true};
    const lks_extend_hold_request request = extend_request(reservation);
    lks_extend_hold_response *response = NULL;
    uint64_t now_ns = clock_now_ns();

    if (lks_stock_extend_hold(reservation->lease.channel, &request, &options, &response, NULL) != LKS_OK)
        return;
    *left_ms = response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED ? response->hold_ms : 0;
    *sent_ns = now_ns;
    lks_extend_hold_response_free(response);
}

lks_reserve_outcome lks_reservation_make(lks_channel *channel, const lks_reservation_order *order,
                                         lks_reservation **ret, lks_error *error)
{
    lks_reservation *reservation = NULL;
    lks_error unwanted;
    int64_t left_ms = 0;

    error = error ? error : &unwanted;
    if (new_reservation(channel, order, &reservation, error) != LKS_OK)
        return LKS_RESERVE_OUTCOME_UNSPECIFIED;
    uint64_t sent_ns = clock_now_ns();
    lks_reserve_outcome outcome = reserve(reservation, order, &left_ms, error);
    if (outcome == LKS_RESERVE_OUTCOME_RESERVED) {
        if (reservation->replayed && order->keep_ms != 0 && left_ms > 0)
            extend_now(reservation, &sent_ns, &left_ms);
        lease_begin(&reservation->lease, sent_ns, left_ms);
        *ret = reservation;
        return outcome;
    }
    if (error->applied != LKS_APPLIED_NO)
        cancel_unreturned(reservation, outcome != LKS_RESERVE_OUTCOME_UNSPECIFIED, error);
    lease_end(&reservation->lease);
    lease_drop(&reservation->lease);
    return outcome;
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
    return lease_is_lost(&reservation->lease);
}

/* ---- selling --------------------------------------------------------------------- */

static lks_confirm_outcome refuse(lks_error *error, lks_confirm_outcome outcome, const char *text)
{
    lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", text);
    return outcome;
}

static lks_confirm_outcome take_confirmed(lks_confirm_outcome outcome, lks_error *error)
{
    switch ((int)outcome) {
    case LKS_CONFIRM_OUTCOME_CONFIRMED:
        succeed(error);
        return outcome;
    case LKS_CONFIRM_OUTCOME_EXPIRED:
        return refuse(error, outcome, "the hold had ended");
    case LKS_CONFIRM_OUTCOME_CANCELLED:
        return refuse(error, outcome, "the order was cancelled");
    case LKS_CONFIRM_OUTCOME_SOLD_OUT:
        return refuse(error, outcome, "the hold had ended, and the stock is gone");
    case LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER:
        return refuse(error, outcome, "the order is not known any more");
    default:
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
        return LKS_CONFIRM_OUTCOME_UNSPECIFIED;
    }
}

lks_confirm_outcome lks_reservation_confirm(lks_reservation *reservation, bool reacquire, lks_error *error)
{
    const lks_call_options options = {.insist = true};
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;
    lks_confirm_response *response = NULL;
    lks_confirm_outcome outcome = LKS_CONFIRM_OUTCOME_UNSPECIFIED;
    lks_error unwanted;

    error = error ? error : &unwanted;
    request.group = reservation->group;
    request.order_id = reservation->order_id;
    request.reacquire_if_expired = reacquire;
    if (lks_stock_confirm(reservation->lease.channel, &request, &options, &response, error) == LKS_OK)
        outcome = take_confirmed(response->outcome, error);
    lks_confirm_response_free(response);
    if (outcome != LKS_CONFIRM_OUTCOME_UNSPECIFIED)
        reservation->settled = outcome == LKS_CONFIRM_OUTCOME_CONFIRMED || outcome == LKS_CONFIRM_OUTCOME_CANCELLED;
    else if (error->applied != LKS_APPLIED_NO)
        reservation->settled = true;
    return outcome;
}

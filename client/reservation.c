/* lks_reservation: Reserve, ExtendHold for one that was reserved before, then Confirm or Cancel. Invariant: an order
 * that may be reserved and that no caller owns any more is cancelled, in the background if necessary, unless it may be
 * sold. */
#include <lockstock/reservation.h>

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/stock.lks_client.h>

#include "base/clock.h"
#include "client/lease/grant.h"
#include "client/lease/lease_time.h"
#include "rpc/transient.h"

enum { HOLD_MS = 60000, LINES_MAX = 64, CANCEL_MS = 2000 };

struct lks_reservation {
    struct grant grant;           /* first */
    const char *group, *order_id; /* constant; stored behind the struct */
    bool over;       /* confirmed, perhaps confirmed, or cancelled: lks_reservation_free does not cancel it */
    lks_error error; /* of the operation under way, or of the last one */

    /* Of the Reserve. */
    bool replayed;
    lks_reserve_outcome outcome;
    int64_t left_ms;
    uint64_t extend_sent_ns;

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

/* ---- the lease of the hold ----------------------------------------------------------- */

static lks_extend_hold_request extend_request(const lks_reservation *reservation)
{
    lks_extend_hold_request request = LKS_EXTEND_HOLD_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    request.hold_ms = reservation->grant.lease.lease_ms;
    return request;
}

static int64_t extended_ms(const lks_extend_hold_response *response)
{
    return response->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED ? response->hold_ms : 0;
}

static void renewed(void *arg, lks_code code, const lks_extend_hold_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;

    if (code == LKS_OK)
        batch->renewals[0].left_ms = extended_ms(response);
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_code renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    const lks_extend_hold_request request = extend_request((const lks_reservation *)batch->renewals[0].lease);

    return lks_stock_extend_hold_start(channel, &request, &options, renewed, batch, NULL, error);
}

static void free_reservation(struct lease *lease)
{
    grant_fini((struct grant *)lease);
    free(lease);
}

static const lease_kind kind = {.batch_max = 1, .renew = renew, .free = free_reservation};

/* ---- giving back --------------------------------------------------------------------- */

static lks_cancel_request cancel_request(const lks_reservation *reservation, const char *reason)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    if (reason)
        request.reason = reason;
    return request;
}

/* Cancels in the background. If that cannot be started, the hold ends by itself. */
static void cancel_later(const lks_reservation *reservation)
{
    const lks_call_options options = {.timeout_ms = LEASE_TOMBSTONE_MS, .insist = true};
    const lks_cancel_request request = cancel_request(reservation, NULL);

    lks_stock_cancel_start(reservation->grant.lease.channel, &request, &options, NULL, NULL, NULL, NULL);
}

static lks_cancel_outcome take_cancelled(lks_reservation *reservation, const lks_cancel_response *response)
{
    switch ((int)response->outcome) {
    case LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED:
        lks_error_set(&reservation->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "the order is sold");
        break;
    case LKS_CANCEL_OUTCOME_CANCELLED:
    case LKS_CANCEL_OUTCOME_UNKNOWN_ORDER:
        break;
    default:
        fail_unexpected(&reservation->error);
        return LKS_CANCEL_OUTCOME_UNSPECIFIED;
    }
    reservation->over = true;
    return response->outcome;
}

static void on_cancelled(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);

    reservation->error = *error;
    reservation->cancel_outcome = code == LKS_OK ? take_cancelled(reservation, (const lks_cancel_response *)response)
                                                 : LKS_CANCEL_OUTCOME_UNSPECIFIED;
    if (reservation->cancelled)
        reservation->cancelled(reservation->arg, reservation->cancel_outcome, &reservation->error);
}

static lks_code cancel(lks_reservation *reservation, const char *reason, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    const lks_cancel_request request = cancel_request(reservation, reason);

    return grant_start(&reservation->grant, GRANT_CONTINUES, &lks_stock_cancel_method, &request.base, &options,
                       on_cancelled, error);
}

lks_cancel_outcome lks_reservation_cancel(lks_reservation *reservation, const char *reason, lks_error *error)
{
    reservation->grant.waits = true;
    reservation->cancelled = NULL;
    cancel(reservation, reason, 0, NULL);
    if (error)
        *error = reservation->error;
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
    reservation->grant.waits = true;
    reservation->cancelled = NULL;
    if (!reservation->over)
        cancel(reservation, NULL, CANCEL_MS, NULL);
    if (!reservation->over)
        cancel_later(reservation);
    lease_end(&reservation->grant.lease);
    lease_drop(&reservation->grant.lease);
}

void lks_reservation_cleanup(lks_reservation **reservation)
{
    lks_reservation_free(*reservation);
    *reservation = NULL;
}

/* ---- reserving ----------------------------------------------------------------------- */

/* Reports the outcome. An order that is not reserved, or whose caller gave up, is over. */
static void settle(lks_reservation *reservation)
{
    bool reserved = reservation->outcome == LKS_RESERVE_OUTCOME_RESERVED;

    if (!grant_settle(&reservation->grant)) {
        if (reserved)
            cancel_later(reservation);
        return;
    }
    reservation->over = !reserved;
    if (reserved) {
        reservation->error = (lks_error){.code = LKS_OK};
        lease_begin(&reservation->grant.lease, reservation->grant.sent_ns, reservation->left_ms);
    }
    if (reservation->made)
        reservation->made(reservation->arg, reservation->outcome, &reservation->error);
}

static void undone(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);
    lks_cancel_outcome outcome =
        code == LKS_OK ? ((const lks_cancel_response *)response)->outcome : LKS_CANCEL_OUTCOME_UNSPECIFIED;

    (void)error;
    if (outcome == LKS_CANCEL_OUTCOME_CANCELLED || outcome == LKS_CANCEL_OUTCOME_UNKNOWN_ORDER ||
        outcome == LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED)
        reservation->error.applied = LKS_APPLIED_NO;
    else
        cancel_later(reservation);
    settle(reservation);
}

/* Cancels an order that may be reserved but is not returned to the caller, also when a later try was refused. A refusal
 * is reported once a server has answered the Cancel. */
static void cancel_unreturned(lks_reservation *reservation)
{
    const lks_call_options options = {.timeout_ms = LEASE_REFUSED_MS, .insist = true};
    const lks_cancel_request request = cancel_request(reservation, NULL);

    if (reservation->outcome != LKS_RESERVE_OUTCOME_UNSPECIFIED) {
        grant_call(&reservation->grant, GRANT_CONTINUES, &lks_stock_cancel_method, &request.base, &options, undone);
        return;
    }
    cancel_later(reservation);
    settle(reservation);
}

static void on_extended(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);

    (void)error;
    if (code == LKS_OK) {
        reservation->left_ms = extended_ms((const lks_extend_hold_response *)response);
        grant->sent_ns = reservation->extend_sent_ns;
    }
    settle(reservation);
}

/* Extends the hold of a replay at once: a replay has the rest of an earlier hold, counted from when the server answers.
 * Counted from when the Reserve was sent, that rest may already be over. */
static void extend_now(lks_reservation *reservation)
{
    const lks_call_options options = {.timeout_ms = lease_call_ms((uint64_t)reservation->left_ms * CLOCK_NS_PER_MS),
                                      .insist = true};
    const lks_extend_hold_request request = extend_request(reservation);

    reservation->extend_sent_ns = clock_now_ns();
    grant_call(&reservation->grant, GRANT_CONTINUES, &lks_stock_extend_hold_method, &request.base, &options,
               on_extended);
}

/* Sets *error to, for example, "sold out", with the available quantity of the first line that cannot be reserved. */
static void refuse(const lks_reserve_response *response, const char *what, lks_error *error)
{
    if (response->n_lines == 0)
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", what);
    else
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s: %s, of which %lld are available", what,
                      response->lines[0]->sku, (long long)response->lines[0]->available);
}

static void take_answer(lks_reservation *reservation, const lks_reserve_response *response)
{
    static const char *const refusals[] = {
        [LKS_RESERVE_OUTCOME_SOLD_OUT] = "sold out",
        [LKS_RESERVE_OUTCOME_BUYER_LIMIT] = "over the limit of the buyer",
        [LKS_RESERVE_OUTCOME_NOT_OPEN] = "not on sale yet",
        [LKS_RESERVE_OUTCOME_CLOSED] = "not on sale any more",
        [LKS_RESERVE_OUTCOME_UNKNOWN_SKU] = "no such item",
        [LKS_RESERVE_OUTCOME_CANCELLED] = "the order was cancelled",
    };
    size_t outcome = (size_t)response->outcome;

    reservation->outcome = response->outcome;
    reservation->replayed = response->replayed;
    reservation->left_ms = response->hold_ms;
    if (response->outcome == LKS_RESERVE_OUTCOME_RESERVED)
        return;
    if (outcome < sizeof refusals / sizeof *refusals && refusals[outcome]) {
        refuse(response, refusals[outcome], &reservation->error);
        return;
    }
    reservation->outcome = LKS_RESERVE_OUTCOME_UNSPECIFIED;
    fail_unexpected(&reservation->error);
}

static void on_reserved(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_reservation *reservation = of(grant);

    reservation->error = *error;
    if (code == LKS_OK)
        take_answer(reservation, (const lks_reserve_response *)response);
    bool reserved = reservation->outcome == LKS_RESERVE_OUTCOME_RESERVED;
    if (!reserved && code == LKS_OK && error_is_doubtful(error))
        reservation->error.applied = LKS_APPLIED_MAYBE;
    if (reserved && reservation->replayed && reservation->grant.lease.keep_ms != 0 && reservation->left_ms > 0)
        extend_now(reservation);
    else if (!reserved && reservation->error.applied != LKS_APPLIED_NO)
        cancel_unreturned(reservation);
    else
        settle(reservation);
}

static lks_code reserve(lks_reservation *reservation, const lks_reservation_order *order, lks_error *error)
{
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
    request.hold_ms = reservation->grant.lease.lease_ms;
    reservation->grant.sent_ns = clock_now_ns();
    return grant_start(&reservation->grant, GRANT_TAKES, &lks_stock_reserve_method, &request.base, NULL, on_reserved,
                       error);
}

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
static lks_code new_reservation(lks_channel *channel, const lks_reservation_order *order, bool waits,
                                lks_reservation **ret, lks_error *error)
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
    reservation->over = true; /* until it is reserved */
    reservation->grant.lease = (struct lease){.kind = &kind,
                                              .channel = channel,
                                              .lease_ms = order->hold_ms != 0 ? order->hold_ms : HOLD_MS,
                                              .keep_ms = order->keep_ms};
    lks_code code = grant_init(&reservation->grant, waits, 0, error);
    if (code == LKS_OK)
        *ret = reservation;
    else
        free_reservation(&reservation->grant.lease);
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
        new_reservation(channel, &own, true, &reservation, error) != LKS_OK)
        return LKS_RESERVE_OUTCOME_UNSPECIFIED;
    reserve(reservation, &own, &reservation->error);
    lks_reserve_outcome outcome = reservation->outcome;
    *error = reservation->error;
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

    if (code != LKS_OK || (code = new_reservation(channel, &own, false, &reservation, error)) != LKS_OK)
        return code;
    reservation->made = done;
    reservation->arg = arg;
    *ret = reservation; /* before the callback can run */
    code = reserve(reservation, &own, error);
    if (code != LKS_OK) {
        *ret = NULL;
        lks_reservation_free(reservation);
    }
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

    reservation->error = *error;
    if (code == LKS_OK)
        outcome = take_confirmed(((const lks_confirm_response *)response)->outcome, &reservation->error);
    if (outcome != LKS_CONFIRM_OUTCOME_UNSPECIFIED)
        reservation->over = outcome == LKS_CONFIRM_OUTCOME_CONFIRMED || outcome == LKS_CONFIRM_OUTCOME_CANCELLED;
    else if (reservation->error.applied != LKS_APPLIED_NO)
        reservation->over = true;
    reservation->confirm_outcome = outcome;
    if (reservation->confirmed)
        reservation->confirmed(reservation->arg, outcome, &reservation->error);
}

static lks_code confirm(lks_reservation *reservation, bool reacquire, lks_error *error)
{
    const lks_call_options options = {.insist = true};
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = reservation->group;
    request.order_id = reservation->order_id;
    request.reacquire_if_expired = reacquire;
    return grant_start(&reservation->grant, GRANT_CONTINUES, &lks_stock_confirm_method, &request.base, &options,
                       on_confirmed, error);
}

lks_confirm_outcome lks_reservation_confirm(lks_reservation *reservation, bool reacquire, lks_error *error)
{
    reservation->grant.waits = true;
    reservation->confirmed = NULL;
    confirm(reservation, reacquire, NULL);
    if (error)
        *error = reservation->error;
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

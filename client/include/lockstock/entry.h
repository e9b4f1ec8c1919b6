/* Entries of GuardService: an entry is one Enter, whose attempt, locks and hold are renewed in the background until it
 * is left.
 *
 *     lks_guard_once once = LKS_GUARD_ONCE_INIT;
 *     lks_enter_request request = LKS_ENTER_REQUEST_INIT;
 *     lks_leave_request end = LKS_LEAVE_REQUEST_INIT;
 *
 *     once.scope = "buy";
 *     once.key = order_id;
 *     request.once = &once;
 *     ... the same for limits, stock and locks
 *     switch (lks_enter(channel, &request, &entry, &error)) {
 *     case LKS_ENTER_OUTCOME_ENTERED:
 *         end.kind = LKS_LEAVE_KIND_COMPLETE;
 *         end.body = buy(lks_entry_answer(entry)->fences[0]->fence);
 *         lks_leave(entry, &end, &error);
 *         break;
 *     case LKS_ENTER_OUTCOME_REPLAY:
 *         reply(lks_entry_answer(entry)->result);
 *         ...
 *
 * Callbacks run once, on the channel's completion thread, never inside the function that starts the operation; a
 * callback that lks_enter_cancel causes runs inside lks_enter_cancel. They must not block. The channel must be closed
 * after its entries were left or freed. All functions are thread-safe, but an entry must not be used while another
 * thread leaves or frees it. */
#ifndef LOCKSTOCK_ENTRY_H
#define LOCKSTOCK_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_entry lks_entry;

/* Enters, on this thread. Copies the request; an empty token becomes random, an empty owner "host/pid", lease_ms 0
 * becomes 30,000. Returns the outcome; LKS_ENTER_OUTCOME_UNSPECIFIED: the call failed and *error says why. *error is
 * also set, with LKS_APPLIED_MAYBE, for a refusal whose earlier try may have been applied. Anything that may have been
 * taken and is not returned is given back in the background, except stock that is sold without a hold. *ret is set with
 * every outcome except UNSPECIFIED; leave it if ENTERED, otherwise free it. error may be NULL. Blocks at most for
 * wait_ms and the channel's timeout. */
lks_enter_outcome lks_enter(lks_channel *channel, const lks_enter_request *request, lks_entry **ret, lks_error *error);

/* outcome and error are those of lks_enter; error is valid until the callback returns. */
typedef void lks_entered(void *arg, lks_entry *entry, lks_enter_outcome outcome, const lks_error *error);

/* The same with a callback. timeout_ms is for everything, including retries; 0 = the channel's, after wait_ms. *ret is
 * set before `done` can run; leave it (once ENTERED) or free it. On failure nothing was started and `done` does not
 * run: LKS_INVALID_ARGUMENT, LKS_RESOURCE_EXHAUSTED (memory, a thread, the channel's queue is full),
 * LKS_FAILED_PRECONDITION (in a forked child), LKS_CANCELLED (the channel is closing). Does not block. */
lks_code lks_enter_start(lks_channel *channel, const lks_enter_request *request, uint32_t timeout_ms, lks_entered *done,
                         void *arg, lks_entry **ret, lks_error *error);

/* Cancels entering: unless `done` has run or is about to, runs it now, on this thread, with UNSPECIFIED and
 * LKS_CANCELLED. Anything that is still taken is given back in the background. Does not block. */
void lks_enter_cancel(lks_entry *entry);

/* The server's answer, valid as long as the entry. NULL: the call failed, so there is none. */
const lks_enter_response *lks_entry_answer(const lks_entry *entry);

/* True unless it was entered and its lease is valid; false for an entry without `once` and `locks`. Does not block,
 * sends nothing. */
bool lks_entry_is_lost(const lks_entry *entry);

/* The time in milliseconds until it counts as lost unless it is renewed; 0: it is lost. UINT32_MAX: it has neither
 * `once` nor `locks`. Does not block, sends nothing. */
uint32_t lks_entry_left_ms(const lks_entry *entry);

/* Leaves, on this thread, and frees the entry. Uses kind, code, body, headers and detail of `end`. Returns the outcome,
 * and *error says why it is not LEFT; UNSPECIFIED: no server confirmed it. After HOLD_ENDED nothing has changed, and
 * the entry is neither freed nor renewed any more: leave it again, with another kind, or free it. Tries as long as the
 * lease, or the channel's timeout if that is longer, because work whose result is not stored will be done twice. A
 * result that is too long (see lks_leave_start) is UNSPECIFIED, and the entry is given back. error may be NULL. */
lks_leave_outcome lks_leave(lks_entry *entry, const lks_leave_request *end, lks_error *error);

/* outcome and error are those of lks_leave. The entry is freed when the callback has returned, except after
 * HOLD_ENDED. */
typedef void lks_left(void *arg, lks_leave_outcome outcome, const lks_error *error);

/* The same with a callback, which may be NULL. timeout_ms: how long to try, the channel's timeout at most; 0 = as long
 * as lks_leave. If it is not 0, trying continues in the background, as long as the lease, at least 30 s. `done` may run
 * inside this function when nothing can be sent. LKS_INVALID_ARGUMENT: the result is longer than LKS_ONCE_BODY_MAX
 * (once.h) or than a message of the channel; LKS_RESOURCE_EXHAUSTED: out of memory. Then `done` does not run, and the
 * entry is unchanged. Does not block. */
lks_code lks_leave_start(lks_entry *entry, const lks_leave_request *end, uint32_t timeout_ms, lks_left *done, void *arg,
                         lks_error *error);

/* Frees an entry after `done` has run. An entry that was entered is given back in the background, as after
 * LKS_LEAVE_KIND_RETRYABLE. Takes NULL. */
void lks_entry_free(lks_entry *entry);

#ifdef __cplusplus
}
#endif

#endif

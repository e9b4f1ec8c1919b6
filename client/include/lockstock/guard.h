/* Runs the guards of a method (lockstock.rpc.v1.guard, lockstock/rpc/guard.h) around a handler, without a thread that
 * waits. A host does so for the services that it serves; who serves methods by other means uses this header as the host
 * does. Handlers want its first part alone.
 *
 *     lks_guarded_enter --done--> lks_guard_runs? --yes--> the handler --> lks_guarded_leave --done--> answer, free
 *                                             \--no--> answer, free
 *
 * docs/guards.md says what each guard means to the callers of a method. */
#ifndef LOCKSTOCK_GUARD_H
#define LOCKSTOCK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for handlers, with the context that they got; thread-safe ------------------------------ */

/* Whether the lock or the attempt counts as lost: others may hold it now, or soon. The resource must refuse later
 * writes of the handler by their fence; its answer is not stored if another attempt took over. False without such a
 * guard. */
bool lks_guard_is_lost(const lks_rpc_context *context);

/* The locks that are held: in the order of their names (strcmp), each once. */
size_t lks_guard_n_locks(const lks_rpc_context *context);

/* The name and the fence of a lock; NULL and 0 when there are not so many. The name lives as long as the context. */
const char *lks_guard_lock_name(const lks_rpc_context *context, size_t i);
uint64_t lks_guard_fence(const lks_rpc_context *context, size_t i);

/* The fence of a lock by its whole name ("stock:42"), prefix included; 0 = there is none of that name. */
uint64_t lks_guard_fence_of(const lks_rpc_context *context, const char *name);

/* Which attempt this is for its key: 1 = the first; more: an earlier one died, stopped or failed for now, and may have
 * had some of its effect. 0 = the method has no idempotency guard. */
int64_t lks_guard_attempt(const lks_rpc_context *context);

/* Higher for each attempt of a key; 0 = the method has no idempotency guard. */
uint64_t lks_guard_attempt_fence(const lks_rpc_context *context);

/* ---- who runs handlers ------------------------------------------------------------------------------------ */

typedef struct lks_guarded lks_guarded;

/* On the channel's completion thread, or inside of the function that was given it; it must not block. */
typedef void lks_guard_done(void *arg);

/* Asks the guards of one call of `method`, one after the other, and runs `done` once all admitted it or one refused
 * it; perhaps before this returns. `guard` and `method` must be constant; `request` is unpacked, is not kept, and has
 * its maps' entries put in order. No guard waits longer than until deadline_ns (CLOCK_MONOTONIC), nor so long that
 * nothing is left. `unanswered_before`: an earlier try of the call may have run, or may run now; so a refusal is an
 * error with applied MAYBE, never the outcome that the guard names for it. *ret is set before `done` can run, and is
 * the caller's to free. On failure `done` does not run, and nothing was sent: LKS_INVALID_ARGUMENT, applied NO: the
 * request has not what a guard needs, naming its path; LKS_RESOURCE_EXHAUSTED: no memory, or the channel's queue is
 * full. Thread-safe; does not block. */
lks_code lks_guarded_enter(lks_channel *channel, const lks_rpc_guard *guard, const lks_rpc_method *method,
                           ProtobufCMessage *request, uint64_t deadline_ns, bool unanswered_before,
                           lks_guard_done *done, void *arg, lks_guarded **ret, lks_error *error);

/* Stops a call that nobody waits for: unless `done` has run or is about to, runs it now, and the call is one that was
 * refused with LKS_CANCELLED. What was taken, or may still be granted, is given back in the background.
 * Thread-safe; does not block. */
void lks_guard_cancel(lks_guarded *guarded);

/* After `done`: whether the handler is to be run, and lks_guarded_leave called after it. */
bool lks_guard_runs(const lks_guarded *guarded);

/* The handler has ended, or is not run after all: with LKS_OK and `response`, else with `error` (its applied too).
 * Stores the result, releases the locks, and runs `done` when both are known to be done, or could not be done within
 * the channel's timeout and the call's deadline: then they go on in the background. Neither `response` nor `error` is
 * kept. Does not block. */
void lks_guarded_leave(lks_guarded *guarded, lks_code code, const ProtobufCMessage *response, const lks_error *error,
                       lks_guard_done *done, void *arg);

/* After `done` of a call that was refused, or of lks_guarded_leave: replaces what stands in *response and *error
 * (error->code is LKS_OK with a response) by what the caller gets, where that is something else. A response is made in
 * the arena. */
void lks_guard_answer(const lks_guarded *guarded, lks_rpc_arena *arena, ProtobufCMessage **response, lks_error *error);

/* After `done`. Takes NULL. */
void lks_guard_free(lks_guarded *guarded);

#ifdef __cplusplus
}
#endif

#endif

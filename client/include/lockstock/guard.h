/* Runs the guards of a method (lockstock.rpc.v1.guard, lockstock/rpc/guard.h) around a handler, without a waiting
 * thread. A host does this for its services; programs that serve methods by other means use this header as the host
 * does. Handlers need only its first part.
 *
 *     lks_guarded_enter --done--> lks_guard_runs? --yes--> the handler --> lks_guarded_leave --done--> answer, free
 *                                             \--no--> answer, free
 *
 * docs/guards.md describes each guard for the callers of a method. */
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

/* ---- for handlers, with their context; thread-safe ----------------------------------------- */

/* Whether the lock or the attempt counts as lost, so that others may hold it now or soon. The resource must refuse
 * later writes of the handler by their fence. The handler's answer is not stored if another attempt took over. False
 * without such a guard. */
bool lks_guard_is_lost(const lks_rpc_context *context);

/* The number of held locks. They are in the order of their names (strcmp), each once. */
size_t lks_guard_n_locks(const lks_rpc_context *context);

/* The name and the fence of the i-th lock; NULL and 0 when there is none. The name is valid as long as the context. */
const char *lks_guard_lock_name(const lks_rpc_context *context, size_t i);
uint64_t lks_guard_fence(const lks_rpc_context *context, size_t i);

/* The fence of a lock by its whole name ("stock:42"), including the prefix; 0 = no lock has that name. */
uint64_t lks_guard_fence_of(const lks_rpc_context *context, const char *name);

/* The number of the attempt for its key: 1 = the first; more: an earlier one died, stopped or failed for now, and may
 * have had some effect. 0 = the method has no idempotency guard. */
int64_t lks_guard_attempt(const lks_rpc_context *context);

/* Higher for each attempt of a key; 0 = the method has no idempotency guard. */
uint64_t lks_guard_attempt_fence(const lks_rpc_context *context);

/* ---- for programs that run handlers ----------------------------------------------------------------------------- */

typedef struct lks_guarded lks_guarded;

/* Runs on the channel's completion thread, or inside the function to which it was passed; it must not block. */
typedef void lks_guard_done(void *arg);

/* Asks the guards of one call of `method`, and runs `done` once all admitted it or one refused it, perhaps before this
 * function returns. `guard` and `method` must be constant. `request` is unpacked; it is not kept, and the entries of
 * its maps are sorted. No guard waits longer than until deadline_ns (CLOCK_MONOTONIC), nor so long that no time is left
 * for the call. `unanswered_before`: an earlier try of the call may have run, or may be running; then a refusal is an
 * error with applied MAYBE, never the guard's outcome. *ret is set before `done` can run; the caller frees it. On
 * failure `done` does not run, and nothing was sent. LKS_INVALID_ARGUMENT, applied NO: the request does not have a
 * value that a guard needs; names its path. LKS_RESOURCE_EXHAUSTED: out of memory, or the channel's queue is full.
 * Thread-safe; does not block. */
lks_code lks_guarded_enter(lks_channel *channel, const lks_rpc_guard *guard, const lks_rpc_method *method,
                           ProtobufCMessage *request, uint64_t deadline_ns, bool unanswered_before,
                           lks_guard_done *done, void *arg, lks_guarded **ret, lks_error *error);

/* Stops a call whose caller is gone: unless `done` has run or is about to, runs it now, and the call counts as refused
 * with LKS_CANCELLED. Anything that was taken, or may still be granted, is given back in the background. Thread-safe;
 * does not block. */
void lks_guard_cancel(lks_guarded *guarded);

/* After `done`: whether the handler must be run, and lks_guarded_leave called after it. */
bool lks_guard_runs(const lks_guarded *guarded);

/* Call it when the handler has ended, or is not run after all: with LKS_OK and `response`, otherwise with `error`,
 * including its applied. Stores the result and releases the locks. Runs `done` when both are done, or could not be done
 * within the channel's timeout and the call's deadline; then they continue in the background. Neither `response` nor
 * `error` is kept. Does not block. */
void lks_guarded_leave(lks_guarded *guarded, lks_code code, const ProtobufCMessage *response, const lks_error *error,
                       lks_guard_done *done, void *arg);

/* After `done` of a refused call, or of lks_guarded_leave: replaces *response and *error (error->code is LKS_OK with a
 * response) by the caller's answer, if that differs. A response is made in the arena. */
void lks_guard_answer(const lks_guarded *guarded, lks_rpc_arena *arena, ProtobufCMessage **response, lks_error *error);

/* Call it after `done`. Takes NULL. */
void lks_guard_free(lks_guarded *guarded);

#ifdef __cplusplus
}
#endif

#endif

/* Leaving: the Release, and the Complete or Fail, at once. Invariant: a caller never gets an error because storing its
 * result failed: it would call again, and the effect would happen twice. */
#include <stdlib.h>

#include "host/guard/guarded.h"

enum { LEAVE_MS_MIN = 1000 /* for a call that ends at its deadline */ };

/* One of the operations that are waited for has ended. */
static void left(lks_guarded *g)
{
    if (atomic_fetch_sub(&g->leaving, 1) != 1)
        return;
    g->done(g->arg);
    guarded_unref(g);
}

static void released(void *arg, lks_code code, const lks_error *error)
{
    (void)code;
    (void)error;
    left(arg);
}

/* If another attempt took over, the caller gets what that one stored, so that all callers get the same. */
static void ended(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (outcome == LKS_ONCE_SUPERSEDED && result)
        guard_replay(result, &g->answer);
    else if (outcome == LKS_ONCE_SUPERSEDED)
        lks_error_set_reason(&g->answer.error, LKS_ABORTED, LKS_APPLIED_MAYBE, LKS_REASON_LEASE_LOST,
                             "another attempt took over: what this one did is not stored");
    lks_once_result_free(result);
    left(g);
}

/* Gives the attempt the result to store. LKS_INVALID_ARGUMENT: it is too long. */
static lks_code give_result(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    uint8_t *body = NULL;
    size_t len = 0;

    if (!guard_store(code, response, error, &body, &len))
        return LKS_RESOURCE_EXHAUSTED;
    lks_code given = lks_once_return(g->attempt, (int32_t)code, body, len);
    free(body);
    return given;
}

/* What cannot be stored because it is too long becomes an error, for the caller and for those who repeat the call. */
static bool give_final_result(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_code given = give_result(g, code, response, error);

    if (given == LKS_INVALID_ARGUMENT) {
        code = lks_error_set_reason(&g->answer.error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, LKS_REASON_TOO_LARGE,
                                    "the response is longer than can be stored for a repeat, which is %d bytes",
                                    LKS_ONCE_BODY_MAX);
        given = give_result(g, code, NULL, &g->answer.error);
    }
    return given == LKS_OK;
}

static void end_attempt(lks_guarded *g, uint32_t timeout_ms, lks_code code, const ProtobufCMessage *response,
                        const lks_error *error)
{
    lks_once_attempt *attempt = g->attempt;
    bool is_final = guard_is_final(code, error->applied);

    if (is_final && !give_final_result(g, code, response, error)) {
        left(g); /* no memory: the attempt is given back */
        return;
    }
    if (!is_final)
        lks_once_set_detail(attempt, error->message);
    g->attempt = NULL;
    lks_once_end(attempt, is_final ? LKS_ONCE_STORE : LKS_ONCE_RETRY, timeout_ms, ended, g);
}

void lks_guarded_leave(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error,
                     lks_guard_done *done, void *arg)
{
    uint32_t usable_ms = guarded_usable_ms(g), timeout_ms = usable_ms > LEAVE_MS_MIN ? usable_ms : LEAVE_MS_MIN;
    lks_hold *hold = g->hold;

    g->state = GUARD_LEAVING;
    g->done = done;
    g->arg = arg;
    guarded_ref(g);
    g->leaving = 1U + !!hold + !!g->attempt; /* one until both are started */
    g->hold = NULL;
    if (hold && lks_hold_release(hold, timeout_ms, released, g, NULL) != LKS_OK)
        left(g);
    if (g->attempt)
        end_attempt(g, timeout_ms, code, response, error);
    left(g);
}

/* Leaving: one Leave stores the result and releases the locks. Invariant: a caller never gets an error because storing
 * its result failed: it would call again, and the effect would happen twice. */
#include <stdio.h>
#include <stdlib.h>

#include <lockstock/once.h>
#include <lockstock/v1/idempotency.lks_client.h>

#include "host/guard/guarded.h"

enum { LEAVE_MS_MIN = 1000 /* for a call that ends at its deadline */ };

static void end(lks_guarded *g)
{
    g->done(g->arg);
    guarded_unref(g);
}

/* If another attempt took over, the caller gets its stored result, so that all callers get the same. */
static void on_result(void *arg, lks_code code, const lks_get_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (code == LKS_OK && response->record->result)
        guard_replay(response->record->result, &g->answer);
    else
        lks_error_set_reason(&g->answer.error, LKS_ABORTED, LKS_APPLIED_MAYBE, LKS_REASON_LEASE_LOST,
                             "another attempt took over; the result of this one is not stored");
    end(g);
}

static void ask_for_result(lks_guarded *g)
{
    const lks_call_options options = {.timeout_ms = guarded_usable_ms(g)};
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_error error;

    request.group = guard_group(g->guard);
    request.scope = g->guard->idempotency->scope;
    request.key = g->key;
    lks_code code = lks_idempotency_get_start(g->channel, &request, &options, on_result, g, NULL, &error);
    if (code != LKS_OK)
        on_result(g, code, NULL, &error);
}

static void on_left(void *arg, lks_leave_outcome outcome, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (outcome == LKS_LEAVE_OUTCOME_SUPERSEDED)
        ask_for_result(g);
    else
        end(g);
}

/* Leaves with the result to store. LKS_INVALID_ARGUMENT: it is too long. LKS_RESOURCE_EXHAUSTED: no memory. */
static lks_code leave_with(lks_guarded *g, lks_entry *entry, lks_code code, const ProtobufCMessage *response,
                           const lks_error *error, uint32_t timeout_ms)
{
    lks_leave_request end_request = LKS_LEAVE_REQUEST_INIT;
    lks_error unwanted;

    end_request.kind = LKS_LEAVE_KIND_COMPLETE;
    if (g->guard->idempotency) {
        end_request.code = (int32_t)code;
        if (!guard_store(code, response, error, &end_request.body.data, &end_request.body.len))
            return LKS_RESOURCE_EXHAUSTED;
    }
    lks_code started = lks_leave_start(entry, &end_request, timeout_ms, on_left, g, &unwanted);
    free(end_request.body.data);
    return started;
}

static lks_code leave_without(lks_guarded *g, lks_entry *entry, const char *why, uint32_t timeout_ms)
{
    lks_leave_request end_request = LKS_LEAVE_REQUEST_INIT;
    char detail[LKS_ONCE_DETAIL_MAX + 1];
    lks_error unwanted;

    end_request.kind = LKS_LEAVE_KIND_RETRYABLE;
    snprintf(detail, sizeof detail, "%s", why);
    end_request.detail = detail;
    return lks_leave_start(entry, &end_request, timeout_ms, on_left, g, &unwanted);
}

/* Leaves with the result. A result that is too long to store becomes an error, for this caller and for repeats of the
 * call. */
static lks_code leave(lks_guarded *g, lks_entry *entry, lks_code code, const ProtobufCMessage *response,
                      const lks_error *error, uint32_t timeout_ms)
{
    if (!guard_is_final(code, error->applied))
        return leave_without(g, entry, error->message, timeout_ms);
    lks_code started = leave_with(g, entry, code, response, error, timeout_ms);
    if (started != LKS_INVALID_ARGUMENT)
        return started;
    code = lks_error_set_reason(&g->answer.error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, LKS_REASON_TOO_LARGE,
                                "the response is longer than the %d bytes that can be stored for a repeated call",
                                LKS_ONCE_BODY_MAX);
    return leave_with(g, entry, code, NULL, &g->answer.error, timeout_ms);
}

void lks_guarded_leave(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error,
                       lks_guard_done *done, void *arg)
{
    uint32_t usable_ms = guarded_usable_ms(g), timeout_ms = usable_ms > LEAVE_MS_MIN ? usable_ms : LEAVE_MS_MIN;
    lks_entry *entry = g->entry;

    g->state = GUARD_LEAVING;
    g->done = done;
    g->arg = arg;
    guarded_ref(g);
    g->entry = NULL;
    if (entry && leave(g, entry, code, response, error, timeout_ms) == LKS_OK)
        return;
    lks_entry_free(entry); /* out of memory, or there is no entry */
    end(g);
}

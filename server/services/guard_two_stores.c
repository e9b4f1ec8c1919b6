/* GuardService: Enter of a request whose locks are in the lock store, and whose rest is in the store.
 *
 *   LOOK --FREE--> LOCKS --granted--> REST --entered--> the answer, or CHECK first, if a copy of the call had entered
 *    | \             |                  \--refused--> RELEASE --> the answer
 *    |  \            \--QUEUED: waits, then LOOK; BUSY, TIMED_OUT, TOKEN_SPENT: the answer
 *    |   \--refused--> RELEASE, if a copy of the call may have locks --> the answer
 *    \--WAIT--> LEAVE_QUEUE, if it may be in that of the locks, and LOOK again; else it waits, then LOOK
 *
 * Invariant: the locks are released only after the store has kept that the token is refused (functions/guard.lua), so
 * no copy of the call answers ENTERED with locks that another copy releases. Only a Leave of locks alone can overtake
 * it. If a call ends without an answer, because its server ends or a store is unreachable, a repeat continues at that
 * step, or the locks end with their lease. */
#include "memory.h"
#include "services/guard.h"
#include "services/lock.h"

static lks_enter_request rest_of(const lks_enter_request *request)
{
    lks_enter_request rest = *request;

    rest.locks = NULL;
    return rest;
}

static lks_enter_request locks_of(const lks_enter_request *request)
{
    lks_enter_request locks = *request;

    locks.once = NULL;
    locks.limits = NULL;
    locks.stock = NULL;
    return locks;
}

/* ---- plan ---- */

static void plan_look(const lks_enter_request *request, plan *p, enter_call *call)
{
    const lks_enter_request rest = rest_of(request);

    call->way = memory_printf_in(p->arena, "L%s", enter_way(p->event.kind));
    call->locks_wait = enter_locks_wait(request);
    p->prepares = true;
    enter_plan_call(&rest, p, call);
}

static void plan_locks(const lks_enter_request *request, plan *p, enter_call *call)
{
    const lks_enter_request locks = locks_of(request);

    call->way = enter_way(p->event.kind);
    call->at.record = call->at.rates = call->at.stock = lks_rpc_slice_of("");
    call->locks_wait = enter_locks_wait(request);
    enter_plan_call(&locks, p, call);
}

static void plan_rest(const lks_enter_request *request, plan *p, enter_call *call)
{
    lks_enter_request rest = rest_of(request);

    rest.wait_ms = 0;
    call->way = "T";
    enter_plan_call(&rest, p, call);
}

static void plan_leave_queue(plan *p, const guard_places *at)
{
    p->prepares = true;
    plan_call_at(p, &fn_lock_abandon, at->base, 0);
    args_lock_abandon(p, .parked = p->undo.argument.data);
}

void two_stores_plan(const lks_enter_request *request, plan *p, const guard_places *at)
{
    guard_kept *kept = p->kept;
    enter_call call = {.token = enter_token(request, p), .at = *at, .with_locks = true};

    switch (kept->step) {
    case ENTER_WHOLE:
    case ENTER_LOOK:
        kept->step = ENTER_LOOK;
        plan_look(request, p, &call);
        break;
    case ENTER_LOCKS:
    case ENTER_CHECK:
        plan_locks(request, p, &call);
        break;
    case ENTER_REST:
        plan_rest(request, p, &call);
        break;
    case ENTER_RELEASE:
        lock_plan_release_all(p, &fn_lock_release, at->base, call.token);
        break;
    case ENTER_LEAVE_QUEUE:
        plan_leave_queue(p, at);
        break;
    }
}

/* ---- finish ---- */

static void again(answer *a, enter_step step)
{
    ((guard_kept *)a->plan->kept)->step = step;
    answer_next_round(a, enter_next);
}

static void again_applied(answer *a, enter_step step)
{
    ((guard_kept *)a->plan->kept)->step = step;
    answer_next_round_applied(a, enter_next);
}

/* Reads {'RELEASE', the refusal...}, which may be {'ERR', code, applied, message, detail, reason}. Returns false for
 * another reply. */
static bool releases(const lks_enter_request *rest, answer *a)
{
    const store_value *reply = a->replies[0];
    guard_kept *kept = a->plan->kept;

    if (!answer_says(reply, "RELEASE"))
        return false;
    const store_value refusal = {.type = STORE_ARRAY, .n = reply->n - 1, .element = reply->element + 1};
    if (answer_says(&refusal, "ERR")) {
        kept->error = memory_in(a->arena, sizeof *kept->error);
        lks_error_set_reason(kept->error, (lks_code)answer_int(a, &refusal, 1), LKS_APPLIED_NO,
                             lks_reason_of(answer_text(a, &refusal, 5)), "%s", answer_text(a, &refusal, 3));
    } else {
        kept->refusal = memory_in(a->arena, sizeof *kept->refusal);
        *kept->refusal = (lks_enter_response)LKS_ENTER_RESPONSE_INIT;
        enter_read_reply(rest, a, &refusal, kept->refusal);
    }
    again_applied(a, ENTER_RELEASE);
    return true;
}

static void finish_look(const lks_enter_request *rest, answer *a, lks_enter_response *response)
{
    const guard_kept *kept = a->plan->kept;
    const store_value *reply = a->replies[0];

    if (releases(rest, a))
        return;
    if (answer_says(reply, "FREE"))
        again(a, ENTER_LOCKS);
    else if (answer_says(reply, "MORE"))
        again(a, ENTER_LOOK);
    else if (answer_says(reply, "WAIT") && kept->may_be_queued)
        again(a, ENTER_LEAVE_QUEUE);
    else if (answer_says(reply, "WAIT"))
        enter_keep_waiting(rest, a, reply);
    else
        enter_read_reply(rest, a, reply, response);
}

static void finish_locks(const lks_enter_request *locks, answer *a, lks_enter_response *response)
{
    const store_value *reply = a->replies[0];

    if (answer_says(reply, "QUEUED")) {
        enter_keep_waiting(locks, a, reply);
    } else if (answer_says(reply, "ENTERED")) {
        ((guard_kept *)a->plan->kept)->locks = reply;
        again_applied(a, ENTER_REST);
    } else {
        enter_read_reply(locks, a, reply, response);
    }
}

static void read_entered(const lks_enter_request *rest, const lks_enter_request *locks, answer *a,
                         lks_enter_response *response)
{
    const guard_kept *kept = a->plan->kept;
    lks_enter_response taken = LKS_ENTER_RESPONSE_INIT;

    enter_read_reply(locks, a, kept->locks, &taken);
    enter_read_reply(rest, a, kept->rest, response);
    response->n_fences = taken.n_fences;
    response->fences = taken.fences;
    if (response->lease_ms == 0 || taken.lease_ms < response->lease_ms)
        response->lease_ms = taken.lease_ms;
}

static void finish_rest(const lks_enter_request *rest, const lks_enter_request *locks, answer *a,
                        lks_enter_response *response)
{
    guard_kept *kept = a->plan->kept;

    kept->rest = a->replies[0];
    if (releases(rest, a))
        return;
    if (answer_says(kept->rest, "MORE"))
        again(a, ENTER_REST);
    else if (!answer_says(kept->rest, "ENTERED"))
        enter_read_reply(rest, a, kept->rest, response);
    else if (enter_was_replayed(a, kept->rest))
        again(a, ENTER_CHECK);
    else
        read_entered(rest, locks, a, response);
}

static void finish_check(const lks_enter_request *rest, const lks_enter_request *locks, answer *a,
                         lks_enter_response *response)
{
    guard_kept *kept = a->plan->kept;

    kept->locks = a->replies[0];
    if (answer_says(kept->locks, "ENTERED"))
        read_entered(rest, locks, a, response);
    else
        enter_read_reply(locks, a, kept->locks, response);
}

void two_stores_finish(const lks_enter_request *request, answer *a, lks_enter_response *response)
{
    const lks_enter_request rest = rest_of(request), locks = locks_of(request);
    guard_kept *kept = a->plan->kept;

    switch (kept->step) {
    case ENTER_WHOLE:
        break;
    case ENTER_LOOK:
        finish_look(&rest, a, response);
        break;
    case ENTER_LOCKS:
        finish_locks(&locks, a, response);
        break;
    case ENTER_REST:
        finish_rest(&rest, &locks, a, response);
        break;
    case ENTER_CHECK:
        finish_check(&rest, &locks, a, response);
        break;
    case ENTER_RELEASE:
        if (kept->error)
            a->error = *kept->error;
        else
            *response = *kept->refusal;
        break;
    case ENTER_LEAVE_QUEUE:
        kept->may_be_queued = false;
        again(a, ENTER_LOOK);
        break;
    }
}

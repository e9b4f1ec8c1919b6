/* What threads do with calls: unpack requests, ask guards, run handlers, leave guards. Invariant: a thread keeps no
 * call that waits; guards that admitted a call are left, whatever becomes of the handler. */
#include <string.h>

#include <lockstock/guard.h>

#include "host/answer.h"
#include "running.h"

enum {
    KEPT_BYTES =
        16 * 1024 /* of arena, while guards are asked; a larger request is unpacked again, so that waiting calls
                              take little more memory than their bytes, which are counted */
};

static const lks_rpc_binding *binding_of(const struct running *r)
{
    const serve_target *target = r->route->target;

    return target->binding;
}

/* ---- guards --------------------------------------------------------------------------------- */

/* The guards have been left. On the channel's completion thread, or in `leave`. */
static void on_left(void *arg)
{
    struct running *r = arg;

    if (r->arena || (r->arena = lks_rpc_arena_new()))
        lks_guard_answer(r->context.guarded, r->arena, &r->response, &r->error);
    else
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory");
    finish(r);
}

void leave(struct running *r)
{
    r->wrong = answer_check(r->route->method, r->response, &r->error);
    if (!r->context.guarded) {
        finish(r);
        return;
    }
    pthread_mutex_lock(&r->all->lock);
    move(r, LEAVING);
    pthread_mutex_unlock(&r->all->lock);
    lks_guard_leave(r->context.guarded, r->error.code, r->response, &r->error, on_left, r);
}

/* The guards have answered, and no thread has the call: it waits for one, unless it was stopped. */
static void proceed(struct running *r)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    bool stopped = atomic_load(&r->stopped) != LKS_OK;
    move(r, stopped ? OVER : GRANTED);
    pthread_mutex_unlock(&all->lock);
    if (!stopped)
        return;
    refuse_stopped(r);
    if (lks_guard_runs(r->context.guarded))
        leave(r);
    else
        finish(r);
}

/* While a thread is still asking the guards, that thread continues with the call. */
static void on_guarded(void *arg)
{
    struct running *r = arg;
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    bool entering = r->state == ENTERING;
    if (entering)
        move(r, ANSWERED);
    pthread_mutex_unlock(&all->lock);
    if (!entering)
        proceed(r);
}

/* True: the call is over. */
static bool enter(struct running *r)
{
    calls *all = r->all;

    if (lks_guard_enter(all->options.guards, binding_of(r)->guard, r->route->method, r->request, r->context.deadline_ns,
                        r->unanswered_before, on_guarded, r, &r->context.guarded, &r->error) != LKS_OK)
        return true;
    if (lks_rpc_arena_bytes(r->arena) > KEPT_BYTES) {
        give_arena(all, r->arena);
        r->arena = NULL;
        r->request = NULL;
    }
    pthread_mutex_lock(&all->lock);
    if (atomic_load(&r->stopped) != LKS_OK && r->state == ENTERING) {
        pthread_mutex_unlock(&all->lock);
        lks_guard_cancel(r->context.guarded);
        pthread_mutex_lock(&all->lock);
    }
    bool answered = r->state == ANSWERED;
    if (!answered)
        move(r, GUARDING);
    pthread_mutex_unlock(&all->lock);
    if (answered)
        proceed(r);
    return false;
}

/* ---- handlers --------------------------------------------------------------------------------- */

static lks_code authenticate(struct running *r)
{
    const calls_options *options = &r->all->options;

    if (!options->authenticate)
        return LKS_OK;
    r->context.method = r->route->method;
    lks_code code = options->authenticate(options->authenticate_arg, &r->context, r->principal, &r->error);
    if (code == LKS_OK && !memchr(r->principal, '\0', sizeof r->principal))
        code = lks_error_set(&r->error, LKS_INTERNAL, LKS_APPLIED_NO,
                             "authenticate: the principal is longer than %d bytes", LKS_HOST_PRINCIPAL_BYTES - 1);
    if (code != LKS_OK) {
        r->error.code = code;
        r->error.applied = LKS_APPLIED_NO;
    }
    return code;
}

/* Makes the request, unless it is there, in time for the handler. */
static lks_code prepare(struct running *r)
{
    if (!r->arena && !(r->arena = lks_rpc_arena_new()))
        return lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (!r->context.guarded && atomic_load(&r->stopped) == LKS_OK && authenticate(r) != LKS_OK)
        return r->error.code;
    if (atomic_load(&r->stopped) != LKS_OK) {
        refuse_stopped(r);
        return r->error.code;
    }
    if (r->request)
        return LKS_OK;
    return lks_rpc_request_unpack_within(r->route->method, r->payload, r->payload_len, &r->all->options.limits,
                                         r->arena, &r->request, &r->error);
}

/* The code that the handler returns counts, not the one in the error. True: it has ended. */
static bool handle(struct running *r)
{
    const serve_target *target = r->route->target;

    r->response = lks_rpc_response_new(r->route->method, r->arena);
    if (!r->response) {
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        return true;
    }
    r->context.arena = r->arena;
    r->context.method = r->route->method;
    r->error = (lks_error){0};
    if (lks_guard_is_lost(&r->context)) {
        lks_error_set_reason(&r->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                             "what its guards held was lost before the call ran");
        return true;
    }
    return deferred_returned(r,
                             target->binding->handle(target->service, &r->context, r->request, r->response, &r->error));
}

void work_run(struct running *r)
{
    bool granted = r->context.guarded, enters = !granted && binding_of(r)->guard;

    if (granted && !lks_guard_runs(r->context.guarded)) {
        on_left(r);
        return;
    }
    bool prepared = prepare(r) == LKS_OK;
    if (prepared && enters ? enter(r) : !prepared || handle(r))
        leave(r);
}

bool work_has_guard(const struct running *r)
{
    return binding_of(r)->guard;
}

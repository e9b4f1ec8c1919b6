/* The work of threads on calls: unpack requests, run interceptors and handlers. Invariants: a waiting call occupies no
 * thread; `after` runs for each interceptor that admitted the call, also when the handler fails or does not run. */
#include <string.h>

#include <lockstock/guard.h>

#include "host/answer.h"
#include "host/guarding.h"
#include "running.h"

static const lks_rpc_binding *binding_of(const struct running *r)
{
    const serve_target *target = r->route->target;

    return target->binding;
}

/* The guards of a method are its last interceptor. */
static size_t n_interceptors(const struct running *r)
{
    return r->all->options.n_interceptors + (binding_of(r)->guard ? 1 : 0);
}

static bool is_guarding(const struct running *r, size_t i)
{
    return i == r->all->options.n_interceptors;
}

static const lks_host_interceptor *interceptor_of(const struct running *r, size_t i)
{
    return is_guarding(r, i) ? &guarding : &r->all->options.interceptors[i];
}

/* ---- steps -------------------------------------------------------------------------------- */

static lks_code authenticate(struct running *r)
{
    const lks_host_options *options = &r->all->options;

    if (!options->authenticate)
        return LKS_OK;
    lks_code code = options->authenticate(options->authenticate_arg, &r->context, r->principal, &r->error);
    if (code == LKS_OK && !memchr(r->principal, '\0', sizeof r->principal))
        code = lks_error_set(&r->error, LKS_INTERNAL, LKS_APPLIED_NO,
                             "authenticate: the principal is longer than %d bytes", LKS_HOST_PRINCIPAL_BYTES - 1);
    r->error.code = code;
    r->error.applied = LKS_APPLIED_NO;
    return code;
}

/* Prepares the next step. False, with the error: the call ends. */
static bool prepare(struct running *r)
{
    const lks_rpc_method *method = r->route->method;

    if (!r->arena && !(r->arena = lks_rpc_arena_new())) {
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        return false;
    }
    r->context.arena = r->arena;
    r->context.method = method;
    if (!r->authenticated && atomic_load(&r->stopped) == LKS_OK && authenticate(r) != LKS_OK)
        return false;
    r->authenticated = true;
    if (atomic_load(&r->stopped) != LKS_OK) {
        refuse_stopped(r);
        return false;
    }
    if (!r->request && lks_rpc_request_unpack_within(method, r->payload, r->payload_len, &r->all->limits, r->arena,
                                                     &r->request, &r->error) != LKS_OK)
        return false;
    if (!r->response && !(r->response = lks_rpc_response_new(method, r->arena))) {
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        return false;
    }
    r->error = (lks_error){0};
    return true;
}

static lks_code before(struct running *r)
{
    const lks_host_interceptor *next = interceptor_of(r, r->entered);

    return next->before ? next->before(next->arg, &r->own[r->entered], &r->context, r->request, r->response, &r->error)
                        : LKS_OK;
}

/* The code that the handler returns is used, not the one in the error. */
static lks_code handle(struct running *r)
{
    const serve_target *target = r->route->target;

    atomic_store(&r->begun, true); /* set first, so that either `stop` sees it or this function sees `stopped` */
    if (atomic_load(&r->stopped) != LKS_OK) {
        refuse_stopped(r);
        return r->error.code;
    }
    if (lks_guard_is_lost(&r->context))
        return lks_error_set_reason(&r->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                                    "the lock or attempt of its guards was lost before the call ran");
    return target->binding->handle(target->service, &r->context, r->request, r->response, &r->error);
}

static lks_code after(struct running *r)
{
    const lks_host_interceptor *last = interceptor_of(r, r->entered - 1);

    return last->after
               ? last->after(last->arg, &r->own[r->entered - 1], &r->context, r->request, r->response, &r->error)
               : r->error.code;
}

/* ---- sequence of steps ------------------------------------------------------------------------ */

/* Changes the error by `change`. Removes details and text that do not belong to the new error. */
static void change_error(struct running *r, void (*change)(struct running *r))
{
    lks_rpc_additions *added = &r->context.added;

    if (!added->text && added->details.n == 0) {
        change(r);
        return;
    }
    const lks_error was = r->error;
    change(r);
    if (was.code != r->error.code || strcmp(was.message, r->error.message) != 0)
        added->text = NULL, added->details.n = 0;
}

static void check_answer(struct running *r)
{
    const char *wrong = answer_check(r->route->method, r->response, &r->error);

    r->wrong = wrong ? wrong : r->wrong;
}

/* A step has ended with r->error. */
static void conclude(struct running *r)
{
    if (r->phase != BEFORE || r->error.code != LKS_OK || r->skips)
        change_error(r, check_answer);
    switch (r->phase) {
    case BEFORE:
        if (r->error.code != LKS_OK)
            r->error.applied = is_guarding(r, r->entered) ? r->error.applied : LKS_APPLIED_NO;
        else if (is_guarding(r, r->entered) && guarding_refuses(r))
            break;
        else
            r->entered++;
        if (r->error.code == LKS_OK && !r->skips)
            return;
        break;
    case HANDLER:
        break;
    case AFTER:
        r->entered--;
        if (is_guarding(r, r->entered))
            change_error(r, guarding_answer);
        break;
    }
    r->phase = AFTER;
}

/* Runs steps until the call is over, or one is deferred. */
void work_run(struct running *r)
{
    for (;;) {
        if (r->phase == BEFORE && !prepare(r))
            r->phase = AFTER;
        if (r->phase == BEFORE && r->entered == n_interceptors(r))
            r->phase = HANDLER;
        if (r->phase == AFTER && r->entered == 0)
            break;
        lks_code code = r->phase == BEFORE ? before(r) : r->phase == HANDLER ? handle(r) : after(r);
        if (!deferred_returned(r, code))
            return;
        conclude(r);
    }
    finish(r);
}

bool work_may_block(const struct running *r)
{
    bool ends = r->phase == AFTER || atomic_load(&r->stopped) != LKS_OK;

    return !ends || (r->entered > 0 && !is_guarding(r, r->entered - 1));
}

void work_continue(struct running *r)
{
    calls *all = r->all;

    conclude(r);
    pthread_mutex_lock(&all->lock);
    bool here = !work_may_block(r) || all->ended;
    move(r, here ? RUNNING : READY);
    pthread_mutex_unlock(&all->lock);
    if (here)
        work_run(r);
}

/* What threads do with calls: ask guards, run handlers, leave guards. Invariant: a thread keeps no call that waits; what
 * guards admitted is left by them, whatever becomes of the handler. */
#include <lockstock/guard.h>

#include "running.h"

/* ---- guards --------------------------------------------------------------------------------- */

static const lks_rpc_binding *binding_of(const struct running *r)
{
    const serve_target *target = r->route->target;

    return target->binding;
}

/* The guards have left. On the channel's completion thread, or where `leave` is. */
static void on_left(void *arg)
{
    struct running *r = arg;

    if (r->arena || (r->arena = lks_rpc_arena_new()))
        lks_guard_answer(r->context.guarded, r->arena, &r->response, &r->error);
    finish(r);
}

void leave(struct running *r)
{
    pthread_mutex_lock(&r->all->lock);
    r->state = LEAVING;
    pthread_mutex_unlock(&r->all->lock);
    lks_guard_leave(r->context.guarded, r->error.code, r->response, &r->error, on_left, r);
}

/* The guards have answered, and no thread has the call: it waits for one, unless nobody wants it any more. */
static void proceed(struct running *r)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    lks_code stopped = r->stopped;
    if (stopped) {
        r->state = WITHDRAWN;
    } else {
        r->state = QUEUED;
        TAILQ_INSERT_TAIL(&r->caller->granted, r, in_queue);
        put_into_round(r->caller);
        pthread_cond_signal(&all->work);
    }
    pthread_mutex_unlock(&all->lock);
    if (!stopped)
        return;
    lks_error_set_reason(&r->error, stopped, LKS_APPLIED_NO, stop_reason(stopped), "%s", r->why_stopped);
    if (lks_guard_runs(r->context.guarded))
        leave(r);
    else
        finish(r);
}

/* While a thread still asks them, it goes on with the call itself. */
static void on_guarded(void *arg)
{
    struct running *r = arg;
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    r->answered = true;
    bool mine = r->state == GUARDING;
    pthread_mutex_unlock(&all->lock);
    if (mine)
        proceed(r);
}

/* True: the call is over. */
static bool enter(struct running *r)
{
    calls *all = r->all;
    ProtobufCMessage *request;

    if (serve_unpack(all->options.table, r->route, r->payload, r->payload_len, &r->context, r->arena, &request,
                     &r->error) != LKS_OK ||
        lks_guard_enter(all->options.guards, binding_of(r)->guard, r->route->method, request, r->context.deadline_ns,
                        r->unanswered_before, on_guarded, r, &r->context.guarded, &r->error) != LKS_OK)
        return true;
    /* A call that waits costs its bytes only: it is unpacked again when it runs. */
    give_arena(all, r->arena);
    r->arena = NULL;
    pthread_mutex_lock(&all->lock);
    if (r->stopped && !r->answered) {
        pthread_mutex_unlock(&all->lock);
        lks_guard_cancel(r->context.guarded);
        pthread_mutex_lock(&all->lock);
    }
    bool answered = r->answered;
    r->state = GUARDING;
    pthread_mutex_unlock(&all->lock);
    if (answered)
        proceed(r);
    return false;
}

/* ---- handlers --------------------------------------------------------------------------------- */

/* True: the call is over. */
static bool run(struct running *r)
{
    const serve_table *table = r->all->options.table;
    ProtobufCMessage *request;

    lks_code code =
        serve_unpack(table, r->route, r->payload, r->payload_len, &r->context, r->arena, &request, &r->error);
    if (code == LKS_OK)
        code = serve_prepare(r->route, &r->context, r->arena, &r->response, &r->error);
    if (code == LKS_OK && lks_guard_is_lost(&r->context))
        code = lks_error_set_reason(&r->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                                    "what its guards held was lost before the call ran");
    if (code == LKS_OK && !deferred_returned(r, serve_run(r->route, &r->context, request, r->response, &r->error)))
        return false;
    if (!r->context.guarded)
        return true;
    leave(r);
    return false;
}

static bool step(struct running *r, bool granted)
{
    if (!r->arena)
        r->arena = lks_rpc_arena_new();
    if (granted && !lks_guard_runs(r->context.guarded)) {
        if (r->arena)
            lks_guard_answer(r->context.guarded, r->arena, &r->response, &r->error);
        else
            lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory");
        return true;
    }
    if (r->arena)
        return granted || !binding_of(r)->guard ? run(r) : enter(r);
    lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (!granted)
        return true;
    leave(r);
    return false;
}

/* ---- threads ---------------------------------------------------------------------------------- */

/* Under lock. */
static struct running *next_of_round(calls *all)
{
    caller *c = TAILQ_FIRST(&all->round);
    bool granted = !TAILQ_EMPTY(&c->granted);
    struct running *r = granted ? TAILQ_FIRST(&c->granted) : TAILQ_FIRST(&c->queued);

    TAILQ_REMOVE(granted ? &c->granted : &c->queued, r, in_queue);
    TAILQ_REMOVE(&all->round, c, round);
    c->in_round = false;
    put_into_round(c);
    r->state = !granted && binding_of(r)->guard ? ENTERING : RUNNING;
    return r;
}

void *work(void *arg)
{
    calls *all = arg;

    pthread_mutex_lock(&all->lock);
    for (;;) {
        while (TAILQ_EMPTY(&all->round) && !all->closing)
            pthread_cond_wait(&all->work, &all->lock);
        if (all->closing)
            break;
        struct running *r = next_of_round(all);
        bool granted = r->answered;
        r->arena = all->n_arenas > 0 ? all->arenas[--all->n_arenas] : NULL;
        pthread_mutex_unlock(&all->lock);
        bool over = step(r, granted);
        pthread_mutex_lock(&all->lock);
        if (over) {
            TAILQ_INSERT_TAIL(&all->finished, r, in_queue);
            uv_async_send(&all->wake);
        }
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

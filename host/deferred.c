/* Handlers that continue after they returned, and how handlers learn that nobody waits for the answer. Invariant: a
 * call ends when its handler has returned and, if it was deferred, lks_host_finish was called. */
#include "base/clock.h"
#include "base/container.h"
#include "running.h"

struct lks_host_call {
    struct running call;
};

/* The call whose on_cancel this thread runs. */
static _Thread_local const struct running *reporting;

static struct running *of_context(const lks_rpc_context *context)
{
    return container_of(context, struct running, context);
}

/* ---- for handlers ----------------------------------------------------------------------- */

bool lks_host_is_cancelled(const lks_rpc_context *context)
{
    return atomic_load(&of_context(context)->stopped) == LKS_CANCELLED || clock_now_ns() >= context->deadline_ns;
}

lks_host_call *lks_host_defer(lks_rpc_context *context)
{
    struct running *r = of_context(context);

    pthread_mutex_lock(&r->all->lock);
    move(r, DEFERRING);
    pthread_mutex_unlock(&r->all->lock);
    return (lks_host_call *)r;
}

void lks_host_on_cancel(lks_host_call *call, lks_host_cancelled *on_cancel, void *arg)
{
    struct running *r = &call->call;
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    r->on_cancel = on_cancel;
    r->cancel_arg = arg;
    r->watch = WATCHED;
    TAILQ_INSERT_TAIL(&all->watched, r, in_watched);
    uv_async_send(&all->wake);
    pthread_mutex_unlock(&all->lock);
}

/* Under lock. */
static void unwatch(struct running *r)
{
    if (r->watch == WATCHED || r->watch == DUE)
        TAILQ_REMOVE(r->watch == DUE ? &r->all->due : &r->all->watched, r, in_watched);
    if (r->watch != REPORTING)
        r->watch = UNWATCHED;
}

void lks_host_finish(lks_host_call *call, lks_code code, const lks_error *error)
{
    struct running *r = &call->call;
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    unwatch(r);
    while (r->watch == REPORTING && reporting != r)
        pthread_cond_wait(&all->reported, &all->lock);
    r->error = error ? *error : (lks_error){0};
    r->error.code = code;
    bool returned = r->state == DEFERRED;
    move(r, FINISHED);
    pthread_mutex_unlock(&all->lock);
    if (returned)
        leave(r);
}

/* ---- for its neighbours ------------------------------------------------------------------ */

bool deferred_returned(struct running *r, lks_code code)
{
    pthread_mutex_lock(&r->all->lock);
    bool deferred = r->state == DEFERRING;
    if (r->state == RUNNING)
        r->error.code = code;
    if (deferred)
        move(r, DEFERRED);
    pthread_mutex_unlock(&r->all->lock);
    return !deferred;
}

/* Under lock, which is released meanwhile. */
static void report(struct running *r)
{
    calls *all = r->all;

    TAILQ_REMOVE(&all->due, r, in_watched);
    r->watch = REPORTING;
    pthread_mutex_unlock(&all->lock);
    reporting = r;
    r->on_cancel(r->cancel_arg);
    reporting = NULL;
    pthread_mutex_lock(&all->lock);
    r->watch = UNWATCHED;
    pthread_cond_broadcast(&all->reported);
}

static void on_deadline(uv_timer_t *timer)
{
    deferred_look(timer->data);
}

/* Under lock: finds the calls that are due. Returns when the next will be; CLOCK_NEVER: none. */
static uint64_t gather_due(calls *all, uint64_t now)
{
    uint64_t next_ns = CLOCK_NEVER;
    struct running *r, *next;

    for (r = TAILQ_FIRST(&all->watched); r; r = next) {
        next = TAILQ_NEXT(r, in_watched);
        if (atomic_load(&r->stopped) == LKS_CANCELLED || r->context.deadline_ns <= now) {
            TAILQ_REMOVE(&all->watched, r, in_watched);
            r->watch = DUE;
            TAILQ_INSERT_TAIL(&all->due, r, in_watched);
        } else if (r->context.deadline_ns < next_ns) {
            next_ns = r->context.deadline_ns;
        }
    }
    return next_ns;
}

void deferred_look(calls *all)
{
    uint64_t now = clock_now_ns();
    struct running *r;

    pthread_mutex_lock(&all->lock);
    uint64_t next_ns = gather_due(all, now);
    while ((r = TAILQ_FIRST(&all->due)))
        report(r);
    pthread_mutex_unlock(&all->lock);
    if (next_ns != CLOCK_NEVER)
        uv_timer_start(&all->deadline, on_deadline, (next_ns - now) / CLOCK_NS_PER_MS + 1, 0);
    else
        uv_timer_stop(&all->deadline);
}

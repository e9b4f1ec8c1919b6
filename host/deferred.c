/* Handlers that go on after they returned, and what handlers are told of callers who are gone. Invariant: a call goes on
 * to its end once both its handler has returned and, if it was deferred, lks_host_finish was called. */
#include <stddef.h>

#include "base/clock.h"
#include "running.h"

enum { NS_PER_MS = 1000000 };

struct lks_host_call {
    struct running call;
};

/* Whose on_cancel this thread runs. */
static _Thread_local const struct running *telling;

static struct running *of_context(const lks_rpc_context *context)
{
    return (struct running *)((char *)context - offsetof(struct running, context));
}

/* ---- for handlers ----------------------------------------------------------------------- */

bool lks_host_is_cancelled(const lks_rpc_context *context)
{
    return atomic_load(&of_context(context)->cancelled) || clock_now_ns() >= context->deadline_ns;
}

lks_host_call *lks_host_defer(lks_rpc_context *context)
{
    struct running *r = of_context(context);

    pthread_mutex_lock(&r->all->lock);
    r->deferred = true;
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
    r->watched = true;
    r->due = false;
    TAILQ_INSERT_TAIL(&all->watched, r, in_watched);
    uv_async_send(&all->wake);
    pthread_mutex_unlock(&all->lock);
}

/* Under lock. */
static void unwatch(struct running *r)
{
    if (r->watched)
        TAILQ_REMOVE(r->due ? &r->all->due : &r->all->watched, r, in_watched);
    r->watched = false;
}

void lks_host_finish(lks_host_call *call, lks_code code, const lks_error *error)
{
    struct running *r = &call->call;
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    unwatch(r);
    while (r->telling && telling != r)
        pthread_cond_wait(&all->told, &all->lock);
    r->error = error ? *error : (lks_error){0};
    r->error.code = code;
    r->ended = true;
    bool returned = r->returned;
    pthread_mutex_unlock(&all->lock);
    if (returned && r->context.guarded)
        leave(r);
    else if (returned)
        finish(r);
}

/* ---- for its neighbours ------------------------------------------------------------------ */

bool deferred_returned(struct running *r, lks_code code)
{
    pthread_mutex_lock(&r->all->lock);
    r->returned = true;
    bool over = !r->deferred || r->ended;
    if (!r->deferred)
        r->error.code = code;
    pthread_mutex_unlock(&r->all->lock);
    return over;
}

void deferred_cancel(struct running *r)
{
    atomic_store(&r->cancelled, true);
    pthread_mutex_lock(&r->all->lock);
    if (r->watched)
        uv_async_send(&r->all->wake);
    pthread_mutex_unlock(&r->all->lock);
}

/* Under lock, which is given up meanwhile. */
static void tell(struct running *r)
{
    calls *all = r->all;

    unwatch(r);
    r->telling = true;
    pthread_mutex_unlock(&all->lock);
    telling = r;
    r->on_cancel(r->cancel_arg);
    telling = NULL;
    pthread_mutex_lock(&all->lock);
    r->telling = false;
    pthread_cond_broadcast(&all->told);
}

static void on_deadline(uv_timer_t *timer)
{
    deferred_look(timer->data);
}

/* Under lock: finds those who are due. Returns when the next will be; UINT64_MAX: none. */
static uint64_t gather_due(calls *all, uint64_t now)
{
    uint64_t next_ns = UINT64_MAX;
    struct running *r, *next;

    for (r = TAILQ_FIRST(&all->watched); r; r = next) {
        next = TAILQ_NEXT(r, in_watched);
        if (atomic_load(&r->cancelled) || r->context.deadline_ns <= now) {
            TAILQ_REMOVE(&all->watched, r, in_watched);
            r->due = true;
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
        tell(r);
    pthread_mutex_unlock(&all->lock);
    if (next_ns != UINT64_MAX)
        uv_timer_start(&all->deadline, on_deadline, (next_ns - now) / NS_PER_MS + 1, 0);
    else
        uv_timer_stop(&all->deadline);
}

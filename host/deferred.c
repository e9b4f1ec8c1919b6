/* Handlers and interceptors that continue after they returned, and their notification when no caller waits for the
 * answer. Invariants: a step ends when its function has returned and, if it was deferred, lks_host_finish was called.
 * An lks_host_call is not an address but an index into `deferred` and a number that increases with each use of that
 * index. So a handle that is used after its step has ended is recognised, even if the host is gone. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/container.h"
#include "running.h"

enum { PLACE_BITS = sizeof(uintptr_t) > 4 ? 24 : 16 };
static const uintptr_t PLACES_MAX = ((uintptr_t)1 << PLACE_BITS) - 1;

typedef struct place {
    struct running *call; /* NULL: free */
    uintptr_t use;        /* increased by each use */
    size_t next_free;
} place;

/* The deferred calls of all hosts of the process. The lock is taken before that of `calls`. */
static struct {
    pthread_mutex_t lock;
    place *places; /* places[0] is not used */
    size_t n, first_free;
} deferred = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = 1};

/* The call whose on_cancel this thread is running. */
static _Thread_local const struct running *reporting;

static struct running *of_context(const lks_rpc_context *context)
{
    return container_of(context, struct running, context);
}

/* ---- handles ---------------------------------------------------------------------------- */

/* Under deferred.lock. False: no memory. */
static bool make_room(void)
{
    size_t n = deferred.n > 1 ? 2 * deferred.n : 64;

    if (deferred.first_free != 0)
        return true;
    if (n > PLACES_MAX)
        return false;
    place *places = realloc(deferred.places, n * sizeof *places);
    if (!places)
        return false;
    deferred.places = places;
    for (size_t i = n; i-- > deferred.n;) {
        places[i] = (place){.next_free = deferred.first_free};
        deferred.first_free = i;
    }
    deferred.n = n;
    return true;
}

/* NULL: no memory. */
static lks_host_call *new_handle(struct running *r)
{
    lks_host_call *handle = NULL;

    pthread_mutex_lock(&deferred.lock);
    if (make_room()) {
        size_t i = deferred.first_free;
        place *p = &deferred.places[i];
        deferred.first_free = p->next_free;
        p->call = r;
        handle = (lks_host_call *)(p->use << PLACE_BITS | i); /* NOLINT(performance-no-int-to-ptr) */
    }
    pthread_mutex_unlock(&deferred.lock);
    return handle;
}

/* Under deferred.lock. NULL: the call has ended. */
static place *place_of(const lks_host_call *handle)
{
    uintptr_t bits = (uintptr_t)handle, i = bits & PLACES_MAX;

    if (i == 0 || i >= deferred.n)
        return NULL;
    place *p = &deferred.places[i];
    return p->call && p->use << PLACE_BITS >> PLACE_BITS == bits >> PLACE_BITS ? p : NULL;
}

/* Ends a handle. NULL: it was ended before. */
static struct running *take_handle(const lks_host_call *handle)
{
    struct running *r = NULL;

    pthread_mutex_lock(&deferred.lock);
    place *p = place_of(handle);
    if (p) {
        r = p->call;
        *p = (place){.use = p->use + 1, .next_free = deferred.first_free};
        deferred.first_free = (size_t)(p - deferred.places);
    }
    pthread_mutex_unlock(&deferred.lock);
    return r;
}

/* ---- for handlers ----------------------------------------------------------------------- */

bool lks_host_is_cancelled(const lks_rpc_context *context)
{
    return atomic_load(&of_context(context)->stopped) != LKS_OK || clock_now_ns() >= context->deadline_ns;
}

lks_host_call *lks_host_defer(lks_rpc_context *context)
{
    struct running *r = of_context(context);
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    bool running = r->state == RUNNING;
    if (running)
        move(r, DEFERRING);
    pthread_mutex_unlock(&all->lock);
    lks_host_call *handle = running ? new_handle(r) : NULL;
    if (!running || handle)
        return handle;
    pthread_mutex_lock(&all->lock);
    move(r, RUNNING);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* Under lock. */
static void make_due(struct running *r)
{
    r->watch = DUE;
    TAILQ_INSERT_TAIL(&r->all->due, r, in_due);
    uv_async_send(&r->all->wake);
}

void lks_host_on_cancel(lks_host_call *call, lks_host_cancelled *on_cancel, void *arg)
{
    bool at_once = false;

    pthread_mutex_lock(&deferred.lock);
    place *p = on_cancel ? place_of(call) : NULL;
    if (p) {
        struct running *r = p->call;
        calls *all = r->all;
        pthread_mutex_lock(&all->lock);
        bool stopped = atomic_load(&r->stopped) != LKS_OK;
        at_once = stopped && all->ended;
        r->on_cancel = on_cancel;
        r->cancel_arg = arg;
        r->watch = WATCHED;
        if (stopped && !at_once)
            make_due(r);
        pthread_mutex_unlock(&all->lock);
    }
    pthread_mutex_unlock(&deferred.lock);
    if (at_once)
        on_cancel(arg);
}

lks_code lks_host_finish(lks_host_call *call, lks_code code, const lks_error *error)
{
    struct running *r = take_handle(call);

    if (!r)
        return LKS_FAILED_PRECONDITION;
    calls *all = r->all;
    pthread_mutex_lock(&all->lock);
    if (r->watch == DUE)
        TAILQ_REMOVE(&all->due, r, in_due);
    while (r->watch == REPORTING && reporting != r)
        pthread_cond_wait(&all->changed, &all->lock);
    if (r->watch != REPORTING)
        r->watch = UNWATCHED;
    r->error = error ? *error : (lks_error){0};
    r->error.code = code;
    bool returned = r->state == DEFERRED;
    move(r, FINISHED);
    pthread_mutex_unlock(&all->lock);
    if (returned)
        work_continue(r);
    return LKS_OK;
}

/* ---- for calls.c and work.c --------------------------------------------------------------- */

bool deferred_returned(struct running *r, lks_code code)
{
    pthread_mutex_lock(&r->all->lock);
    bool deferring = r->state == DEFERRING;
    if (r->state == RUNNING)
        r->error.code = code;
    else
        move(r, deferring ? DEFERRED : RUNNING);
    pthread_mutex_unlock(&r->all->lock);
    return !deferring;
}

void deferred_stopped(struct running *r)
{
    if (r->watch == WATCHED)
        make_due(r);
}

/* Under lock, which is released meanwhile. */
static void report(struct running *r)
{
    calls *all = r->all;

    TAILQ_REMOVE(&all->due, r, in_due);
    r->watch = REPORTING;
    pthread_mutex_unlock(&all->lock);
    reporting = r;
    r->on_cancel(r->cancel_arg);
    reporting = NULL;
    pthread_mutex_lock(&all->lock);
    if (r->watch == REPORTING) /* otherwise it belongs to a later step of the call */
        r->watch = UNWATCHED;
    pthread_cond_broadcast(&all->changed);
}

void deferred_report(calls *all)
{
    struct running *r;

    pthread_mutex_lock(&all->lock);
    while ((r = TAILQ_FIRST(&all->due)))
        report(r);
    pthread_mutex_unlock(&all->lock);
}

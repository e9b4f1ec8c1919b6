/* The threads that run handlers; none in a driven host. Invariant: there are always `threads`, and at most
 * `threads_max`. If calls wait and no thread took one for STALL_NS, all threads block: then more threads start, at most
 * as many as there are. A thread without work for IDLE_S ends, unless only `threads` are left. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/container.h"
#include "calls.h"
#include "running.h"

enum { STALL_NS = 10 * CLOCK_NS_PER_MS, IDLE_S = 10 };

static _Thread_local const calls *working; /* the calls of this thread's pool */

bool calls_is_handler(const calls *all)
{
    return all && working == all;
}

/* ---- a thread --------------------------------------------------------------------------- */

/* Under lock. */
static struct running *next_of_round(calls *all)
{
    pool *p = &all->pool;
    caller *c = TAILQ_FIRST(&p->round);
    struct running *r = TAILQ_FIRST(TAILQ_EMPTY(&c->ready) ? &c->queued : &c->ready);

    TAILQ_REMOVE(&p->round, c, round); /* moves to the end, if it has more calls */
    c->in_round = false;
    move(r, RUNNING);
    p->taken++;
    if (!r->arena && all->n_arenas > 0)
        r->arena = all->arenas[--all->n_arenas];
    return r;
}

/* Under lock. False: the thread must end. */
static bool await_work(calls *all)
{
    pool *p = &all->pool;
    struct timespec until;
    bool patient = true;

    p->n_idle++;
    while (TAILQ_EMPTY(&p->round) && !p->closing && patient)
        if (p->n <= all->options.threads) {
            pthread_cond_wait(&p->work, &all->lock);
        } else {
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += IDLE_S;
            patient = pthread_cond_timedwait(&p->work, &all->lock, &until) == 0;
        }
    p->n_idle--;
    return !p->closing && !TAILQ_EMPTY(&p->round);
}

static void *run(void *arg)
{
    worker *w = arg;
    calls *all = w->all;
    pool *p = &all->pool;

    working = all;
    pthread_mutex_lock(&all->lock);
    while (await_work(all)) {
        struct running *r = next_of_round(all);
        w->busy = true;
        pthread_mutex_unlock(&all->lock);
        work_run(r);
        pthread_mutex_lock(&all->lock);
        w->busy = false;
    }
    p->n--;
    TAILQ_REMOVE(&p->workers, w, next);
    if (w->detached)
        free(w);
    else
        TAILQ_INSERT_TAIL(&p->ended, w, next);
    pthread_cond_broadcast(&all->changed);
    unref(all);
    return NULL;
}

void calls_run(calls *all)
{
    pool *p = &all->pool;
    const calls *before = working;

    working = all;
    pthread_mutex_lock(&all->lock);
    for (size_t n = p->n_queued; n > 0 && !TAILQ_EMPTY(&p->round); n--) {
        struct running *r = next_of_round(all);
        pthread_mutex_unlock(&all->lock);
        work_run(r);
        pthread_mutex_lock(&all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    working = before;
}

/* Under lock. */
static bool start(calls *all)
{
    pool *p = &all->pool;
    worker *w = malloc(sizeof *w);

    if (!w)
        return false;
    *w = (worker){.all = all};
    if (pthread_create(&w->id, NULL, run, w) != 0) {
        free(w);
        return false;
    }
    TAILQ_INSERT_TAIL(&p->workers, w, next);
    p->n++;
    all->references++;
    return true;
}

/* Joins threads that have ended, or will end as soon as they get the lock. */
static void join(worker_list *ended)
{
    worker *w;

    while ((w = TAILQ_FIRST(ended))) {
        TAILQ_REMOVE(ended, w, next);
        pthread_join(w->id, NULL);
        free(w);
    }
}

/* ---- all of them -------------------------------------------------------------------------- */

static void on_stall_timer(struct timer *timer)
{
    pool *p = container_of(timer, pool, look);
    calls *all = container_of(p, calls, pool);
    worker_list ended = TAILQ_HEAD_INITIALIZER(ended);

    pthread_mutex_lock(&all->lock);
    bool waiting = !TAILQ_EMPTY(&p->round), stalled = waiting && p->taken == p->seen;
    size_t more = p->n_queued < p->n ? p->n_queued : p->n;
    while (stalled && more-- > 0 && p->n < all->options.threads_max && start(all))
        ;
    p->seen = p->taken;
    TAILQ_CONCAT(&ended, &p->ended, next);
    pthread_mutex_unlock(&all->lock);
    join(&ended);
    if (waiting)
        loop_timers_set(&all->timers, timer, clock_now_ns() + STALL_NS);
}

void pool_watch(calls *all)
{
    pool *p = &all->pool;

    if (p->look.place != 0)
        return;
    pthread_mutex_lock(&all->lock);
    bool wanted = p->n_queued > p->n_idle && p->n < all->options.threads_max;
    p->seen = p->taken;
    pthread_mutex_unlock(&all->lock);
    if (wanted)
        loop_timers_set(&all->timers, &p->look, clock_now_ns() + STALL_NS);
}

bool pool_open(calls *all)
{
    pool *p = &all->pool;
    pthread_condattr_t clock;

    TAILQ_INIT(&p->round);
    TAILQ_INIT(&p->workers);
    TAILQ_INIT(&p->ended);
    p->look.due = on_stall_timer;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->work, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_lock(&all->lock);
    while (p->n < all->options.threads && start(all))
        ;
    bool enough = p->n == all->options.threads;
    pthread_mutex_unlock(&all->lock);
    return enough;
}

/* Under lock: whether a thread must still be joined. */
static bool has_attached(const pool *p)
{
    const worker *w;

    TAILQ_FOREACH(w, &p->workers, next)
        if (!w->detached)
            return true;
    return false;
}

void pool_close(calls *all)
{
    pool *p = &all->pool;
    worker_list ended = TAILQ_HEAD_INITIALIZER(ended);
    worker *w;

    pthread_mutex_lock(&all->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    TAILQ_FOREACH(w, &p->workers, next)
        if (w->busy) {
            w->detached = true;
            pthread_detach(w->id);
        }
    while (has_attached(p))
        pthread_cond_wait(&all->changed, &all->lock);
    TAILQ_CONCAT(&ended, &p->ended, next);
    pthread_mutex_unlock(&all->lock);
    join(&ended);
}

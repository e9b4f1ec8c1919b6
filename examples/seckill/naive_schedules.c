/* Workers are threads, one for the whole life of each: what a recipe keeps for a
 * thread is kept for a worker. Only one of them ever runs, but for who is stopped. */
#include "naive_schedules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "patience.h"

/* An lks_mutex whose lease is over when the grant arrives was not locked: longer. */
enum { SHORT_MS = 60, MUTEX_MS = 500, LONG_MS = 60000, TRIES = 20, LOOKS = 5, WORKERS = 3 };

struct schedule_play;

typedef struct actor {
    lock_worker worker;
    struct schedule_play *play;
    pthread_t thread;
    bool lives; /* as a thread; stopped, if the script runs */
    void (*act)(struct actor *a);
} actor;

typedef struct schedule_play {
    const lock_way *way;
    lks_channel *channel;
    const char *redis_socket;
    char key[64], stock_key[72];
    actor actors[WORKERS + 1]; /* a, b and c; before them, who died with the lock */
    schedule_outcome *outcome;
    lks_error error;
} schedule_play;

/* ---- what workers do ------------------------------------------------------------ */

static void take(actor *a)
{
    a->worker.holds = a->worker.way->lock(&a->worker);
}

static void take_and_leave(actor *a)
{
    take(a);
    if (a->worker.holds) {
        a->worker.way->unlock(&a->worker);
        a->worker.holds = false;
    }
}

/* As code does that is called from code which has locked already. */
static void take_twice(actor *a)
{
    take(a);
    if (a->worker.holds && barrier_reach(&a->worker.stop, POINT_INSIDE))
        take(a);
}

static void *live(void *arg)
{
    actor *a = arg;

    a->act(a);
    barrier_pass(&a->worker.stop);
    return NULL;
}

/* ---- the script ----------------------------------------------------------------- */

static bool failed(const schedule_play *play)
{
    return play->error.code != LKS_OK;
}

/* Starts a worker that stops at `point`, and waits until it has. */
static void begin(schedule_play *play, actor *a, int64_t lease_ms, void (*act)(actor *), barrier_point point)
{
    a->act = act;
    a->worker.lease_ms = lease_ms;
    a->worker.stop.point = point;
    if (failed(play))
        return;
    a->lives = pthread_create(&a->thread, NULL, live, a) == 0;
    if (!a->lives) {
        lks_error_set(&play->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread for %s", a->worker.name);
    } else if (!barrier_await(&a->worker.stop) && point != POINT_NOWHERE && a->worker.error.code == LKS_OK) {
        lks_error_set(&a->worker.error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s did not come to where it stops",
                      a->worker.name);
    }
}

/* Waits for the end of a worker that is not stopped any more. */
static void finish(schedule_play *play, actor *a)
{
    if (a->lives) {
        pthread_join(a->thread, NULL);
        a->lives = false;
    }
    if (!failed(play))
        play->error = a->worker.error;
}

static void run(schedule_play *play, actor *a, int64_t lease_ms, void (*act)(actor *))
{
    begin(play, a, lease_ms, act, POINT_NOWHERE);
    finish(play, a);
}

static void go_on(schedule_play *play, actor *a)
{
    barrier_open(&a->worker.stop);
    finish(play, a);
}

/* The worker's process is gone: nothing more comes from it. */
static void die(schedule_play *play, actor *a)
{
    barrier_kill(&a->worker.stop);
    finish(play, a);
    a->worker.holds = false;
    redisFree(a->worker.redis);
    a->worker.redis = NULL;
}

static void rest_until(int64_t ms)
{
    for (int64_t left = ms - wall_ms(); left >= 0; left = ms - wall_ms())
        clock_rest(left + 1);
}

/* Returns when the lock is over, as `a` sees it. */
static void await_end(schedule_play *play, actor *a)
{
    lock_end end = play->way->end(&a->worker);

    while (!failed(play) && end.latest > wall_ms()) {
        rest_until(end.latest);
        end = play->way->end(&a->worker);
        play->error = a->worker.error;
    }
}

/* All who believe to hold the lock read the stock, then each writes what it makes of
 * it: the order in which reading and writing does harm, if they are more than one. */
static void sell(schedule_play *play)
{
    schedule_outcome *outcome = play->outcome;
    int64_t seen[WORKERS + 1] = {0};
    size_t length = 0;

    for (size_t i = 0; i <= WORKERS && !failed(play); i++) {
        lock_worker *w = &play->actors[i].worker;
        if (w->holds) {
            seen[i] = worker_ask(w, "GET %s", play->stock_key);
            length += (size_t)snprintf(outcome->holders + length, sizeof outcome->holders - length, "%s%s",
                                       outcome->n_holders++ == 0 ? "" : ", ", w->name);
        }
    }
    for (size_t i = 0; i <= WORKERS && !failed(play); i++) {
        lock_worker *w = &play->actors[i].worker;
        if (w->holds && seen[i] > 0 && (!w->way->may_write || w->way->may_write(w))) {
            worker_ask(w, "SET %s %" PRId64, play->stock_key, seen[i] - 1);
            outcome->sold++;
        }
        play->error = w->error;
    }
    outcome->oversold = outcome->sold > 1 ? outcome->sold - 1 : 0;
}

/* ---- the schedules -------------------------------------------------------------- */

#define A (&play->actors[1])
#define B (&play->actors[2])
#define C (&play->actors[3])

/* Comes again and again; between two tries it rests until the lock is over, if that
 * will ever be. */
static void try_often(actor *a)
{
    lock_worker *w = &a->worker;

    while (!w->holds && a->play->outcome->tries < TRIES && w->error.code == LKS_OK) {
        lock_end end = w->way->end(w);
        if (end.latest != LOCK_ENDLESS)
            rest_until(end.latest);
        a->play->outcome->tries++;
        take(a);
    }
}

/* A dies while it takes the lock; B comes. */
static void dead_taker(schedule_play *play)
{
    begin(play, A, SHORT_MS, take, POINT_TAKEN);
    die(play, A);
    play->outcome->endless = play->way->end(&B->worker).latest == LOCK_ENDLESS;
    run(play, B, LONG_MS, try_often);
    play->outcome->granted = B->worker.holds;
    sell(play);
}

/* Somebody died with the lock and its lease ended. A looks, and freezes for as long as
 * the lease it wants. B takes the lock. A goes on, and is told that it is late. C comes. */
static void late_writer(schedule_play *play)
{
    run(play, &play->actors[0], SHORT_MS, take);
    play->actors[0].worker.holds = false;
    await_end(play, B);
    begin(play, A, SHORT_MS, take, POINT_LOOKED);
    int64_t frozen_ms = wall_ms();
    run(play, B, LONG_MS, take);
    rest_until(frozen_ms + SHORT_MS);
    go_on(play, A);
    run(play, C, LONG_MS, take);
    play->outcome->granted = C->worker.holds;
    sell(play);
}

/* A's lease ends before it unlocks. B takes the lock. A unlocks. C comes. */
static void late_leaver(schedule_play *play)
{
    begin(play, A, SHORT_MS, take_and_leave, POINT_LEAVES);
    await_end(play, B);
    run(play, B, LONG_MS, take);
    go_on(play, A);
    run(play, C, LONG_MS, take);
    play->outcome->granted = C->worker.holds;
    sell(play);
}

/* A try for the lock of a dead holder; looks whether it moves the lock's end. */
static void try_and_look(actor *a)
{
    lock_worker *w = &a->worker;
    schedule_outcome *outcome = a->play->outcome;

    while (!w->holds && outcome->tries < LOOKS && w->error.code == LKS_OK) {
        lock_end before = w->way->end(w);
        rest_until(wall_ms() + 2); /* else the same end could be set twice */
        outcome->tries++;
        take(a);
        outcome->moved += w->way->end(w).earliest > before.latest;
    }
}

/* A dies with the lock. B comes, and comes again. */
static void patient_waiter(schedule_play *play)
{
    run(play, A, LONG_MS, take);
    A->worker.holds = false;
    run(play, B, LONG_MS, try_and_look);
    play->outcome->granted = B->worker.holds;
    sell(play);
}

/* A's lease ends while it works. B takes the lock. A calls what locks once more. */
static void reentering(schedule_play *play)
{
    if (play->way == &lockstock_way)
        A->worker.way = &lockstock_mutex_way;
    begin(play, A, MUTEX_MS, take_twice, POINT_INSIDE);
    await_end(play, B);
    run(play, B, LONG_MS, take);
    go_on(play, A);
    play->outcome->granted = A->worker.holds;
    sell(play);
}
#undef A
#undef B
#undef C

const naive_schedule naive_schedules[NAIVE_SCHEDULES] = {
    {&naive_setnx_expire, "A dies as it takes the lock", "B", dead_taker},
    {&naive_getset, "A freezes before it writes", "C", late_writer},
    {&naive_blind_del, "A unlocks after its lease", "C", late_leaver},
    {&naive_refreshing, "A died; B tries and tries", "B", patient_waiter},
    {&naive_by_thread, "A relocks after its lease", "A", reentering},
};

/* ---- one run -------------------------------------------------------------------- */

static void open_actors(schedule_play *play)
{
    static const char *const names[] = {"X", "A", "B", "C"};

    for (size_t i = 0; i <= WORKERS; i++) {
        lock_worker *w = &play->actors[i].worker;
        *w = (lock_worker){.name = names[i], .way = play->way, .key = play->key, .channel = play->channel};
        play->actors[i].play = play;
        barrier_init(&w->stop, POINT_NOWHERE);
        w->redis = redisConnectUnix(play->redis_socket);
        if (!failed(play) && (!w->redis || w->redis->err != 0)) {
            lks_error_set(&play->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "redis at %s: %s", play->redis_socket,
                          w->redis ? w->redis->errstr : "out of memory");
        }
    }
}

static void close_actors(schedule_play *play)
{
    for (size_t i = 0; i <= WORKERS; i++) {
        lock_worker *w = &play->actors[i].worker;
        barrier_destroy(&w->stop);
        if (w->redis)
            redisFree(w->redis);
    }
}

lks_code schedule_run(const naive_schedule *schedule, const lock_way *way, lks_channel *channel,
                      const char *redis_socket, const char *run_id, schedule_outcome *ret, lks_error *error)
{
    schedule_play play = {.way = way, .channel = channel, .redis_socket = redis_socket};

    *ret = (schedule_outcome){0};
    play.outcome = ret;
    snprintf(play.key, sizeof play.key, "seckill:%s:%td:%s", run_id, schedule - naive_schedules,
             way == schedule->naive ? "naive" : "ours");
    snprintf(play.stock_key, sizeof play.stock_key, "%s:stock", play.key);
    open_actors(&play);
    if (!failed(&play)) {
        worker_ask(&play.actors[WORKERS].worker, "SET %s 1", play.stock_key);
        schedule->play(&play);
        worker_ask(&play.actors[WORKERS].worker, "DEL %s %s", play.key, play.stock_key);
    }
    close_actors(&play);
    if (failed(&play))
        *error = play.error;
    return play.error.code;
}

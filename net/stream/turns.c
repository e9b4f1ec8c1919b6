/* Invariant: `busy`, which keeps the loop from waiting, runs exactly while somebody is
 * queued. Called by stream.c. */
#include "net/stream/turns.h"

#include <stdlib.h>

#include <uv.h>

enum {
    FIRST_NS_PER_KIB = 300 * 1000,  /* a first guess: the dearest that is known, many headers in few bytes */
    USED_NS_MAX = 10 * 1000 * 1000, /* what is remembered of a costly piece of work */
};

struct turns {
    turns_options options;
    TAILQ_HEAD(, turn_taker) queue;
    uv_idle_t busy;
    uint64_t light_ns; /* when a light one last worked */
    void (*closed)(void *arg);
    void *arg;
};

uint64_t turns_now(const turns *all)
{
    return all->options.now_ns();
}

static uint64_t used_at(const turn_taker *t, uint64_t now_ns)
{
    uint64_t leaked = now_ns > t->at_ns ? (now_ns - t->at_ns) / TURNS_LEAK_PART : 0;

    return t->used_ns > leaked ? t->used_ns - leaked : 0;
}

bool turns_is_light(const turns *all, const turn_taker *t)
{
    return used_at(t, turns_now(all)) < TURNS_LIGHT_NS;
}

size_t turns_bytes(const turns *all, const turn_taker *t, size_t max)
{
    uint64_t used_ns = used_at(t, turns_now(all));
    uint64_t left_ns = used_ns < TURNS_LIGHT_NS ? TURNS_LIGHT_NS - used_ns : TURNS_LIGHT_NS;
    uint64_t bytes = left_ns * 1024 / (t->ns_per_kib > 0 ? t->ns_per_kib : FIRST_NS_PER_KIB);

    if (bytes < TURNS_BYTES_MIN)
        bytes = TURNS_BYTES_MIN;
    return bytes < max ? (size_t)bytes : max;
}

/* What is dearer than before counts at once, what is cheaper by and by. */
static void learn_cost(turn_taker *t, uint64_t ns, size_t bytes)
{
    uint64_t cost = ns * 1024 / bytes + 1;
    uint64_t before = t->ns_per_kib > 0 ? t->ns_per_kib : FIRST_NS_PER_KIB;

    t->ns_per_kib = cost > before ? cost : before - (before - cost) / 4;
}

void turns_worked(turns *all, turn_taker *t, uint64_t since_ns, size_t bytes)
{
    uint64_t now_ns = turns_now(all);
    uint64_t used_ns = used_at(t, since_ns) + (now_ns - since_ns);

    if (!t->queued && used_ns < TURNS_LIGHT_NS)
        all->light_ns = now_ns;
    t->used_ns = used_ns < USED_NS_MAX ? used_ns : USED_NS_MAX;
    t->at_ns = now_ns;
    if (bytes >= TURNS_BYTES_MIN || (bytes > 0 && now_ns - since_ns >= TURNS_LIGHT_NS))
        learn_cost(t, now_ns - since_ns, bytes);
}

/* ---- the queue -------------------------------------------------------------------- */

static void on_busy(uv_idle_t *busy)
{
    turns *all = busy->data;
    uint64_t began_ns = turns_now(all);
    bool contended = began_ns < all->light_ns + TURNS_QUIET_NS;
    uint64_t until_ns = began_ns + (contended ? TURNS_CONTENDED_NS : TURNS_ALONE_NS);
    turn_taker *t;

    do {
        t = TAILQ_FIRST(&all->queue);
        TAILQ_REMOVE(&all->queue, t, next);
        TAILQ_INSERT_TAIL(&all->queue, t, next);
        all->options.serve(t);
    } while (!TAILQ_EMPTY(&all->queue) && turns_now(all) < until_ns);
}

void turns_queue(turns *all, turn_taker *t)
{
    if (t->queued)
        return;
    t->queued = true;
    if (TAILQ_EMPTY(&all->queue))
        uv_idle_start(&all->busy, on_busy);
    TAILQ_INSERT_TAIL(&all->queue, t, next);
}

void turns_leave(turns *all, turn_taker *t)
{
    if (!t->queued)
        return;
    t->queued = false;
    TAILQ_REMOVE(&all->queue, t, next);
    if (TAILQ_EMPTY(&all->queue))
        uv_idle_stop(&all->busy);
}

/* ---- all -------------------------------------------------------------------------- */

turns *turns_new(const turns_options *options)
{
    turns *all = malloc(sizeof *all);

    if (!all)
        return NULL;
    *all = (turns){.options = *options};
    TAILQ_INIT(&all->queue);
    uv_idle_init(options->loop, &all->busy);
    all->busy.data = all;
    return all;
}

static void on_closed(uv_handle_t *handle)
{
    turns *all = handle->data;
    void (*closed)(void *arg) = all->closed;
    void *arg = all->arg;

    free(all);
    closed(arg);
}

void turns_close(turns *all, void (*closed)(void *arg), void *arg)
{
    all->closed = closed;
    all->arg = arg;
    uv_close((uv_handle_t *)&all->busy, on_closed);
}

/* Invariant: `busy` runs exactly while a connection is queued, and keeps the loop from blocking. An owner is on
 * `queue` exactly while one of its connections is queued. Called by admission.c, stream_input.c and stream_output.c. */
#include "net/admission/turns.h"

#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/named.h"
#include "net/close_barrier.h"

enum {
    FIRST_NS_PER_KIB = 300 * 1000,  /* a first estimate: the highest cost known, many headers in few bytes */
    USED_NS_MAX = 10 * 1000 * 1000, /* the most that is remembered */
};

/* Owner of connections. */
typedef struct turn_owner {
    named_entry named; /* its members are connections */
    turn_use use;      /* of all its connections */
    TAILQ_HEAD(, turn_taker) queue;
    TAILQ_ENTRY(turn_owner) next;
} turn_owner;

struct turns {
    turns_options options;
    TAILQ_HEAD(, turn_owner) queue;
    named_set owners;
    turn_owner *unowned; /* owns connections that have no owner yet */
    uv_idle_t busy;
    uint64_t light_ns;       /* when a light connection last worked */
    uint64_t light_owner_ns; /* when a connection of a light owner last worked */
    uint64_t heavy_ns;       /* when heavy connections were last served, or the first of them was queued */
    uint64_t rest_until_ns;  /* heavy connections are not served until then */
    close_barrier closing;
};

uint64_t turns_now(const turns *all)
{
    return all->options.now_ns();
}

static uint64_t used_at(const turn_use *use, unsigned leak_part, uint64_t now_ns)
{
    uint64_t leaked = now_ns > use->at_ns ? (now_ns - use->at_ns) / leak_part : 0;

    return use->used_ns > leaked ? use->used_ns - leaked : 0;
}

/* Adds the time since since_ns; returns the sum. */
static uint64_t use_more(turn_use *use, unsigned leak_part, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t used_ns = used_at(use, leak_part, since_ns) + (now_ns - since_ns);

    use->used_ns = used_ns < USED_NS_MAX ? used_ns : USED_NS_MAX;
    use->at_ns = now_ns;
    return used_ns;
}

static turn_owner *owner_of(const turns *all, const turn_taker *t)
{
    return t->owner ? t->owner : all->unowned;
}

/* While other owners call, an owner of many cheap connections is as heavy as one expensive connection. */
bool turns_is_light(const turns *all, const turn_taker *t)
{
    uint64_t now_ns = turns_now(all);

    return used_at(&t->use, TURNS_LEAK_PART, now_ns) < TURNS_LIGHT_NS &&
           (now_ns >= all->light_owner_ns + TURNS_QUIET_NS ||
            used_at(&owner_of(all, t)->use, TURNS_OWNER_LEAK_PART, now_ns) < TURNS_LIGHT_NS);
}

size_t turns_bytes(const turns *all, const turn_taker *t, size_t max)
{
    uint64_t used_ns = used_at(&t->use, TURNS_LEAK_PART, turns_now(all));
    uint64_t left_ns = used_ns < TURNS_LIGHT_NS ? TURNS_LIGHT_NS - used_ns : TURNS_LIGHT_NS;
    uint64_t bytes = left_ns * 1024 / (t->ns_per_kib > 0 ? t->ns_per_kib : FIRST_NS_PER_KIB);

    if (bytes < TURNS_BYTES_MIN)
        bytes = TURNS_BYTES_MIN;
    return bytes < max ? (size_t)bytes : max;
}

/* A higher cost counts at once, a lower cost gradually. */
static void learn_cost(turn_taker *t, uint64_t ns, size_t bytes)
{
    uint64_t cost = ns * 1024 / bytes + 1;
    uint64_t before = t->ns_per_kib > 0 ? t->ns_per_kib : FIRST_NS_PER_KIB;

    t->ns_per_kib = cost > before ? cost : before - (before - cost) / 4;
}

void turns_worked(turns *all, turn_taker *t, uint64_t since_ns, size_t bytes)
{
    uint64_t now_ns = turns_now(all);
    uint64_t used_ns = use_more(&t->use, TURNS_LEAK_PART, since_ns, now_ns);
    uint64_t owner_ns = use_more(&owner_of(all, t)->use, TURNS_OWNER_LEAK_PART, since_ns, now_ns);

    if (!t->queued && used_ns < TURNS_LIGHT_NS)
        all->light_ns = now_ns;
    if (owner_ns < TURNS_LIGHT_NS)
        all->light_owner_ns = now_ns;
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

    if (began_ns < all->rest_until_ns)
        return;
    do {
        turn_owner *o = TAILQ_FIRST(&all->queue);
        TAILQ_REMOVE(&all->queue, o, next);
        TAILQ_INSERT_TAIL(&all->queue, o, next);
        t = TAILQ_FIRST(&o->queue);
        TAILQ_REMOVE(&o->queue, t, next);
        TAILQ_INSERT_TAIL(&o->queue, t, next);
        all->options.serve(t);
    } while (!TAILQ_EMPTY(&all->queue) && turns_now(all) < until_ns);
    uint64_t now_ns = turns_now(all);
    if (all->light_ns > all->heavy_ns &&
        now_ns - began_ns > TURNS_LIGHT_NS) /* a piece of work that cannot be divided */
        all->rest_until_ns = now_ns + (now_ns - began_ns);
    all->heavy_ns = now_ns;
}

void turns_queue(turns *all, turn_taker *t)
{
    turn_owner *o = owner_of(all, t);

    if (t->queued)
        return;
    t->queued = true;
    if (TAILQ_EMPTY(&all->queue)) {
        uv_idle_start(&all->busy, on_busy);
        all->heavy_ns = turns_now(all);
    }
    if (TAILQ_EMPTY(&o->queue))
        TAILQ_INSERT_TAIL(&all->queue, o, next);
    TAILQ_INSERT_TAIL(&o->queue, t, next);
}

void turns_leave(turns *all, turn_taker *t)
{
    turn_owner *o = owner_of(all, t);

    if (!t->queued)
        return;
    t->queued = false;
    TAILQ_REMOVE(&o->queue, t, next);
    if (TAILQ_EMPTY(&o->queue))
        TAILQ_REMOVE(&all->queue, o, next);
    if (TAILQ_EMPTY(&all->queue))
        uv_idle_stop(&all->busy);
}

/* ---- owners ----------------------------------------------------------------------- */

/* Adds a member; NULL when out of memory. */
static turn_owner *enter_owner(turns *all, const char *name)
{
    turn_owner *o = named_enter(&all->owners, name, sizeof *o);

    if (o && o->named.members == 1)
        TAILQ_INIT(&o->queue);
    return o;
}

void turns_set_owner(turns *all, turn_taker *t, const char *name)
{
    turn_owner *from = t->owner, *to = NULL;
    bool queued = t->queued;

    if (name && ((from && strcmp(from->named.name, name) == 0) || !(to = enter_owner(all, name))))
        return;
    turns_leave(all, t);
    t->owner = to;
    if (queued)
        turns_queue(all, t);
    named_leave(&all->owners, from);
}

/* ---- all -------------------------------------------------------------------------- */

turns *turns_new(const turns_options *options)
{
    turns *all = malloc(sizeof *all);

    if (!all)
        return NULL;
    *all = (turns){.options = *options};
    all->unowned = enter_owner(all, "");
    if (!all->unowned) {
        free(all);
        return NULL;
    }
    TAILQ_INIT(&all->queue);
    uv_idle_init(options->loop, &all->busy);
    all->busy.data = all;
    return all;
}

static void release(void *owner)
{
    turns *all = owner;

    named_leave(&all->owners, all->unowned);
    free(all);
}

void turns_close(turns *all, void (*closed)(void *arg), void *arg)
{
    close_barrier_handle(&all->closing, &all->busy);
    close_barrier_begin(&all->closing, all, release, closed, arg);
}

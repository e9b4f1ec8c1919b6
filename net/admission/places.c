/* Invariant: each group that a place is `in` counts it, and has it on its list of idle places, longest idle first,
 * exactly while it is idle. Groups of wires and addresses exist while they have a place. Called by admission.c. */
#include "net/admission/places.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Checked in this order. */
enum { BY_ADDRESS, BY_WIRE, BY_NETWORK, BY_ALL };

static const char *const words[PLACE_LIMITS] = {
    [BY_ADDRESS] = "connections from one address",
    [BY_WIRE] = "connections of one wire",
    [BY_NETWORK] = "connections",
    [BY_ALL] = "connections",
};

typedef struct place_group {
    struct {
        uint32_t limit, kind; /* BY_..., and the origin's kind */
        uint8_t bytes[8];     /* of an origin, or a wire's name */
    } key;
    uint32_t n, max; /* max 0: no limit */
    TAILQ_HEAD(, place) idle;
} place_group;

struct places {
    places_options options;
    place_group everyone, network;
    void *groups; /* tsearch, by key: wires and addresses */
};

places *places_new(const places_options *options)
{
    places *all = calloc(1, sizeof *all);

    if (!all)
        return NULL;
    all->options = *options;
    all->everyone.max = options->all;
    all->network.max = options->all > options->for_unix ? options->all - options->for_unix : 1;
    TAILQ_INIT(&all->everyone.idle);
    TAILQ_INIT(&all->network.idle);
    return all;
}

void places_free(places *all)
{
    free(all);
}

/* ---- groups ----------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return memcmp(&((const place_group *)a)->key, &((const place_group *)b)->key, sizeof((place_group *)0)->key);
}

static place_group *find_or_add(places *all, const place_group *wanted)
{
    place_group *g = malloc(sizeof *g);
    place_group **found;

    if (!g)
        return NULL;
    *g = *wanted;
    TAILQ_INIT(&g->idle);
    found = tsearch(g, &all->groups, by_key);
    if (!found || *found != g)
        free(g);
    return found ? *found : NULL;
}

static place_group *group_of_wire(places *all, const char *wire)
{
    place_group wanted = {.key = {.limit = BY_WIRE}, .max = all->options.per_wire};
    size_t len = strlen(wire);

    memcpy(wanted.key.bytes, wire, len < sizeof wanted.key.bytes ? len : sizeof wanted.key.bytes);
    return find_or_add(all, &wanted);
}

static place_group *group_of_address(places *all, const place_origin *origin)
{
    place_group wanted = {.key = {.limit = BY_ADDRESS, .kind = (uint32_t)origin->kind},
                          .max = all->options.per_address};

    memcpy(wanted.key.bytes, origin->bytes, sizeof wanted.key.bytes);
    return find_or_add(all, &wanted);
}

static void forget_unused(places *all, place_group *g)
{
    if (g->n > 0 || g == &all->everyone || g == &all->network)
        return;
    tdelete(g, &all->groups, by_key);
    free(g);
}

/* ---- places ----------------------------------------------------------------------- */

/* Whether a group has room for a new connection, which it counts already. Closes idle connections to make room; for a
 * network connection, only network connections. */
static bool has_room(places *all, const place *p, size_t limit)
{
    place_group *g = p->in[limit];
    place_group *among = limit == BY_ALL && p->in[BY_NETWORK] ? p->in[BY_NETWORK] : g;

    while (g && g->max > 0 && g->n > g->max) {
        place *idlest = TAILQ_FIRST(&among->idle);
        if (!idlest)
            return false;
        all->options.close_idle(idlest);
    }
    return true;
}

const char *places_take(places *all, place *p, const char *wire, const place_origin *origin)
{
    const char *full = NULL;

    *p = (place){.taken = true,
                 .in = {[BY_ADDRESS] = group_of_address(all, origin),
                        [BY_WIRE] = group_of_wire(all, wire),
                        [BY_NETWORK] = origin->kind == PLACE_USER ? NULL : &all->network,
                        [BY_ALL] = &all->everyone}};
    for (size_t i = 0; i < PLACE_LIMITS; i++)
        if (p->in[i])
            p->in[i]->n++;
    if (!p->in[BY_ADDRESS] || !p->in[BY_WIRE])
        full = "memory";
    for (size_t i = 0; i < PLACE_LIMITS && !full; i++)
        if (!has_room(all, p, i))
            full = words[i];
    if (full)
        places_leave(all, p);
    return full;
}

void places_set_idle(places *all, place *p, bool idle)
{
    (void)all;
    if (!p->taken || idle == p->is_idle)
        return;
    p->is_idle = idle;
    for (size_t i = 0; i < PLACE_LIMITS; i++)
        if (p->in[i] && idle)
            TAILQ_INSERT_TAIL(&p->in[i]->idle, p, idle[i]);
        else if (p->in[i])
            TAILQ_REMOVE(&p->in[i]->idle, p, idle[i]);
}

void places_leave(places *all, place *p)
{
    if (!p->taken)
        return;
    places_set_idle(all, p, false);
    p->taken = false;
    for (size_t i = 0; i < PLACE_LIMITS; i++) {
        if (p->in[i]) {
            p->in[i]->n--;
            forget_unused(all, p->in[i]);
        }
    }
}

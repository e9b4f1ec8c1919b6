/* Invariant: each group that a place is `in` counts it, and has it on its list of idle places, longest idle first,
 * exactly while it is idle. A group exists while it has a place. Called by admission.c. */
#include "net/admission/places.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "base/named.h"

/* Checked in this order. */
enum { BY_ADDRESS, BY_WIRE, BY_NETWORK, BY_ALL };

enum { NAME_BYTES = 64 };

static const char *const words[PLACE_LIMITS] = {
    [BY_ADDRESS] = "connections from one address",
    [BY_WIRE] = "connections of one wire",
    [BY_NETWORK] = "connections",
    [BY_ALL] = "connections",
};

typedef struct place_group {
    named_entry named; /* its members are connections */
    uint32_t max;      /* 0: no limit */
    TAILQ_HEAD(, place) idle;
} place_group;

struct places {
    places_options options;
    named_set groups; /* by limit, and wire or address */
};

places *places_new(const places_options *options)
{
    places *all = calloc(1, sizeof *all);

    if (all)
        all->options = *options;
    return all;
}

void places_free(places *all)
{
    free(all);
}

/* ---- groups ----------------------------------------------------------------------- */

/* Adds a member to the group of a limit, and of a wire or address; NULL when out of memory. */
static place_group *enter(places *all, int limit, const char *of, uint32_t max)
{
    char name[NAME_BYTES];
    place_group *g;

    snprintf(name, sizeof name, "%d %s", limit, of);
    g = named_enter(&all->groups, name, sizeof *g);
    if (g && g->named.members == 1) {
        g->max = max;
        TAILQ_INIT(&g->idle);
    }
    return g;
}

static place_group *enter_address(places *all, const place_origin *origin)
{
    char text[NAME_BYTES] = {(char)('0' + origin->kind)};

    hex_encode(origin->bytes, sizeof origin->bytes, text + 1);
    return enter(all, BY_ADDRESS, text, all->options.per_address);
}

static place_group *enter_network(places *all)
{
    const places_options *o = &all->options;

    return enter(all, BY_NETWORK, "", o->all > o->for_unix ? o->all - o->for_unix : 1);
}

/* ---- places ----------------------------------------------------------------------- */

/* Whether a group has room for a new connection, which it counts already. Closes idle connections to make room; for a
 * network connection, only network connections. */
static bool has_room(places *all, const place *p, size_t limit)
{
    place_group *g = p->in[limit];
    place_group *among = limit == BY_ALL && p->in[BY_NETWORK] ? p->in[BY_NETWORK] : g;

    while (g && g->max > 0 && g->named.members > g->max) {
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
                 .in = {[BY_ADDRESS] = enter_address(all, origin),
                        [BY_WIRE] = enter(all, BY_WIRE, wire, all->options.per_wire),
                        [BY_NETWORK] = origin->kind == PLACE_USER ? NULL : enter_network(all),
                        [BY_ALL] = enter(all, BY_ALL, "", all->options.all)}};
    if (!p->in[BY_ADDRESS] || !p->in[BY_WIRE] || !p->in[BY_ALL] || (origin->kind != PLACE_USER && !p->in[BY_NETWORK]))
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
    for (size_t i = 0; i < PLACE_LIMITS; i++)
        named_leave(&all->groups, p->in[i]);
}

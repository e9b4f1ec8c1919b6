/* Invariant: a claim that is older than the known one changes nothing: its node has not learned of the newer one. Used
 * by topology.c. */
#include "store/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum {
    MOVE_LONG_MS = 2000,
    MOVE_OVER_MS = 10000, /* no call was delayed by the move for this time */
    MOVE_OTHER_MS = 1000,
};

bool owners_take_map(owners *o, const slots_map *map, shard *(*found)(void *arg, const slots_node *node), void *arg)
{
    shard **of = memory_alloc(map->n * sizeof(shard *));
    bool changed = false;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint16_t place = map->owner[slot];
        if (place == SLOTS_NOBODY || map->node[place].host[0] == '\0' || map->node[place].epoch < o->epoch[slot])
            continue;
        if (!of[place])
            of[place] = found(arg, &map->node[place]);
        changed = changed || o->of[slot] != of[place];
        o->of[slot] = of[place];
        o->epoch[slot] = map->node[place].epoch;
    }
    free(of);
    return changed;
}

/* The part of a shard stays the same while the part's slot is the shard's first slot. */
void owners_count(const owners *o)
{
    char tag[SLOTS_TAG_BYTES];

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        shard *s = o->of[slot];
        if (!s || s->n_slots++ > 0 || (s->part.base[0] != '\0' && s->part.slot == slot))
            continue;
        slots_tag((uint16_t)slot, tag);
        s->part.slot = (uint16_t)slot;
        snprintf(s->part.base, sizeof s->part.base, "ls:{%s}:", tag);
    }
}

void owners_forget(owners *o, bool all)
{
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (all || (o->of[slot] && o->of[slot]->state != SHARD_SERVING))
            o->epoch[slot] = 0;
}

void owners_note_moving(owners *o, uint16_t slot, uint64_t now_ms)
{
    if (o->moving != slot && now_ms - o->moving_last_ms < MOVE_OTHER_MS)
        return;
    if (o->moving != slot || o->moving_since_ms == 0)
        o->moving_since_ms = now_ms;
    o->moving = slot;
    o->moving_last_ms = now_ms;
}

const shard *owners_stuck(const owners *o)
{
    return o->moving_last_ms - o->moving_since_ms >= MOVE_LONG_MS ? o->of[o->moving] : NULL;
}

void owners_forget_moving(owners *o, uint64_t now_ms)
{
    if (now_ms - o->moving_last_ms > MOVE_OVER_MS)
        o->moving_since_ms = o->moving_last_ms = 0;
}

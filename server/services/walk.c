/* Invariant: a slot is `listed` only when one node had all of it from the node's first page to its last. */
#include "services/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { NODE_BYTES_MAX = 40, RANGE_BYTES = 12 };

static bool has(const unsigned char *set, unsigned slot)
{
    return set[slot / 8] & 1U << slot % 8;
}

static void put(unsigned char *set, unsigned slot, bool in)
{
    if (in)
        set[slot / 8] |= (unsigned char)(1U << slot % 8);
    else
        set[slot / 8] &= (unsigned char)~(1U << slot % 8);
}

/* Reads "5" or "5-7" and advances *at. */
static bool read_range(const char **at, unsigned *from, unsigned *to)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    unsigned long first = strtoul(*at, &end, 10), last = first;
    if (*end == '-') {
        const char *second = end + 1;
        if (*second < '0' || *second > '9')
            return false;
        last = strtoul(second, &end, 10);
    }
    *at = end;
    *from = (unsigned)first;
    *to = (unsigned)last;
    return first <= last && last < WALK_SLOTS;
}

/* Reads "5-7,9,!6", where ! removes a slot. Returns false for other text. Ranges must ascend, so that a text that a
 * caller has made up takes no longer to read than there are slots. */
static bool read_slots(const char *text, size_t len, unsigned char *set)
{
    const char *at = text, *end = text + len;
    unsigned from, to, least = 0;

    while (at < end) {
        bool out = *at == '!';
        at += out;
        if (!read_range(&at, &from, &to) || at > end || (at < end && *at != ',') || (!out && from < least))
            return false;
        least = out ? least : to + 1;
        at += at < end;
        for (unsigned slot = from; slot <= to; slot++)
            put(set, slot, !out);
    }
    return true;
}

static const char *write_slots(lks_rpc_arena *arena, const unsigned char *set)
{
    size_t ranges = 0;

    for (unsigned slot = 0; slot < WALK_SLOTS; slot++)
        ranges += has(set, slot) && (slot == 0 || !has(set, slot - 1));
    size_t room = ranges * RANGE_BYTES + 1, n = 0;
    char *text = memory_in(arena, room);
    for (unsigned slot = 0; slot < WALK_SLOTS; slot++) {
        if (!has(set, slot))
            continue;
        unsigned from = slot;
        while (slot + 1 < WALK_SLOTS && has(set, slot + 1))
            slot++;
        n += (size_t)snprintf(text + n, room - n, "%s%u-%u", n > 0 ? "," : "", from, slot);
    }
    return text;
}

/* Returns the next '!' and moves *at past it; NULL: none. */
static const char *part_end(const char **at)
{
    const char *end = strchr(*at, '!');

    if (end)
        *at = end + 1;
    return end;
}

walk *walk_read(lks_rpc_arena *arena, const char *token)
{
    walk *w = memory_in(arena, sizeof *w);
    const char *end;

    *w = (walk){.node = "", .rest = token};
    if (*token != '~')
        return w;
    const char *at = ++token;
    if (!(end = part_end(&at)) || !read_slots(token, (size_t)(end - token), w->listed))
        return NULL;
    token = at;
    if (!(end = part_end(&at)) || !read_slots(token, (size_t)(end - token), w->here))
        return NULL;
    token = at;
    if (!(end = part_end(&at)) || end - token > NODE_BYTES_MAX)
        return NULL;
    w->node = memory_copy_in(arena, token, (size_t)(end - token));
    w->rest = at;
    return w;
}

const char *walk_listed(lks_rpc_arena *arena, const walk *w)
{
    return write_slots(arena, w->listed);
}

static unsigned first_of(const unsigned char *set, bool in)
{
    unsigned slot = 0;

    while (slot < WALK_SLOTS && has(set, slot) != in)
        slot++;
    return slot;
}

void walk_place(const walk *w, plan *p)
{
    if (plan_failed(p))
        return;
    unsigned slot = first_of(w->here, true);
    if (slot == WALK_SLOTS)
        slot = first_of(w->listed, false);
    store_call *call = &p->calls[p->n_calls - 1];
    call->whole_shard = true;
    call->slot = (uint16_t)(slot % WALK_SLOTS);
}

const char *walk_next(lks_rpc_arena *arena, const walk *w, const char *node, const char *slots, const char *rest)
{
    unsigned char now[sizeof w->here] = {0}, here[sizeof w->here], listed[sizeof w->listed];
    bool goes_on = strcmp(node, w->node) == 0;

    if (*node == '\0')
        return rest;
    read_slots(slots, strlen(slots), now);
    for (size_t i = 0; i < sizeof here; i++) {
        here[i] = goes_on ? now[i] & w->here[i] : now[i];
        listed[i] = w->listed[i] | (*rest == '\0' ? here[i] : 0);
    }
    if (first_of(listed, false) == WALK_SLOTS)
        return "";
    if (*rest == '\0')
        return memory_printf_in(arena, "~%s!!!", write_slots(arena, listed));
    return memory_printf_in(arena, "~%s!%s!%s!%s", write_slots(arena, listed), write_slots(arena, here), node, rest);
}

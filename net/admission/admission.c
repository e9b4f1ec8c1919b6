/* Called by stream.c and stream_input.c. */
#include "net/admission/admission.h"

bool admission_init(admission *all, const admission_options *options)
{
    return (all->places = places_new(&options->places)) && (all->penalties = penalties_new()) &&
           (all->turns = turns_new(&options->turns));
}

void admission_close(admission *all, void (*closed)(void *arg), void *arg)
{
    places_free(all->places);
    penalties_free(all->penalties);
    if (all->turns)
        turns_close(all->turns, closed, arg);
    else
        closed(arg);
}

const char *admission_enter(admission *all, guest *g, const char *wire, const place_origin *from,
                            const char *origin_text, uint64_t now_ms, uint64_t *wait_ms)
{
    g->from = from;
    turns_set_owner(all->turns, &g->turn, origin_text);
    const char *full = places_take(all->places, &g->place, wire, from);
    if (full)
        return full;
    if (!penalties_let_in(all->penalties, from, now_ms, wait_ms))
        return "connections from an address whose connections broke the protocol";
    g->put_off = *wait_ms > 0;
    return NULL;
}

void admission_set_idle(admission *all, guest *g, bool idle, bool has_certificate)
{
    places_set_idle(all->places, &g->place, idle && !has_certificate && !budget_principal(g->bytes));
}

void admission_follow_principal(admission *all, guest *g)
{
    const char *principal = budget_principal(g->bytes);

    if (principal)
        turns_set_owner(all->turns, &g->turn, principal);
}

void admission_leave(admission *all, guest *g, bool offended, uint64_t now_ms)
{
    if (offended)
        penalties_add(all->penalties, g->from, now_ms);
    if (g->put_off)
        penalties_cancel_wait(all->penalties, g->from);
    places_leave(all->places, &g->place);
    turns_set_owner(all->turns, &g->turn, NULL);
}

/* Invariant: a slot is in the idle list exactly while it is IDLE; `awaiting` counts those
 * that were SENT and are not over. */
#include "client/wire/link.h"

#include <stdlib.h>

link_message *link_message_new(size_t len)
{
    link_message *message = malloc(sizeof *message + LINK_HEADROOM + len);

    if (message) {
        message->slot = NULL;
        message->len = len;
    }
    return message;
}

struct link *link_new(size_t size, const link_options *options)
{
    struct link *link = calloc(1, size);
    link_slot **slots = calloc(options->slots_max, sizeof *slots);

    if (!link || !slots) {
        free(link);
        free(slots);
        return NULL;
    }
    link->options = *options;
    link->slots = slots;
    return link;
}

lks_code link_open(const link_options *options, struct link **ret, lks_error *error)
{
    return options->engine->open(options, ret, error);
}

void link_close(struct link *link)
{
    if (!link)
        return;
    link->options.engine->close(link);
    free(link->slots);
    free(link);
}

link_state link_state_of(const struct link *link)
{
    return link->options.engine->state(link);
}

static void put_idle(link_slot *slot)
{
    slot->state = LINK_SLOT_IDLE;
    slot->next_idle = slot->link->idle;
    slot->link->idle = slot;
    slot->link->in_use--;
}

link_slot *link_send(struct link *link, link_message *message, int lane, uint32_t n, void *owner)
{
    link_slot *slot = link->idle;

    if (slot) {
        link->idle = slot->next_idle;
    } else {
        slot = link->options.engine->slot_new(link);
        if (!slot)
            return NULL;
        slot->link = link;
        link->slots[link->n_slots++] = slot;
    }
    slot->state = LINK_SLOT_SENDING;
    slot->lane = lane;
    slot->n = n;
    slot->owner = owner;
    link->in_use++;
    if (link->options.engine->send(slot, message))
        return slot;
    put_idle(slot);
    return NULL;
}

void link_withdraw(link_slot *slot)
{
    slot->link->options.engine->withdraw(slot);
}

void link_forget(link_slot *slot)
{
    slot->state = LINK_SLOT_FORGOTTEN;
    slot->owner = NULL;
    slot->link->options.engine->forget(slot);
}

void link_abandon(struct link *link)
{
    if (link->options.engine->abandon)
        link->options.engine->abandon(link);
    for (size_t i = 0; i < link->n_slots; i++)
        if (link->slots[i]->state == LINK_SLOT_SENDING)
            link_withdraw(link->slots[i]);
}

void link_flush(struct link *link)
{
    if (link->options.engine->flush)
        link->options.engine->flush(link);
}

loop_source *link_source(const struct link *link)
{
    return link->options.engine->source ? link->options.engine->source(link) : NULL;
}

void link_sent(link_slot *slot)
{
    const link_options *options = &slot->link->options;

    slot->state = LINK_SLOT_AWAITING;
    slot->link->awaiting++;
    options->outcome(options->arg, slot, LINK_SENT, NULL, 0);
}

void link_slot_over(link_slot *slot, link_outcome outcome, const void *data, size_t len)
{
    const link_options *options = &slot->link->options;

    if (slot->state != LINK_SLOT_SENDING)
        slot->link->awaiting--;
    put_idle(slot);
    options->outcome(options->arg, slot, outcome, data, len);
}

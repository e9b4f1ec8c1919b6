/* Invariant: a caller is freed when it is lost; nothing of a test may ask for it later. A share
 * is freed when it is closed and holds nothing. */
#include "support/fake_sink.h"

#include <stdlib.h>

struct caller {
    unsigned number;
    bool queues, held;
    budget_share *bytes;
    void (*on_room)(void *arg);
    void *arg;
};

struct budget_share {
    size_t held;
    bool closed;
};

fake_callers_seen fake_callers;
static void (*tell_lost)(void);
static bool is_full, has_principals;

void fake_callers_reset(void (*on_lost)(void))
{
    fake_callers = (fake_callers_seen){0};
    tell_lost = on_lost;
    is_full = has_principals = false;
}

unsigned fake_caller_number(const caller *c)
{
    return c->number;
}

void fake_caller_queues(caller *c, bool queues)
{
    bool had_none = !c->queues;

    c->queues = queues;
    if (!queues && !had_none && c->on_room)
        c->on_room(c->arg);
}

void fake_budget_has_principals(bool has)
{
    has_principals = has;
}

const char *budget_principal(const budget_share *share)
{
    return has_principals ? "somebody" : NULL;
}

static void hold(caller *c, bool held)
{
    if (held != c->held)
        fake_callers.n_held += held ? 1 : (size_t)-1;
    c->held = held;
}

void fake_budget_is_full(bool full)
{
    is_full = full;
}

static caller *open_caller(void *arg, const sink_connection *connection)
{
    caller *c = malloc(sizeof *c);

    if (c)
        *c = (caller){.number = (unsigned)++fake_callers.opened,
                      .bytes = connection->bytes,
                      .on_room = connection->on_room,
                      .arg = connection->arg};
    return c;
}

static void lose(caller *c)
{
    if (!c)
        return;
    fake_callers.lost++;
    fake_callers.last_lost = c->number;
    hold(c, false);
    if (tell_lost)
        tell_lost();
    free(c);
}

static bool queues(const caller *c)
{
    return c->queues;
}

const sink fake_sink = {.open = open_caller, .lost = lose, .hold = hold, .queues = queues};

budget_share *budget_open(budget *all)
{
    fake_callers.shares_opened++;
    return calloc(1, sizeof(budget_share));
}

static void free_when_over(budget_share *share)
{
    if (!share->closed || share->held > 0)
        return;
    fake_callers.shares_closed++;
    free(share);
}

void budget_close(budget_share *share)
{
    if (!share)
        return;
    share->closed = true;
    free_when_over(share);
}

bool budget_take(budget_share *share, size_t bytes)
{
    if (!is_full)
        budget_force(share, bytes);
    return !is_full;
}

void budget_force(budget_share *share, size_t bytes)
{
    share->held += bytes;
    fake_callers.held += bytes;
}

void budget_give(budget_share *share, size_t bytes)
{
    share->held -= bytes;
    fake_callers.held -= bytes;
    free_when_over(share);
}

void budget_note(budget *all, size_t bytes)
{
}

void budget_unnote(budget *all, size_t bytes)
{
}

/* Room for calls: to run, to queue and to wait. Called by callers.c. Invariant: a caller is on its owner's list
 * `ready` of a kind exactly while it has a queued call of that kind and its own limits allow one more; an owner is
 * on the server's list exactly while its own list is not empty. So the next call to start is found in the same time
 * however many queue. */
#include <string.h>

#include "base/clock.h"
#include "calls/callers_state.h"

enum {
    RESERVE = 4,           /* 1/RESERVE of the room to run is not for one kind of calls alone */
    LONG_NS = 5 * 1000000, /* a queue of this time is long */
    PRINCIPAL_PART = 2,    /* one principal may have 1/PRINCIPAL_PART of the waiting calls */
};

/* ---- room ------------------------------------------------------------------------- */

/* Returns the part of `max` that calls of one kind may use. The rest is for the other kind. */
static uint32_t for_one_kind(uint32_t max)
{
    return max - max / RESERVE;
}

bool callers_fit(const running_calls *running, uint32_t max, bool settles)
{
    return running->of_kind[settles] < for_one_kind(max) && running->of_kind[0] + running->of_kind[1] < max;
}

owner *callers_enter_owner(callers *all, const char *name)
{
    owner *o = named_enter(&all->owners, name, sizeof *o);

    if (o && o->named.members == 1) {
        TAILQ_INIT(&o->ready[false]);
        TAILQ_INIT(&o->ready[true]);
    }
    return o;
}

void callers_leave_owner(callers *all, owner *o)
{
    if (o->named.members == 1 && all->recent == o)
        all->recent = NULL;
    named_leave(&all->owners, o);
}

bool callers_contended(const callers *all, const owner *o)
{
    uint64_t others_ns = all->recent == o ? all->others_ns : all->recent_ns;

    return others_ns > 0 && clock_now_ns() < others_ns + CALLERS_QUIET_NS;
}

bool callers_have_share(const callers *all, const owner *o, bool settles)
{
    return callers_fit(&o->running, all->options.running_per_owner, settles) || !callers_contended(all, o);
}

/* Whether the caller's own limits allow it to start a call of that kind. */
static bool own_limits_allow(const caller *c, bool settles)
{
    return !c->held && callers_fit(&c->running, c->all->options.running_per_caller, settles);
}

bool callers_have_room(const caller *c, bool settles)
{
    return own_limits_allow(c, settles) && callers_fit(&c->all->running, c->all->options.running_max, settles) &&
           callers_have_share(c->all, c->owner, settles);
}

static void relist_owner(callers *all, owner *o, bool settles)
{
    bool ready = !TAILQ_EMPTY(&o->ready[settles]);

    if (ready && !o->listed[settles])
        TAILQ_INSERT_TAIL(&all->ready[settles], o, ready_in[settles]);
    else if (!ready && o->listed[settles])
        TAILQ_REMOVE(&all->ready[settles], o, ready_in[settles]);
    o->listed[settles] = ready;
}

static void relist_kind(caller *c, bool settles, bool ready)
{
    if (ready && !c->ready[settles])
        TAILQ_INSERT_TAIL(&c->owner->ready[settles], c, ready_in[settles]);
    else if (!ready && c->ready[settles])
        TAILQ_REMOVE(&c->owner->ready[settles], c, ready_in[settles]);
    c->ready[settles] = ready;
    relist_owner(c->all, c->owner, settles);
}

void callers_relist(caller *c)
{
    for (int settles = 0; settles <= 1; settles++)
        relist_kind(c, settles, !TAILQ_EMPTY(&c->queue[settles]) && own_limits_allow(c, settles));
}

/* ---- owners ----------------------------------------------------------------------- */

static void count_taking(caller *c, uint32_t n, uint32_t n_limited)
{
    owner *o = c->owner;
    uint32_t before = o->n_taking;

    o->n_taking += n;
    o->n_limited += n_limited;
    c->all->n_owners_taking += (before == 0) - (uint32_t)(o->n_taking == 0);
}

void caller_set_owner(caller *c, const char *name)
{
    owner *to, *from = c->owner;

    if (strcmp(from->named.name, name) == 0 || !(to = callers_enter_owner(c->all, name)))
        return;
    relist_kind(c, true, false);
    relist_kind(c, false, false);
    uint32_t n = c->n_queued[false];
    if (n > 0)
        count_taking(c, -n, -c->n_limited);
    c->owner = to;
    if (n > 0)
        count_taking(c, n, c->n_limited);
    callers_relist(c);
    callers_leave_owner(c->all, from);
}

void callers_note_owner(callers *all, const owner *o, uint64_t now_ns)
{
    if (all->recent != o)
        all->others_ns = all->recent_ns;
    all->recent = o;
    all->recent_ns = now_ns;
}

/* ---- pace --------------------------------------------------------------------------- */

uint64_t callers_queue_ns(const caller *c)
{
    const callers *all = c->all;
    uint64_t before = (uint64_t)c->n_queued[false] * all->n_takers;
    uint64_t of_owners = (uint64_t)c->owner->n_taking * all->n_owners_taking;

    if (of_owners < before)
        before = of_owners;
    return pace_expected_ns(&all->pace, before < all->n_taking ? before : all->n_taking);
}

bool callers_queue_long(const caller *c)
{
    return callers_queue_ns(c) >= LONG_NS || clock_now_ns() - c->moved_ns >= c->all->options.stall_ns;
}

static void enter_takers(caller *c)
{
    callers *all = c->all;

    c->moved_ns = clock_now_ns();
    if (all->n_takers++ == 0)
        pace_begin(&all->pace, c->moved_ns);
    TAILQ_INSERT_TAIL(&all->takers, c, in_takers);
}

static void leave_takers(caller *c)
{
    callers *all = c->all;

    TAILQ_REMOVE(&all->takers, c, in_takers);
    all->n_takers--;
}

/* ---- queues ----------------------------------------------------------------------- */

/* Adds `n` calls to the counts of the queue of the call's kind; a negated n subtracts. */
static void count_queued(caller_call *call, uint32_t n)
{
    caller *c = call->caller;

    c->all->n_queued += n;
    c->n_queued[call->settles] += n;
    if (call->settles)
        return;
    uint32_t n_limited = call->waits ? 0 : n;
    c->all->n_taking += n;
    c->all->n_limited += n_limited;
    c->n_limited += n_limited;
    count_taking(c, n, n_limited);
}

void callers_enqueue(caller_call *call)
{
    caller *c = call->caller;

    TAILQ_INSERT_TAIL(&c->queue[call->settles], call, in_queue);
    count_queued(call, 1);
    if (!call->settles && c->n_queued[false] == 1)
        enter_takers(c);
}

void callers_dequeue(caller_call *call)
{
    caller *c = call->caller;

    TAILQ_REMOVE(&c->queue[call->settles], call, in_queue);
    count_queued(call, -1U);
    if (!call->settles && c->n_queued[false] == 0)
        leave_takers(c);
}

/* ---- waiting ------------------------------------------------------------------------ */

lks_code callers_no_room(lks_error *error, lks_reason reason, const char *why)
{
    lks_code code = lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, reason, "%s", why);

    error->retry_after_ms = CALLERS_RETRY_AFTER_MS;
    return code;
}

lks_code callers_enter_waiting(caller_call *call, const char *principal, lks_error *error)
{
    caller *c = call->caller;
    callers *all = c->all;
    const callers_options *o = &all->options;
    named_entry *sum = principal ? named_enter(&all->principals, principal, sizeof *sum) : NULL;
    const char *full = NULL;

    if (principal && !sum)
        full = "out of memory";
    else if (all->n_waiting >= o->waiting_max)
        full = "too many calls wait";
    else if (c->n_waiting >= o->waiting_per_caller)
        full = "too many calls wait on this connection";
    else if (sum && sum->members > (o->waiting_max + PRINCIPAL_PART - 1) / PRINCIPAL_PART)
        full = "too many calls of this principal wait";
    if (full) {
        named_leave(&all->principals, sum);
        return callers_no_room(error, principal && !sum ? LKS_REASON_NO_ROOM : LKS_REASON_TOO_MANY_CALLS, full);
    }
    call->waiting = sum;
    c->n_waiting++;
    all->n_waiting++;
    return LKS_OK;
}

void callers_leave_waiting(caller_call *call)
{
    caller *c = call->caller;

    named_leave(&c->all->principals, call->waiting);
    call->waiting = NULL;
    c->n_waiting--;
    c->all->n_waiting--;
}

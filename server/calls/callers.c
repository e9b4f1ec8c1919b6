/* Admits and starts calls. Called by dispatch.c and the engines. */
#include <stdlib.h>

#include "base/clock.h"
#include "calls/callers_state.h"

enum {
    QUEUES = 16,      /* queued calls that take, per place to run */
    SETTLING = 4,     /* queued calls of one caller that settle, per place to run, besides those that waited */
    SMALL_QUEUE = 64, /* queued calls of one owner when others fill nearly the whole queue */
    /* Time to start calls in each turn of the loop: for a caller; and while others call, for queued calls, and for the
     * calls of all costly callers together on arrival. */
    TURN_NS = 200 * 1000,
    ALONE_NS = 1000 * 1000,  /* instead, when no other owner had a call for CALLERS_QUIET_NS */
    LARGE_BYTES = 64 * 1024, /* size of a large reply */
    COST_FACTOR_MAX = 8,
    OWNERS_SHARE = 32, /* places of one owner while another calls */
    STALL_NS = 20 * 1000000,
    LOOK_MS = 10,         /* how often the length of queues is checked */
    LOOK_NS = 200 * 1000, /* the maximum time of one check */
    QUEUE_PART = 4,       /* a call may queue for 1/QUEUE_PART of the time that it has left */
    NS_PER_MS = 1000000,
};

/* ---- the state of a call ------------------------------------------------------------ */

/* Adds `n` places; a negated n subtracts. */
static void count_running(caller_call *call, uint32_t n)
{
    call->caller->running.of_kind[call->settles] += n;
    call->caller->all->running.of_kind[call->settles] += n;
    call->owner->running.of_kind[call->settles] += n;
}

static void leave_state(caller_call *call)
{
    callers *all = call->caller->all;

    switch (call->state) {
    case CALL_QUEUED:
    case CALL_WOKEN:
        callers_dequeue(call);
        break;
    case CALL_RUNNING:
        count_running(call, -call->places);
        callers_leave_owner(all, call->owner);
        call->owner = NULL;
        break;
    case CALL_PARKED:
        all->n_parked--;
        break;
    default:
        break;
    }
}

static void on_look(uv_timer_t *look);

/* Looks at the queues while calls queue to take. */
static void watch_takers(callers *all)
{
    if (all->n_takers == 0)
        uv_timer_stop(&all->look);
    else if (!uv_is_active((uv_handle_t *)&all->look))
        uv_timer_start(&all->look, on_look, LOOK_MS, LOOK_MS);
}

/* The only function that changes a call's state, and the counts and lists by state. */
static void move_call(caller_call *call, call_state to)
{
    caller *c = call->caller;

    leave_state(call);
    call->state = to;
    switch (to) {
    case CALL_QUEUED:
    case CALL_WOKEN:
        callers_enqueue(call);
        break;
    case CALL_RUNNING:
        call->owner = c->owner;
        call->owner->named.members++;
        count_running(call, call->places = 1 + call->more * c->cost_factor);
        break;
    case CALL_PARKED:
        call->settles = true; /* from now on it only ends its wait */
        c->all->n_parked++;
        break;
    default:
        break;
    }
    callers_relist(c);
    watch_takers(c->all);
}

/* ---- life ------------------------------------------------------------------------- */

static void free_when_over(caller *c)
{
    if (!c->lost || c->pins > 0 || !TAILQ_EMPTY(&c->calls))
        return;
    callers_leave_owner(c->all, c->owner);
    free(c);
}

static void unpin(caller *c)
{
    c->pins--;
    free_when_over(c);
}

static void notify_room(caller *c)
{
    if (!caller_queues(c) && !c->lost && c->on_room)
        c->on_room(c->arg);
}

/* Transports that stopped reading resume reading when their queue has become long. */
static void on_look(uv_timer_t *look)
{
    callers *all = look->data;
    uint64_t until_ns = clock_now_ns() + LOOK_NS;
    caller *c;

    for (uint32_t n = all->n_takers; n > 0 && clock_now_ns() < until_ns && (c = TAILQ_FIRST(&all->takers)); n--) {
        TAILQ_REMOVE(&all->takers, c, in_takers);
        TAILQ_INSERT_TAIL(&all->takers, c, in_takers);
        c->pins++;
        notify_room(c);
        unpin(c);
    }
}

/* ---- starting ----------------------------------------------------------------------- */

/* The caller of the call must be pinned. */
static void run(caller_call *call)
{
    caller *c = call->caller;
    callers *all = c->all;
    uint64_t began_ns = clock_now_ns();

    if (c->turn != all->turn) {
        c->was_costly = c->turn_ns >= all->options.turn_ns;
        c->turn_ns = 0;
    }
    c->turn = all->turn;
    owner *o = c->owner;
    if (o->turn != all->turn)
        o->turn_ns = 0;
    o->turn = all->turn;
    o->named.members++; /* the owner is used below, after the call may have ended */
    callers_note_owner(all, o, began_ns);
    bool begins = call->state == CALL_NEW || call->state == CALL_QUEUED;
    move_call(call, CALL_RUNNING);
    (begins ? call->ops->begin : call->ops->resume)(call);
    uint64_t now_ns = clock_now_ns(), took_ns = now_ns - began_ns;
    c->turn_ns += took_ns;
    o->turn_ns += took_ns;
    callers_leave_owner(all, o);
    if (!c->was_costly && c->turn_ns < all->options.turn_ns)
        all->light_ns = now_ns;
    if (all->serving)
        all->queue_ns += took_ns;
    else if (c->was_costly)
        all->costly_ns += took_ns;
}

/* Returns the time of a turn for all costly callers. */
static uint64_t turn_of_costly(const callers *all)
{
    return clock_now_ns() < all->light_ns + CALLERS_QUIET_NS ? all->options.turn_ns : ALONE_NS;
}

/* Whether the caller has used up its share of this turn of the loop, or the costly callers together have used up
 * theirs. */
static bool turn_is_over(const caller *c)
{
    const callers *all = c->all;
    bool used_up = c->turn_ns >= all->options.turn_ns, in_this_turn = c->turn == all->turn;
    bool is_costly = in_this_turn ? c->was_costly : used_up;
    const owner *o = c->owner;

    if (o->turn == all->turn && o->turn_ns >= all->options.turn_ns && callers_contended(all, o))
        return true;
    return (in_this_turn && used_up) || (is_costly && all->costly_ns >= turn_of_costly(all));
}

/* Returns the queued call of a kind that starts next; NULL when none has room. Owners take turns, and so do the callers
 * of one owner. Few owners are skipped: each owner has its share, and the sum of running calls is limited. */
static caller_call *next_of_kind(callers *all, bool settles)
{
    owner *o;

    if (!callers_fit(&all->running, all->options.running_max, settles))
        return NULL;
    TAILQ_FOREACH(o, &all->ready[settles], ready_in[settles])
        if (callers_have_share(all, o, settles))
            break;
    if (!o)
        return NULL;
    caller *c = TAILQ_FIRST(&o->ready[settles]);
    TAILQ_REMOVE(&all->ready[settles], o, ready_in[settles]);
    TAILQ_INSERT_TAIL(&all->ready[settles], o, ready_in[settles]);
    TAILQ_REMOVE(&o->ready[settles], c, ready_in[settles]);
    TAILQ_INSERT_TAIL(&o->ready[settles], c, ready_in[settles]);
    return TAILQ_FIRST(&c->queue[settles]);
}

static caller_call *next_call(callers *all)
{
    caller_call *call = next_of_kind(all, true);

    return call ? call : next_of_kind(all, false);
}

static void on_busy(uv_idle_t *busy);

/* Starts queued calls while there is room, for at most a turn. */
static void serve(callers *all)
{
    caller_call *call = NULL;

    if (all->serving || all->n_queued == 0)
        return;
    uint64_t until_ns = turn_of_costly(all);
    all->serving = true;
    while (all->queue_ns < until_ns && (call = next_call(all))) {
        caller *c = call->caller;
        c->pins++;
        if (!call->settles)
            pace_note(&all->pace, c->moved_ns = clock_now_ns());
        run(call);
        uint64_t began_ns = clock_now_ns();
        notify_room(c); /* a transport that stopped reading submits what it has read so far */
        all->queue_ns += clock_now_ns() - began_ns;
        unpin(c);
    }
    all->serving = false;
    if (all->queue_ns >= until_ns)
        uv_idle_start(&all->busy, on_busy);
}

static void on_busy(uv_idle_t *busy)
{
    callers *all = busy->data;

    uv_idle_stop(busy);
    serve(all);
}

static void start_or_queue(caller_call *call)
{
    caller *c = call->caller;

    bool is_first = TAILQ_EMPTY(&c->queue[call->settles]) &&
                    (call->settles || TAILQ_EMPTY(&c->queue[true]) || !callers_have_room(c, true));

    if (is_first && callers_have_room(c, call->settles) && !turn_is_over(c)) {
        c->pins++;
        run(call);
        unpin(c);
        return;
    }
    move_call(call, call->state == CALL_PARKED ? CALL_WOKEN : CALL_QUEUED);
    if (!c->all->serving)
        uv_idle_start(&c->all->busy, on_busy);
}

/* ---- a call ------------------------------------------------------------------------- */

/* Not for calls that may wait: they have their own limit, and all of them arrive at once after a restart. */
static bool queue_is_full(const caller *c)
{
    uint32_t max = QUEUES * c->all->options.running_max;
    uint32_t left = c->all->n_limited < max ? max - c->all->n_limited : 0;

    return left == 0 || (c->owner->n_limited >= SMALL_QUEUE && c->owner->n_limited >= left);
}

/* Calls that settle are refused only because of other calls of their own caller. All parked calls may have been woken
 * at once. */
static bool too_many_settle(const caller *c)
{
    const callers_options *o = &c->all->options;

    return c->n_queued[true] >= (uint64_t)SETTLING * o->running_per_caller + o->waiting_per_caller;
}

lks_code caller_refuse_if_late(const caller *c, uint64_t deadline_ns, lks_error *error)
{
    uint64_t ns = callers_queue_ns(c), now_ns = ns > 0 ? clock_now_ns() : 0;

    if (ns == 0 || !pace_too_long(ns, deadline_ns > now_ns ? deadline_ns - now_ns : 0, QUEUE_PART))
        return LKS_OK;
    lks_code code = callers_no_room(error, LKS_REASON_TOO_MANY_CALLS, "calls queue for too long");
    if (ns > (uint64_t)CALLERS_RETRY_AFTER_MS * NS_PER_MS)
        error->retry_after_ms = (uint32_t)(ns / NS_PER_MS);
    return code;
}

lks_code caller_admit(caller_call *call, const char *principal, lks_error *error)
{
    caller *c = call->caller;

    if (principal)
        caller_set_owner(c, principal);
    if (c->lost)
        return lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "the connection is gone");
    if (!call->settles && !call->waits && queue_is_full(c))
        return callers_no_room(error, LKS_REASON_TOO_MANY_CALLS, "too many calls under way");
    if (call->settles && too_many_settle(c))
        return callers_no_room(error, LKS_REASON_TOO_MANY_CALLS, "too many calls under way on this connection");
    lks_code code = call->waits ? callers_enter_waiting(call, principal, error) : LKS_OK;
    if (code != LKS_OK)
        return code;
    TAILQ_INSERT_TAIL(&c->calls, call, in_caller);
    start_or_queue(call);
    return LKS_OK;
}

void caller_park(caller_call *call)
{
    move_call(call, CALL_PARKED);
    serve(call->caller->all);
}

void caller_resume(caller_call *call)
{
    start_or_queue(call);
}

void caller_leave(caller_call *call)
{
    caller *c = call->caller;

    if (!c)
        return;
    callers *all = c->all;
    move_call(call, CALL_NEW);
    if (call->waits)
        callers_leave_waiting(call);
    TAILQ_REMOVE(&c->calls, call, in_caller);
    call->caller = NULL;
    free_when_over(c);
    serve(all);
}

/* ---- a caller ----------------------------------------------------------------------- */

caller *caller_new(callers *all, budget_share *bytes, void (*on_room)(void *arg), void *arg)
{
    caller *c = malloc(sizeof *c);

    if (!c)
        return NULL;
    *c = (caller){.all = all,
                  .bytes = bytes,
                  .on_room = on_room,
                  .arg = arg,
                  .wire = "?",
                  .from = "?",
                  .cost_factor = COST_FACTOR_MAX};
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->queue[false]);
    TAILQ_INIT(&c->queue[true]);
    c->owner = callers_enter_owner(all, "");
    if (!c->owner) {
        free(c);
        return NULL;
    }
    return c;
}

void caller_name(caller *c, const char *wire, const char *from)
{
    c->wire = wire;
    c->from = from;
}

const char *caller_wire(const caller *c)
{
    return c->wire;
}

const char *caller_from(const caller *c)
{
    return c->from;
}

/* `abandoned` may end other calls, so each call moves to the end of the list before it runs, once for each call that
 * was in the list. */
void caller_lost(caller *c)
{
    size_t n = 0;
    caller_call *call;

    if (!c)
        return;
    caller_hold(c, false); /* the connection takes no more output */
    c->lost = true;
    caller_name(c, "?", "?");
    c->pins++;
    TAILQ_FOREACH(call, &c->calls, in_caller)
        n++;
    for (; n > 0 && (call = TAILQ_FIRST(&c->calls)); n--) {
        TAILQ_REMOVE(&c->calls, call, in_caller);
        TAILQ_INSERT_TAIL(&c->calls, call, in_caller);
        call->ops->abandoned(call);
    }
    unpin(c);
}

void caller_hold(caller *c, bool held)
{
    if (held == c->held)
        return;
    c->held = held;
    callers_relist(c);
    if (!held && c->n_queued[false] + c->n_queued[true] > 0 && !c->all->serving)
        uv_idle_start(&c->all->busy, on_busy);
}

void caller_had_answer(caller *c, size_t bytes)
{
    c->cost_factor = bytes > LARGE_BYTES ? COST_FACTOR_MAX : (c->cost_factor + 1) / 2;
}

budget_share *caller_bytes(const caller *c)
{
    return c->bytes;
}

bool caller_queues(const caller *c)
{
    return !TAILQ_EMPTY(&c->queue[true]) || (!TAILQ_EMPTY(&c->queue[false]) && (c->held || !callers_queue_long(c)));
}

/* ---- all of them -------------------------------------------------------------------- */

static void on_turn_end(uv_prepare_t *prepare)
{
    callers *all = prepare->data;

    all->turn++;
    all->costly_ns = all->queue_ns = 0;
}

lks_code callers_new(const callers_options *options, callers **ret, lks_error *error)
{
    callers *all = calloc(1, sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    all->options = *options;
    if (all->options.turn_ns == 0)
        all->options.turn_ns = TURN_NS;
    if (all->options.stall_ns == 0)
        all->options.stall_ns = STALL_NS;
    if (all->options.running_per_owner == 0)
        all->options.running_per_owner = OWNERS_SHARE;
    TAILQ_INIT(&all->ready[false]);
    TAILQ_INIT(&all->ready[true]);
    TAILQ_INIT(&all->takers);
    uv_timer_init(options->loop, &all->look);
    uv_prepare_init(options->loop, &all->turn_end);
    uv_idle_init(options->loop, &all->busy);
    all->turn_end.data = all->busy.data = all->look.data = all;
    uv_prepare_start(&all->turn_end, on_turn_end);
    uv_unref((uv_handle_t *)&all->turn_end);
    *ret = all;
    return LKS_OK;
}

void callers_close(callers *all, void (*closed)(void *arg), void *arg)
{
    close_barrier_handle(&all->closing, &all->turn_end);
    close_barrier_handle(&all->closing, &all->busy);
    close_barrier_handle(&all->closing, &all->look);
    close_barrier_begin(&all->closing, all, free, closed, arg);
}

bool callers_any(const callers *all)
{
    return callers_running(all) > 0 || all->n_parked > 0 || all->n_queued > 0;
}

uint32_t callers_running(const callers *all)
{
    return all->running.of_kind[0] + all->running.of_kind[1];
}

uint32_t callers_parked(const callers *all)
{
    return all->n_parked;
}

size_t callers_waiting_of(const callers *all, const char *principal)
{
    return named_members(&all->principals, principal);
}

uint64_t callers_queued(const callers *all)
{
    return all->n_queued;
}

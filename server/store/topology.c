/* Invariant: each slot's calls go to the shard that the newest known claim names: the one of the highest epoch by
 * CLUSTER NODES, or what MOVED said since. A call whose slot has no open shard yet waits in `unrouted`, a pipeline
 * that is never up. In a store of one shard that one has all slots.
 *
 *   URL ------------------------- address --> the only shard
 *   sentinels -- the primary's address -----> the only shard
 *   scout -- CLUSTER NODES --> owners of slots --> shards, from which MOVED changes owners
 *
 * The states of a topology; set_state() alone changes them:
 *
 *   LEARNING --the shard of {meta} serves--> FORMING --all serve, or some for 2 s--> READY <--> NOT_READY
 *
 * and from each to CLOSING. LEARNING: it is not known whether the data layout fits, so only the shard that has
 * {meta} is opened.
 *
 * The scout, a connection of its own, asks every second, five times a second while a shard that has slots does not
 * serve, and then each time another node: one that was cut off from the others knows nothing new.
 *
 * ASK is not followed: a slot that moves is split between two nodes, and a function has to see all keys of its
 * group. The base, which a call declares as its key, is no key that exists; so from the moment at which a slot
 * begins to move its owner answers ASK to every call, the other node MOVED, and none runs until all has moved.
 *
 * A shard that lost its slots is kept until its replies have had time to come. */
#include "store/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "net/close_barrier.h"
#include "store/errors.h"
#include "store/owners.h"
#include "store/pipeline.h"
#include "store/scout.h"
#include "store/sentinels.h"
#include "store/shard.h"
#include "store/slots.h"
#include "store/view.h"

enum {
    LOOK_MS = 1000,
    LOOK_SOON_MS = 200,
    LOOKS_SOON_MAX = 50, /* in a row; then once a second: a node may be gone for long */
    LEARN_MS = 20,       /* after MOVED or a lost connection */
    ALL_READY_MS = 2000, /* how long the first readiness waits for all shards */
    LEAVE_MS = 1000,
    SENTINEL_CONNECT_MS = 1000,
};

typedef enum topology_state { LEARNING, FORMING, READY, NOT_READY, CLOSING } topology_state;

struct topology {
    topology_options options;
    shard_context context;
    topology_state state;
    kept_fault fault;
    uint64_t first_ready_ms; /* when the first shard was ready (uv_now); 0: none yet */

    TAILQ_HEAD(, shard) shards;
    shard *only; /* NULL: the shards are those of a cluster */
    owners owners;
    uint16_t meta_slot;
    pipeline *unrouted;

    sentinels *sentinels; /* NULL unless the URL names sentinels */
    scout *scout;         /* NULL unless it names nodes of a cluster */
    unsigned looks_soon;  /* in a row */
    bool asks_another;    /* a node replied CLUSTERDOWN: the scout's node may be cut off as well */
    uv_timer_t look;

    uv_idle_t closing;
    close_barrier barrier; /* counts shards, unrouted, source, handles */
    void (*closed)(void *arg);
    void *closed_arg;
};

static void look_in(topology *t, uint64_t ms);

static uint64_t now_ms(const topology *t)
{
    return uv_now(t->options.store->loop);
}

/* ---- readiness ------------------------------------------------------------------- */

/* Whether people should know of m rather than of `bad`: a shard that does not serve rather than one that serves only in
 * part, one that was tried rather than one that was not. */
static bool is_worse(const shard *m, const shard *bad)
{
    bool serves = m->state == SHARD_SERVING, bad_serves = bad && bad->state == SHARD_SERVING;

    return !bad || (!serves && (bad_serves || (m->state != SHARD_NEW && bad->state == SHARD_NEW)));
}

/* Describes a fault: of a shard, or of a slot whose move takes too long. Counts shards that serve, and shards that have
 * slots. */
static lks_reason describe(const topology *t, size_t *n_ready, size_t *n_serving, char text[KEPT_FAULT_BYTES])
{
    const shard *m, *bad = NULL, *stuck = owners_stuck(&t->owners);

    *n_ready = *n_serving = 0;
    TAILQ_FOREACH(m, &t->shards, in_all) {
        if (m->n_slots == 0)
            continue;
        ++*n_serving;
        *n_ready += m->state == SHARD_SERVING;
        if (m->fault.text[0] && is_worse(m, bad))
            bad = m;
    }
    text[0] = '\0';
    if (bad && t->only) {
        snprintf(text, KEPT_FAULT_BYTES, "%s", bad->fault.text);
    } else if (bad) {
        snprintf(text, KEPT_FAULT_BYTES, "%zu of %zu primaries serve; %s port %u: %.300s", *n_ready, *n_serving,
                 bad->host, (unsigned)bad->port, bad->fault.text);
    } else if (stuck) {
        snprintf(text, KEPT_FAULT_BYTES,
                 "slot %u of %s port %u has not ended its move to another node: its groups cannot be used",
                 (unsigned)t->owners.moving, stuck->host, (unsigned)stuck->port);
        return LKS_REASON_STORE_SLOT_MOVING;
    }
    return bad ? bad->fault.reason : LKS_REASON_NONE;
}

static bool was_ready(const topology *t)
{
    return t->state == READY || t->state == NOT_READY;
}

static void pass_listening(topology *t)
{
    const store_options *to = t->options.store;

    if (t->state == READY && to->wake_channel)
        to->on_listening(to->arg);
}

/* Another fault is a change, too. Waiting callers look again whenever the store becomes ready. */
static void set_state(topology *t, topology_state to)
{
    bool became_ready = to == READY && t->state != READY;
    bool silent = to == CLOSING || (to == FORMING && t->state == LEARNING);

    t->state = to;
    if (silent)
        return;
    t->options.on_ready(t->options.arg, to == READY, fault_of(&t->fault));
    if (became_ready)
        pass_listening(t);
}

/* Whether the first readiness still waits for all shards. */
static bool waits_for_all(topology *t, size_t n_ready, size_t n_serving)
{
    if (n_ready > 0 && t->first_ready_ms == 0)
        t->first_ready_ms = now_ms(t) + 1;
    return t->state == FORMING && n_ready > 0 && n_ready < n_serving && now_ms(t) < t->first_ready_ms + ALL_READY_MS;
}

/* Updates the state from the states of the shards. */
static void update(topology *t)
{
    char text[KEPT_FAULT_BYTES];
    size_t n_ready, n_serving;

    if (t->state == CLOSING)
        return;
    lks_reason reason = describe(t, &n_ready, &n_serving, text);
    bool ready = n_ready > 0 && t->state != LEARNING;
    if (ready && waits_for_all(t, n_ready, n_serving))
        return;
    if (ready == (t->state == READY) && (strcmp(text, t->fault.text) == 0 || (!ready && text[0] == '\0')))
        return;
    if (text[0] || ready)
        fault_keep(&t->fault, (store_fault){reason, text});
    set_state(t, ready ? READY : was_ready(t) ? NOT_READY : t->state);
}

void topology_describe(const topology *t, store_view *ret)
{
    const shard *m;
    store_view one;

    *ret = (store_view){.version = "", .fsync = ""};
    TAILQ_FOREACH(m, &t->shards, in_all) {
        if (m->state == SHARD_NEW || m->n_slots == 0)
            continue;
        shard_describe(m, &one);
        view_add(ret, &one);
    }
    ret->cluster = ret->cluster || t->scout != NULL;
    ret->fails_over = t->context.fails_over;
    ret->ready = t->state == READY;
    ret->fault = fault_of(&t->fault);
    if (t->sentinels)
        sentinels_count(t->sentinels, &ret->sentinels, &ret->sentinels_answering);
}

bool topology_describe_primary(const topology *t, size_t i, store_primary *ret)
{
    const shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->state != SHARD_NEW && m->n_slots > 0 && i-- == 0) {
            shard_describe_primary(m, ret);
            return true;
        }
    return false;
}

bool topology_part_from(const topology *t, uint32_t from, store_part *ret)
{
    const shard *m, *first = NULL;

    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->n_slots > 0 && m->part.slot >= from && (!first || m->part.slot < first->part.slot))
            first = m;
    if (first)
        *ret = first->part;
    return first;
}

/* ---- routes ------------------------------------------------------------------------ */

static pipeline *route(void *arg, const store_call *call)
{
    const topology *t = arg;

    if (t->state == CLOSING)
        return NULL;
    if (t->only)
        return t->only->pipeline;
    const shard *m = t->owners.of[call->whole_shard ? call->slot : slots_of(call->base)];
    return m && m->pipeline ? m->pipeline : t->unrouted;
}

/* Moves calls that are not out to the shard that has their slot now. */
static void reroute(topology *t)
{
    const shard *m;

    pipeline_reroute(t->unrouted);
    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->pipeline)
            pipeline_reroute(m->pipeline);
}

/* Returns whether the slot is stuck. */
static bool note_moving(topology *t, uint16_t slot)
{
    owners_note_moving(&t->owners, slot, now_ms(t));
    update(t);
    return t->owners.moving == slot && owners_stuck(&t->owners);
}

/* The shards' counts are updated at the next look. */
static bool on_moved(void *arg, const shard *from, const char *text, size_t len)
{
    topology *t = arg;
    char host[SLOTS_HOST_BYTES];
    uint16_t slot, port;
    shard *m;

    if (slots_read_ask(text, len, &slot))
        return note_moving(t, slot);
    if (!slots_read_moved(text, len, &slot, host, &port)) {
        t->asks_another = true;
        look_in(t, LOOK_SOON_MS);
        return false;
    }
    look_in(t, LEARN_MS);
    TAILQ_FOREACH(m, &t->shards, in_all) {
        if (m->port != port || strcmp(m->host, host[0] ? host : from->host) != 0 || m->state == SHARD_NEW)
            continue;
        t->owners.of[slot] = m;
        m->n_slots++;
        m->leaves_ms = 0;
    }
    return false;
}

void topology_submit(topology *t, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    pipeline_submit(t->unrouted, call, deadline_ns, done, arg);
}

/* ---- shards ------------------------------------------------------------------------ */

static void open_shards(topology *t)
{
    shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->state == SHARD_NEW && m->n_slots > 0 && (t->state != LEARNING || t->owners.of[t->meta_slot] == m))
            shard_open(m);
}

static void on_shard_change(void *arg, shard *m, bool came_up)
{
    topology *t = arg;
    topology_state before = t->state;

    if (t->state == CLOSING)
        return;
    if (t->state == LEARNING && m->state == SHARD_SERVING && t->owners.of[t->meta_slot] == m) {
        set_state(t, FORMING);
        open_shards(t);
        reroute(t);
    }
    if (came_up && t->sentinels)
        sentinels_confirm(t->sentinels);
    update(t);
    if (came_up && before == READY)
        pass_listening(t);
    if (m->state != SHARD_SERVING && m->n_slots > 0)
        look_in(t, LEARN_MS);
}

static void on_shard_listening(void *arg)
{
    topology *t = arg;

    if (t->state == CLOSING)
        return;
    if (t->sentinels)
        sentinels_confirm(t->sentinels);
    pass_listening(t);
}

static void on_shard_fatal(void *arg, const shard *m, store_fault fault)
{
    const topology *t = arg;

    if (t->only || !was_ready(t))
        t->options.on_fatal(t->options.arg, fault);
    else
        log_error("store-node-refused", "host=%s port=%u reason=\"%s\" reason_word=%s", m->host, (unsigned)m->port,
                  fault.text, lks_reason_name(fault.reason));
}

static void on_shard_lost(void *arg)
{
    const topology *t = arg;

    if (t->state == CLOSING)
        return;
    t->options.on_lost(t->options.arg);
    if (t->sentinels)
        sentinels_recheck(t->sentinels);
}

static shard *add_shard(topology *t, const char *base)
{
    shard *m = shard_new(&t->context, base);

    TAILQ_INSERT_TAIL(&t->shards, m, in_all);
    return m;
}

/* Finds or makes the shard of a node, at the address in the map. */
static shard *find_shard(void *arg, const slots_node *seen)
{
    topology *t = arg;
    shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        if (strcmp(m->id, seen->id) == 0)
            break;
    if (!m) {
        m = add_shard(t, "");
        strcpy(m->id, seen->id);
    }
    shard_move(m, seen->host, seen->port, STORE_FAULT(STORE_UNREACHABLE, "the node has another address"));
    return m;
}

static void close_shard(topology *t, shard *m)
{
    TAILQ_REMOVE(&t->shards, m, in_all);
    shard_close(m, &t->barrier);
}

/* Closes shards that lost their slots a while ago: calls that they have not answered are made on other shards. */
static void close_left_shards(topology *t)
{
    shard *m, *next;

    for (m = TAILQ_FIRST(&t->shards); m; m = next) {
        next = TAILQ_NEXT(m, in_all);
        if (m->leaves_ms > 0 && now_ms(t) >= m->leaves_ms)
            close_shard(t, m);
    }
}

/* ---- a cluster's map ---------------------------------------------------------------- */

static void count_slots(topology *t)
{
    shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        m->n_slots = 0;
    owners_count(&t->owners);
    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->n_slots > 0)
            m->leaves_ms = 0;
        else if (m->leaves_ms == 0)
            m->leaves_ms = now_ms(t) + LEAVE_MS;
}

static void on_map(void *arg, const slots_map *map)
{
    topology *t = arg;
    bool changed = owners_take_map(&t->owners, map, find_shard, t);

    count_slots(t);
    open_shards(t);
    if (changed)
        reroute(t);
    update(t);
}

static bool is_whole(const topology *t)
{
    const shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        if (m->n_slots > 0 && m->state != SHARD_SERVING)
            return false;
    return !TAILQ_EMPTY(&t->shards);
}

static void on_look(uv_timer_t *timer)
{
    topology *t = timer->data;
    bool whole = is_whole(t);

    t->looks_soon = whole ? 0 : t->looks_soon + 1;
    /* The cluster may have been created again. Later, a missing node may have been given up, and its slots given to a
     * node with a lower epoch. */
    if (t->looks_soon >= LOOKS_SOON_MAX)
        owners_forget(&t->owners, t->looks_soon == LOOKS_SOON_MAX);
    look_in(t, whole || t->looks_soon > LOOKS_SOON_MAX ? LOOK_MS : LOOK_SOON_MS);
    close_left_shards(t);
    owners_forget_moving(&t->owners, now_ms(t));
    update(t);
    scout_look(t->scout, t->asks_another || (!whole && t->looks_soon > 1));
    t->asks_another = false;
}

/* Does nothing if a look comes earlier. */
static void look_in(topology *t, uint64_t ms)
{
    if (!t->scout || (uv_is_active((uv_handle_t *)&t->look) && uv_timer_get_due_in(&t->look) <= ms))
        return;
    uv_timer_start(&t->look, on_look, ms, 0);
}

static void on_misfit(void *arg, store_fault fault)
{
    const topology *t = arg;

    if (!was_ready(t))
        t->options.on_fatal(t->options.arg, fault);
}

static void on_scout_lost(void *arg, store_fault fault)
{
    topology *t = arg;

    if (t->state == CLOSING)
        return;
    pipeline_down(t->unrouted, fault);
    if (TAILQ_EMPTY(&t->shards) && fault_keep(&t->fault, fault))
        set_state(t, t->state);
    look_in(t, LOOK_SOON_MS);
}

/* ---- sentinels --------------------------------------------------------------------- */

static void on_primary(void *arg, const char *host, uint16_t port)
{
    const topology *t = arg;

    if (t->state != CLOSING)
        shard_move(t->only, host, port, STORE_FAULT(STORE_FAILING_OVER, "the sentinels name another primary"));
}

static void on_demoted(void *arg, const char *host, uint16_t port)
{
    const topology *t = arg;

    if (t->state != CLOSING && t->only->port == port && strcmp(t->only->host, host) == 0)
        shard_drop(t->only, STORE_FAULT(STORE_FAILING_OVER, "a sentinel reports that it is no longer the primary"));
}

static void on_unknown(void *arg, store_fault fault)
{
    topology_explain(arg, fault);
}

void topology_explain(topology *t, store_fault fault)
{
    if (t->state != CLOSING)
        shard_explain(t->only, fault);
}

static const char *generation(void *arg)
{
    const topology *t = arg;

    return sentinels_generation(t->sentinels);
}

/* ---- beginning and end --------------------------------------------------------------- */

static void open_scout(topology *t)
{
    const scout_options options = {
        .loop = t->options.store->loop,
        .url = t->options.url,
        .as = &t->options.secrets->as,
        .tls = t->context.tls,
        .connect_timeout_ms = t->options.store->connect_timeout_ms,
        .on_map = on_map,
        .on_misfit = on_misfit,
        .on_lost = on_scout_lost,
        .arg = t,
    };

    t->scout = scout_open(&options);
    look_in(t, LOOK_SOON_MS);
}

static void open_sentinels(topology *t)
{
    const sentinels_options options = {
        .loop = t->options.store->loop,
        .url = t->options.url,
        .as = &t->options.secrets->as_to_sentinels,
        .to_primary = &t->options.secrets->as,
        .tls = t->context.tls,
        .connect_timeout_ms = SENTINEL_CONNECT_MS,
        .on_primary = on_primary,
        .on_demoted = on_demoted,
        .on_unknown = on_unknown,
        .arg = t,
    };

    t->sentinels = sentinels_open(&options);
}

static void open_only(topology *t)
{
    const url *u = t->options.url;
    shard *m = add_shard(t, STORE_META_BASE);

    if (u->kind == URL_TCP) {
        snprintf(m->host, sizeof m->host, "%s", u->hosts[0].host);
        m->port = u->hosts[0].port;
    }
    m->path = t->options.socket ? t->options.socket : u->kind == URL_UNIX ? u->path : NULL;
    if (t->options.socket_shown)
        snprintf(m->address, sizeof m->address, "%s", t->options.socket_shown);
    m->n_slots = SLOTS;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        t->owners.of[slot] = m;
    t->only = m;
    shard_open(m);
}

static shard_context context_of(topology *t)
{
    const topology_options *o = &t->options;

    return (shard_context){
        .store = o->store,
        .as = &o->secrets->as,
        .tls = o->url->tls ? &o->secrets->tls : NULL,
        .db = o->url->db,
        .fails_over = o->url->kind == URL_SENTINEL || o->url->kind == URL_CLUSTER,
        .waits_for_address = o->url->kind == URL_SENTINEL,
        .generation = o->url->kind == URL_SENTINEL ? generation : NULL,
        .route = route,
        .on_moved = on_moved,
        .on_change = on_shard_change,
        .on_listening = on_shard_listening,
        .on_fatal = on_shard_fatal,
        .on_lost = on_shard_lost,
        .arg = t,
    };
}

topology *topology_open(const topology_options *options)
{
    topology *t = memory_alloc(sizeof *t);
    const pipeline_options to_unrouted = {.loop = options->store->loop,
                                          .digest = options->store->library_digest,
                                          .in_flight_max = options->store->in_flight_max,
                                          .route = route,
                                          .arg = t};

    *t = (topology){.options = *options};
    fault_keep(&t->fault, STORE_FAULT(STORE_UNREACHABLE, "connecting"));
    t->context = context_of(t);
    TAILQ_INIT(&t->shards);
    t->meta_slot = slots_of(lks_rpc_slice_of(STORE_META_BASE));
    t->unrouted = pipeline_new(&to_unrouted);
    uv_timer_init(options->store->loop, &t->look);
    uv_idle_init(options->store->loop, &t->closing);
    t->look.data = t->closing.data = t;
    if (options->url->kind == URL_CLUSTER)
        open_scout(t);
    else
        open_only(t);
    if (options->url->kind == URL_SENTINEL)
        open_sentinels(t);
    return t;
}

void topology_reauth(topology *t)
{
    shard *m;

    TAILQ_FOREACH(m, &t->shards, in_all)
        shard_reauth(m);
}

static void on_closing(uv_idle_t *idle)
{
    topology *t = idle->data;

    while (!TAILQ_EMPTY(&t->shards))
        close_shard(t, TAILQ_FIRST(&t->shards));
    if (t->scout)
        scout_close(t->scout, &t->barrier);
    if (t->sentinels)
        sentinels_close(t->sentinels, &t->barrier);
    pipeline_close(t->unrouted, &t->barrier);
    close_barrier_handle(&t->barrier, &t->look);
    close_barrier_handle(&t->barrier, &t->closing);
    close_barrier_begin(&t->barrier, t, free, t->closed, t->closed_arg);
}

void topology_close(topology *t, void (*closed)(void *arg), void *arg)
{
    t->closed = closed;
    t->closed_arg = arg;
    set_state(t, CLOSING);
    uv_timer_stop(&t->look);
    uv_idle_start(&t->closing, on_closing);
}

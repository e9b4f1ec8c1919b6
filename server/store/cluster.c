/* Invariant: each slot's calls go to the primary that the newest known claim names: the one of the highest epoch by
 * CLUSTER NODES, or what MOVED said since. A call whose slot has no node yet waits in `limbo`, a pipeline without a link.
 *
 *   seeds --> scout --CLUSTER NODES--> owners of slots --> members, each a node
 *     ^         |                           ^    \--calls that are not out are routed anew
 *     \-- next address: lost, or a member   |
 *         is not ready                    MOVED
 *
 * The scout, a connection of its own, asks every second, five times a second while a member that has slots is not ready, and
 * then each time another node: one that was cut off from the others knows nothing new.
 *
 * ASK is not followed: a slot that moves is split between two nodes, and a function has to see all keys of its
 * group. The base, which a call declares as its key, is no key that exists; so from the moment at which a slot begins to
 * move its owner answers ASK to every call, the other node MOVED, and none runs until all has moved.
 *
 * The node that has {meta} is opened first: it tells whether the data layout fits. A member that lost its slots is kept until
 * its replies have had time to come. */
#include "store/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "store/errors.h"
#include "store/node.h"
#include "store/pipeline.h"
#include "store/scout.h"
#include "store/slots.h"
#include "store/view.h"

enum {
    LOOK_MS = 1000,
    LOOK_SOON_MS = 200,
    LOOKS_SOON_MAX = 50, /* in a row; then a second apart: a node may be gone for long */
    LEARN_MS = 20,       /* after MOVED, a lost connection */
    ALL_READY_MS = 2000, /* so long the first readiness waits for all primaries */
    LEAVE_MS = 1000,
    MOVE_LONG_MS = 2000,  /* a slot that moves for longer is told of */
    MOVE_OVER_MS = 10000, /* no call of it was put off for so long */
    MOVE_OTHER_MS = 1000,
    CHANNEL_BYTES = 192,
    REASON_BYTES = 256,
    TEXT_BYTES = 640,
};

typedef struct member {
    cluster *cluster;
    node *node; /* NULL: not opened yet */
    char id[SLOTS_ID_BYTES];
    char host[SLOTS_HOST_BYTES];
    uint16_t port;
    char channel[CHANNEL_BYTES];
    size_t n_slots;
    store_part part; /* while it has slots */
    bool ready;
    lks_reason reason; /* why not */
    char text[REASON_BYTES];
    uint64_t leaves_ms; /* uv_now; 0: it has slots */
    TAILQ_ENTRY(member) in_all;
} member;

/* A slot whose owner answered ASK: of several the one that was seen first. */
typedef struct moving_slot {
    uint16_t slot;
    uint64_t since_ms, last_ms; /* uv_now; 0: there is none */
} moving_slot;

struct cluster {
    cluster_options options;
    TAILQ_HEAD(, member) members;
    member *owner[SLOTS];
    uint64_t epoch[SLOTS]; /* of its claim */
    uint16_t meta_slot;

    scout *scout;
    unsigned looks_soon; /* in a row */
    bool doubts;         /* a node said CLUSTERDOWN: the one that the scout is at may be cut off as well */
    uv_timer_t look;

    pipeline *limbo;
    uv_idle_t closing;
    unsigned open; /* what is to be closed: members, scout, limbo, handles */

    moving_slot moving;

    bool layout_known;
    bool ready, was_ready, listened, ending;
    uint64_t first_ready_ms; /* uv_now, of any member; 0: none yet */
    lks_reason reason;       /* what is wrong */
    char text[TEXT_BYTES];

    void (*closed)(void *arg);
    void *closed_arg;
};

static void look_in(cluster *c, uint64_t ms);

/* ---- readiness ------------------------------------------------------------------- */

static bool moves_for_long(const moving_slot *m)
{
    return m->last_ms - m->since_ms >= MOVE_LONG_MS;
}

/* What is wrong: the first member that does not serve, of those that were tried, or not wholly; and how many do. Or a slot
 * that does not end its move. */
static lks_reason describe(cluster *c, size_t *n_ready, size_t *n_serving, char text[TEXT_BYTES])
{
    const member *m, *bad = NULL;

    *n_ready = *n_serving = 0;
    TAILQ_FOREACH(m, &c->members, in_all) {
        if (m->n_slots == 0)
            continue;
        ++*n_serving;
        *n_ready += m->ready;
        if (m->text[0] && (!bad || (!m->ready && (bad->ready || (m->node && !bad->node)))))
            bad = m;
    }
    text[0] = '\0';
    m = c->owner[c->moving.slot];
    if (!bad && m && moves_for_long(&c->moving))
        snprintf(text, TEXT_BYTES,
                 "slot %u of %s port %u has not ended its move to another node: its groups are not used",
                 (unsigned)c->moving.slot, m->host, (unsigned)m->port);
    if (bad)
        snprintf(text, TEXT_BYTES, "%zu of %zu primaries serve; %s port %u: %s", *n_ready, *n_serving, bad->host,
                 (unsigned)bad->port, bad->text);
    if (bad)
        return bad->reason;
    return text[0] ? LKS_REASON_STORE_SLOT_MOVING : LKS_REASON_NONE;
}

static store_fault fault_of(const cluster *c)
{
    return c->text[0] ? (store_fault){c->reason, c->text} : (store_fault){0};
}

static void tell(cluster *c, bool ready, store_fault fault)
{
    const store_options *to = c->options.store;

    if (to->on_ready)
        to->on_ready(to->arg, ready, fault);
}

static void tell_listening(cluster *c)
{
    const store_options *to = c->options.store;

    if (c->listened)
        to->on_listening(to->arg);
}

static void judge(cluster *c)
{
    char text[TEXT_BYTES];
    size_t n_ready, n_serving;
    uint64_t now = uv_now(c->options.store->loop);

    if (c->ending)
        return;
    lks_reason reason = describe(c, &n_ready, &n_serving, text);
    bool ready = n_ready > 0 && c->layout_known;
    if (ready && c->first_ready_ms == 0)
        c->first_ready_ms = now + 1;
    if (ready && !c->was_ready && n_ready < n_serving && now < c->first_ready_ms + ALL_READY_MS)
        return;
    if (ready == c->ready && (strcmp(text, c->text) == 0 || (!ready && text[0] == '\0')))
        return;
    bool became = ready && !c->ready;
    c->ready = ready;
    c->was_ready = c->was_ready || ready;
    if (text[0] != '\0' || ready) {
        c->reason = reason;
        strcpy(c->text, text);
    }
    if (became)
        tell(c, true, (store_fault){0});
    if (!became || text[0] != '\0')
        tell(c, ready, fault_of(c));
    if (became)
        tell_listening(c);
}

bool cluster_ready(const cluster *c, const char **reason)
{
    if (reason)
        *reason = fault_of(c).text;
    return c->ready;
}

void cluster_look(const cluster *c, store_view *ret)
{
    const member *m;

    *ret = (store_view){.version = "", .fsync = ""};
    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->node && m->n_slots > 0)
            view_add(ret, m->node);
    ret->cluster = true;
    ret->ready = c->ready;
    ret->fault = fault_of(c);
}

bool cluster_look_primary(const cluster *c, size_t i, store_primary *ret)
{
    const member *m;

    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->node && m->n_slots > 0 && i-- == 0) {
            node_look_primary(m->node, ret);
            return true;
        }
    return false;
}

/* ---- members ----------------------------------------------------------------------- */

static void open_members(cluster *c);
static void reroute(cluster *c);

static void on_member_ready(void *arg, bool ready, store_fault fault)
{
    member *m = arg;
    cluster *c = m->cluster;

    m->ready = ready;
    m->reason = fault.reason;
    snprintf(m->text, sizeof m->text, "%s", fault.text ? fault.text : "");
    if (c->ending)
        return;
    if (ready && c->owner[c->meta_slot] == m && !c->layout_known) {
        c->layout_known = true;
        open_members(c);
        reroute(c);
    }
    judge(c);
    if (!ready && m->n_slots > 0)
        look_in(c, LEARN_MS);
}

static void on_member_fatal(void *arg, store_fault fault)
{
    member *m = arg;
    cluster *c = m->cluster;

    if (!c->was_ready)
        c->options.on_fatal(c->options.arg, fault);
    else
        log_error("store-node-refused", "host=%s port=%u reason=\"%s\" reason_word=%s", m->host, (unsigned)m->port,
                  fault.text, lks_reason_name(fault.reason));
}

static void on_member_wake(void *arg, const char *data, size_t len)
{
    const member *m = arg;
    const store_options *to = m->cluster->options.store;

    to->on_wake(to->arg, data, len);
}

static void on_member_listening(void *arg)
{
    const member *m = arg;
    cluster *c = m->cluster;

    c->listened = true;
    if (c->ready)
        tell_listening(c);
}

static pipeline *pipeline_of(void *arg, uint16_t slot)
{
    const cluster *c = arg;
    const member *m = c->owner[slot];

    if (c->ending)
        return NULL;
    return m && m->node ? node_pipeline(m->node) : c->limbo;
}

static pipeline *route(void *arg, uint16_t slot)
{
    const member *m = arg;

    return pipeline_of(m->cluster, slot);
}

/* True: for so long that it is told of. */
static bool note_moving(cluster *c, uint16_t slot)
{
    uint64_t now = uv_now(c->options.store->loop);
    moving_slot *m = &c->moving;

    if (m->slot != slot && now - m->last_ms < MOVE_OTHER_MS)
        return false;
    if (m->slot != slot || m->since_ms == 0)
        *m = (moving_slot){.slot = slot, .since_ms = now};
    m->last_ms = now;
    judge(c);
    return moves_for_long(m);
}

static void forget_moving(cluster *c)
{
    if (uv_now(c->options.store->loop) - c->moving.last_ms > MOVE_OVER_MS)
        c->moving = (moving_slot){0};
}

/* The members' counts follow with the next look. */
static bool on_moved(void *arg, const char *text, size_t len)
{
    member *from = arg, *m;
    cluster *c = from->cluster;
    char host[SLOTS_HOST_BYTES];
    uint16_t slot, port;

    if (slots_read_ask(text, len, &slot))
        return note_moving(c, slot);
    if (!slots_read_moved(text, len, &slot, host, &port)) {
        c->doubts = true;
        look_in(c, LOOK_SOON_MS);
        return false;
    }
    look_in(c, LEARN_MS);
    TAILQ_FOREACH(m, &c->members, in_all) {
        if (m->port != port || strcmp(m->host, host[0] ? host : from->host) != 0 || !m->node)
            continue;
        c->owner[slot] = m;
        m->n_slots++;
        m->leaves_ms = 0;
    }
    return false;
}

static void open_node(member *m)
{
    const cluster *c = m->cluster;
    const store_options *from = c->options.store;
    node_options options = {
        .store = from,
        .as = c->options.as,
        .tls = c->options.tls,
        .host = m->host,
        .port = m->port,
        .id = m->id,
        .route = route,
        .on_moved = on_moved,
        .on_ready = on_member_ready,
        .on_fatal = on_member_fatal,
        .on_wake = on_member_wake,
        .on_listening = on_member_listening,
        .arg = m,
    };

    if (from->wake_channel) {
        snprintf(m->channel, sizeof m->channel, "%s:%s", from->wake_channel, m->id);
        options.wake_channel = m->channel;
    }
    m->node = node_open(&options);
    node_base(m->node, m->part.base);
}

static void open_members(cluster *c)
{
    member *m;

    TAILQ_FOREACH(m, &c->members, in_all) {
        if (m->node || m->n_slots == 0 || (!c->layout_known && c->owner[c->meta_slot] != m))
            continue;
        c->open++;
        open_node(m);
    }
}

static void count_closed(void *arg)
{
    cluster *c = arg;

    if (--c->open > 0)
        return;
    void (*closed)(void *closed_arg) = c->closed;
    void *closed_arg = c->closed_arg;
    free(c);
    closed(closed_arg);
}

static void on_member_closed(void *arg)
{
    member *m = arg;
    cluster *c = m->cluster;

    free(m);
    count_closed(c);
}

static void close_member(member *m)
{
    TAILQ_REMOVE(&m->cluster->members, m, in_all);
    if (m->node)
        node_close(m->node, on_member_closed, m);
    else
        free(m);
}

/* Those that lost their slots a while ago: what they still have not answered is asked elsewhere. */
static void dismiss(cluster *c)
{
    member *m, *next;

    for (m = TAILQ_FIRST(&c->members); m; m = next) {
        next = TAILQ_NEXT(m, in_all);
        if (m->leaves_ms == 0 || uv_now(c->options.store->loop) < m->leaves_ms)
            continue;
        close_member(m); /* its connection ends first, so its calls are routed anew */
    }
}

static member *find_member(cluster *c, const slots_node *seen)
{
    member *m;

    TAILQ_FOREACH(m, &c->members, in_all)
        if (strcmp(m->id, seen->id) == 0)
            return m;
    m = memory_alloc(sizeof *m);
    m->cluster = c;
    m->reason = LKS_REASON_STORE_UNREACHABLE;
    strcpy(m->text, "connecting");
    strcpy(m->id, seen->id);
    strcpy(m->host, seen->host);
    m->port = seen->port;
    TAILQ_INSERT_TAIL(&c->members, m, in_all);
    return m;
}

/* ---- the map ----------------------------------------------------------------------- */

/* Calls that are not out go to whoever has their slot now. */
static void reroute(cluster *c)
{
    member *m;

    pipeline_reroute(c->limbo);
    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->node)
            pipeline_reroute(node_pipeline(m->node));
}

/* What each member has, by the owners. */
static void count_slots(cluster *c)
{
    member *m;

    TAILQ_FOREACH(m, &c->members, in_all)
        m->n_slots = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        m = c->owner[slot];
        if (!m || m->n_slots++ > 0 || (m->part.base[0] != '\0' && m->part.slot == slot))
            continue;
        char tag[SLOTS_TAG_BYTES];
        slots_tag((uint16_t)slot, tag);
        m->part.slot = (uint16_t)slot;
        snprintf(m->part.base, sizeof m->part.base, "ls:{%s}:", tag);
        if (m->node)
            node_base(m->node, m->part.base);
    }
    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->n_slots > 0)
            m->leaves_ms = 0;
        else if (m->leaves_ms == 0)
            m->leaves_ms = uv_now(c->options.store->loop) + LEAVE_MS;
}

static void take_address(member *m, const slots_node *seen)
{
    if (m->port == seen->port && strcmp(m->host, seen->host) == 0)
        return;
    strcpy(m->host, seen->host);
    m->port = seen->port;
    if (m->node)
        node_move(m->node, m->host, m->port, STORE_FAULT(STORE_UNREACHABLE, "the node has another address"));
}

/* A claim that is older than the known one is of a node that has not heard of this one. */
static void take_map(void *arg, const slots_map *map)
{
    cluster *c = arg;
    bool changed = false;
    member **of = memory_alloc(map->n * sizeof(member *));

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint16_t place = map->owner[slot];
        if (place == SLOTS_NOBODY || map->node[place].host[0] == '\0' || map->node[place].epoch < c->epoch[slot])
            continue;
        if (!of[place])
            of[place] = find_member(c, &map->node[place]);
        changed = changed || c->owner[slot] != of[place];
        c->owner[slot] = of[place];
        c->epoch[slot] = map->node[place].epoch;
    }
    for (size_t i = 0; i < map->n; i++)
        if (of[i])
            take_address(of[i], &map->node[i]);
    free(of);
    count_slots(c);
    open_members(c);
    if (changed)
        reroute(c);
    judge(c);
}

bool cluster_part_from(const cluster *c, uint32_t from, store_part *ret)
{
    const member *m, *first = NULL;

    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->n_slots > 0 && m->part.slot >= from && (!first || m->part.slot < first->part.slot))
            first = m;
    if (first)
        *ret = first->part;
    return first;
}

/* ---- when the scout looks --------------------------------------------------------------------- */

static bool is_whole(const cluster *c)
{
    const member *m;

    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->n_slots > 0 && !m->ready)
            return false;
    return !TAILQ_EMPTY(&c->members);
}

/* Who is away for long may have been given up, and its slots be of a node with a lower epoch. */
static void forget_claims(cluster *c)
{
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (c->owner[slot] && !c->owner[slot]->ready)
            c->epoch[slot] = 0;
}

static void on_look(uv_timer_t *timer)
{
    cluster *c = timer->data;
    bool whole = is_whole(c);

    c->looks_soon = whole ? 0 : c->looks_soon + 1;
    if (c->looks_soon == LOOKS_SOON_MAX)
        memset(c->epoch, 0, sizeof c->epoch); /* the cluster may have been made anew */
    else if (c->looks_soon > LOOKS_SOON_MAX)
        forget_claims(c);
    look_in(c, whole || c->looks_soon > LOOKS_SOON_MAX ? LOOK_MS : LOOK_SOON_MS);
    dismiss(c);
    forget_moving(c);
    judge(c);
    scout_look(c->scout, c->doubts || (!whole && c->looks_soon > 1));
    c->doubts = false;
}

/* Unless it looks earlier. */
static void look_in(cluster *c, uint64_t ms)
{
    if (c->ending || (uv_is_active((uv_handle_t *)&c->look) && uv_timer_get_due_in(&c->look) <= ms))
        return;
    uv_timer_start(&c->look, on_look, ms, 0);
}

static void on_misfit(void *arg, store_fault fault)
{
    const cluster *c = arg;

    if (!c->was_ready)
        c->options.on_fatal(c->options.arg, fault);
}

static void on_scout_lost(void *arg, store_fault fault)
{
    cluster *c = arg;

    pipeline_down(c->limbo, fault);
    if (!c->was_ready && TAILQ_EMPTY(&c->members) && strcmp(c->text, fault.text) != 0) {
        c->reason = fault.reason;
        snprintf(c->text, sizeof c->text, "%s", fault.text);
        tell(c, false, fault_of(c));
    }
    look_in(c, LOOK_SOON_MS);
}

/* ---- beginning and end --------------------------------------------------------------- */

static void never_missing(void *arg)
{
    (void)arg;
}

static void never_useless(void *arg, store_fault fault)
{
    (void)arg;
    (void)fault;
}

void cluster_reauth(cluster *c)
{
    member *m;

    TAILQ_FOREACH(m, &c->members, in_all)
        if (m->node)
            node_reauth(m->node);
}

cluster *cluster_open(const cluster_options *options)
{
    cluster *c = memory_alloc(sizeof *c);
    const pipeline_options to_limbo = {
        .loop = options->store->loop,
        .digest = options->store->library_digest,
        .in_flight_max = options->store->in_flight_max,
        .on_missing = never_missing,
        .on_useless = never_useless,
        .route = pipeline_of,
        .arg = c,
    };

    const scout_options to_scout = {
        .loop = options->store->loop,
        .url = options->url,
        .as = options->as,
        .tls = options->tls,
        .connect_timeout_ms = options->store->connect_timeout_ms,
        .on_map = take_map,
        .on_misfit = on_misfit,
        .on_lost = on_scout_lost,
        .arg = c,
    };

    *c = (cluster){.options = *options, .reason = LKS_REASON_STORE_UNREACHABLE, .text = "connecting", .open = 4};
    TAILQ_INIT(&c->members);
    c->meta_slot = slots_of(lks_rpc_slice_of(STORE_META_BASE));
    c->limbo = pipeline_new(&to_limbo);
    uv_timer_init(options->store->loop, &c->look);
    uv_idle_init(options->store->loop, &c->closing);
    c->look.data = c->closing.data = c;
    c->scout = scout_open(&to_scout);
    look_in(c, LOOK_SOON_MS);
    return c;
}

void cluster_submit(cluster *c, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    pipeline_submit(c->limbo, call, deadline_ns, done, arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    count_closed(handle->data);
}

static void on_closing(uv_idle_t *idle)
{
    cluster *c = idle->data;
    member *m;

    uv_idle_stop(idle);
    while ((m = TAILQ_FIRST(&c->members)))
        close_member(m);
    scout_close(c->scout, count_closed, c);
    pipeline_end(c->limbo);
    pipeline_free(c->limbo, count_closed, c);
    uv_close((uv_handle_t *)&c->look, on_handle_closed);
    uv_close((uv_handle_t *)&c->closing, on_handle_closed);
}

void cluster_close(cluster *c, void (*closed)(void *arg), void *arg)
{
    c->closed = closed;
    c->closed_arg = arg;
    c->ending = true;
    uv_timer_stop(&c->look);
    uv_idle_start(&c->closing, on_closing);
}

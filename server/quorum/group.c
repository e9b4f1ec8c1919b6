/* Invariant: the calls of a group run in the order of their arrival, over the state of one version. They are answered
 * only after the ensemble has confirmed that version: it has replaced it, or checked that it is still the last one.
 *
 * If the outcome of a write is unknown, the next read decides: stored_write_of tells whether it was applied. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "functions/arguments.h"
#include "log.h"
#include "memory.h"
#include "quorum/list.h"
#include "quorum/nodes.h"
#include "quorum/paths.h"
#include "quorum/quorum_parts.h"
#include "slice.h"
#include "store/fcall.h"
#include "store/value.h"

enum {
    CALLS_AT_ONCE = 64,      /* of a group, in one write */
    FULL_BYTES = 512 * 1024, /* above this, only calls that free something run; a node may have 1 MiB */
    MANY_BYTES = 32 * 1024,  /* above this, records of spent tokens are kept for a shorter time */
    KEPT_GROUPS = 16384,     /* in memory; groups with calls, waiters or holders may exceed it */
    TOKEN_SPENT = 'X',
};
#define TOKEN_RETAIN_US INT64_C(600000000) /* as in functions/lock_names.lua */
#define SPENT_KEPT_US INT64_C(30000000)
#define DROP_EACH_US INT64_C(1000000)

#define WAKE_CHANNEL "ls:wake:"
#define EVERY_SERVER "all"

/* ---- the cache ------------------------------------------------------------------------- */

static void free_group(group *g)
{
    quorum *q = g->quorum;

    HASH_DELETE(hh, q->groups, g);
    HASH_DELETE(hh_by_path, q->by_path, g);
    TAILQ_REMOVE(&q->cache, g, in_cache);
    if (g->is_queued)
        TAILQ_REMOVE(&q->todo, g, in_todo);
    stored_free(&g->known);
    lks_rpc_arena_free(g->arena);
    free(g->path);
    free(g);
}

/* The state in the record of a token (functions/lock_names.lua has the layout); 0: the key is not such a record. */
static char token_state(const group *g, const keys_entry *key)
{
    static const char prefix[] = "lock:t:";
    const size_t head = g->base_len + strlen(prefix);
    lks_rpc_slice value;

    return key->type == KEYS_STRING && key->name.len > head &&
                   memcmp(key->name.data + g->base_len, prefix, strlen(prefix)) == 0 &&
                   keys_get(g->known.keys, key->name, &value) == KEYS_FOUND && value.len > 1
               ? value.data[1]
               : '\0';
}

/* Whether a token may hold something. */
static bool is_held(const group *g)
{
    keys *k = g->known.keys;

    keys_expire(k, group_clock_now(&g->clock, clock_now_ns()));
    for (size_t i = 0; i < keys_count(k); i++) {
        const char state = token_state(g, keys_at(k, i));
        if (state != '\0' && state != TOKEN_SPENT)
            return true;
    }
    return false;
}

/* A group with holders stays in memory: otherwise its time would be lost, and its leases would begin again each
 * time that it is read. */
static bool can_be_evicted(const group *g)
{
    return g->refs == 0 && TAILQ_EMPTY(&g->waiting) && TAILQ_EMPTY(&g->running) && !g->has_waiters &&
           (g->state == GROUP_STALE || g->state == GROUP_KNOWN) && !is_held(g);
}

static void evict_oldest(quorum *q)
{
    group *g = TAILQ_FIRST(&q->cache);

    if (HASH_COUNT(q->groups) <= KEPT_GROUPS)
        return;
    if (can_be_evicted(g)) {
        free_group(g);
    } else {
        TAILQ_REMOVE(&q->cache, g, in_cache);
        TAILQ_INSERT_TAIL(&q->cache, g, in_cache);
    }
}

lks_rpc_slice group_base(const group *g)
{
    return (lks_rpc_slice){g->base, g->base_len};
}

group *group_find(quorum *q, lks_rpc_slice base)
{
    group *g;

    HASH_FIND(hh, q->groups, base.data, base.len, g);
    if (g) {
        TAILQ_REMOVE(&q->cache, g, in_cache);
    } else {
        evict_oldest(q);
        g = memory_alloc(sizeof *g + base.len + 1);
        g->quorum = q;
        g->version = -1;
        g->heard = UINT64_MAX;
        g->arena = memory_arena();
        g->path = paths_of_group(base);
        stored_init(&g->known);
        TAILQ_INIT(&g->waiting);
        TAILQ_INIT(&g->running);
        TAILQ_INIT(&g->own);
        g->base_len = base.len;
        memcpy(g->base, base.data, base.len);
        HASH_ADD_KEYPTR(hh, q->groups, g->base, g->base_len, g);
        HASH_ADD_KEYPTR(hh_by_path, q->by_path, g->path, strlen(g->path), g);
    }
    TAILQ_INSERT_TAIL(&q->cache, g, in_cache);
    return g;
}

void group_free_all(quorum *q)
{
    group *g, *next;

    HASH_ITER(hh, q->groups, g, next)
    {
        free_group(g);
    }
}

/* ---- messages -------------------------------------------------------------------------- */

static void deliver(const group *g, const stored_message *m)
{
    const quorum_options *options = &g->quorum->options;

    options->on_wake(options->arg, m->text, m->len);
}

static void deliver_own(group *g)
{
    const stored_message *m;

    TAILQ_FOREACH(m, &g->own, in_all)
        deliver(g, m);
    TAILQ_INIT(&g->own);
}

/* Delivers the messages of other servers after a read. */
static void deliver_read(group *g)
{
    const quorum_options *options = &g->quorum->options;
    const stored_message *m, *first = TAILQ_FIRST(&g->known.messages);
    const uint64_t heard = g->heard;
    const bool missed = g->known.sent > heard && (!first || first->number > heard + 1);

    g->heard = g->known.sent;
    TAILQ_FOREACH(m, &g->known.messages, in_all)
        if (m->number > heard && strcmp(m->server, options->server) == 0)
            deliver(g, m);
    if (missed)
        options->on_listening(options->arg);
}

static bool has_prefix(lks_rpc_slice text, const char *prefix)
{
    return text.len >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

/* The server that a channel wakes; len 0: it is not such a channel. */
static lks_rpc_slice server_of(lks_rpc_slice channel)
{
    const size_t len = strlen(WAKE_CHANNEL);

    return has_prefix(channel, WAKE_CHANNEL) ? (lks_rpc_slice){channel.data + len, channel.len - len}
                                             : (lks_rpc_slice){.data = ""};
}

static bool is_subscribed(void *arg, lks_rpc_slice channel)
{
    const group *g = arg;
    const lks_rpc_slice server = server_of(channel);

    return slice_is(server, g->quorum->options.server) || nodes_server_is_alive(g->quorum->nodes, server);
}

static void keep_for_this_server(group *g, lks_rpc_slice text)
{
    stored_message *m = memory_in(g->arena, sizeof *m);

    m->text = memory_copy_in(g->arena, text.data, text.len);
    m->len = text.len;
    TAILQ_INSERT_TAIL(&g->own, m, in_all);
}

/* Only a ForceRelease publishes to all servers: write.c and nodes.c pass that on. */
static int64_t publish(void *arg, lks_rpc_slice channel, lks_rpc_slice text)
{
    group *g = arg;
    const lks_rpc_slice server = server_of(channel);

    if (slice_is(server, EVERY_SERVER)) {
        g->removes_holders = true;
        return 1;
    }
    if (slice_is(server, g->quorum->options.server)) {
        keep_for_this_server(g, text);
        return 1;
    }
    if (!nodes_server_is_alive(g->quorum->nodes, server))
        return 0;
    stored_send(&g->known, server, text, g->known.time_us);
    return 1;
}

/* ---- reading --------------------------------------------------------------------------- */

static void requeue_running(group *g)
{
    pending *p;

    while ((p = TAILQ_LAST(&g->running, pending_list))) {
        TAILQ_REMOVE(&g->running, p, in_list);
        p->reply = NULL;
        if (p->done)
            TAILQ_INSERT_HEAD(&g->waiting, p, in_list);
        else
            quorum_drop(p);
    }
    TAILQ_INIT(&g->own);
}

/* The result of a call: the reply of the function, or an error that refused the call before it ran, as when the group
 * is full. */
static store_result result_of(const pending *p)
{
    const lks_rpc_slice text = p->reply->string;

    if (p->reply->type != STORE_ERROR)
        return fcall_result(p->reply, p->call->function);
    const errors_row *row = errors_find(text.data, text.len);
    if (row->code == LKS_INTERNAL)
        return fcall_result(p->reply, p->call->function);
    return (store_result){.code = row->code,
                          .applied = row->applied,
                          .retry_after_ms = row->retry_after_ms,
                          .reason = row->reason,
                          .message = "the group is full: its locks take more than 512 KiB in the lock store"};
}

static void answer_calls(group *g)
{
    pending *p;

    while ((p = TAILQ_FIRST(&g->running))) {
        TAILQ_REMOVE(&g->running, p, in_list);
        if (!p->done) { /* it ended at its deadline, and its call was freed */
            quorum_drop(p);
            continue;
        }
        const store_result result = result_of(p);
        quorum_end(p, &result);
    }
}

/* Sets whether this server parks calls for the group: then the hash of a queue has a field "@<server>". */
static void look_for_waiters(group *g)
{
    const keys *k = g->known.keys;
    lks_rpc_slice value;
    char field[LKS_RPC_RANDOM_ID_LEN + 2];

    snprintf(field, sizeof field, "@%s", g->quorum->options.server);
    g->has_waiters = false;
    for (size_t i = 0; i < keys_count(k) && !g->has_waiters; i++)
        g->has_waiters = keys_at(k, i)->type == KEYS_HASH &&
                         keys_field(k, keys_at(k, i)->name, lks_rpc_slice_of(field), &value) == KEYS_FOUND;
}

static void watch(group *g);

/* The group is KNOWN again: sets a watch if it needs one, and runs waiting calls. */
static void settle(group *g)
{
    look_for_waiters(g);
    if (g->has_waiters && !g->watches)
        watch(g);
    if (!TAILQ_EMPTY(&g->waiting))
        quorum_queue_group(g);
}

static void become_stale(group *g)
{
    g->state = GROUP_STALE;
    if (!TAILQ_EMPTY(&g->waiting) || !TAILQ_EMPTY(&g->running) || g->has_waiters)
        quorum_queue_group(g);
}

/* Begins a new group. Its fences must be above those of an earlier group with that name, and comparable with those of
 * Redis. */
static void begin_group(group *g, uint64_t now_ns)
{
    const int64_t floor_us = nodes_floor_us(g->quorum->nodes), now_us = (int64_t)(clock_unix_ns() / 1000);
    const int64_t known_us = g->clock.at_ns ? group_clock_now(&g->clock, now_ns) : 0;
    const int64_t time_us = now_us > floor_us ? now_us : floor_us + 1;

    stored_clear(&g->known);
    g->version = -1;
    g->clock = (group_clock){.time_us = time_us > known_us ? time_us : known_us, .at_ns = now_ns};
    g->heard = 0;
}

/* After a read: decides whether the write in doubt was applied. */
static void settle_doubt(group *g)
{
    const uint64_t last = stored_write_of(&g->known, g->quorum->options.server);
    const bool applied = g->in_doubt && last == g->write;

    g->in_doubt = false;
    g->write = last > g->write ? last : g->write; /* this server may have evicted the group since that write */
    if (applied) {
        answer_calls(g);
        deliver_own(g);
    } else {
        requeue_running(g);
    }
}

/* Whether this server has read the last write before, or made it itself. */
static bool was_seen(const group *g, int32_t version)
{
    const stored_group *s = &g->known;

    return (version == g->version && s->time_us == g->version_us) ||
           (s->n_writers > 0 && s->writers[0].write == g->write &&
            strcmp(s->writers[0].server, g->quorum->options.server) == 0);
}

static void take_read(group *g, zk_code code, const char *data, size_t len, int32_t version)
{
    const uint64_t now_ns = clock_now_ns();

    if (code == ZK_OK && !stored_unpack(&g->known, data, len)) {
        g->state = GROUP_STALE;
        log_error("lock-store-foreign-data", "shard=%.*s", (int)SHARD_PATH_BYTES - 1, g->path);
        group_refuse(g, STORE_FAULT(FOREIGN_DATA, "the lock store holds foreign data under this name"));
        return;
    }
    if (code == ZK_OK) {
        if (!was_seen(g, version))
            group_clock_see(&g->clock, g->known.time_us, now_ns);
        g->version = version;
        g->version_us = g->known.time_us;
    } else if (code == ZK_NO_NODE) {
        begin_group(g, now_ns);
    } else if (quorum_refusal(code)) {
        group_refuse(g, *quorum_refusal(code));
        return;
    } else {
        become_stale(g);
        return;
    }
    g->state = GROUP_KNOWN;
    g->floor_version = nodes_floor_version(g->quorum->nodes); /* the floor was read before this answer */
    g->was_stale = false;
    settle_doubt(g);
    deliver_read(g);
    settle(g);
}

static void on_read(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    group *g = arg;

    take_read(g, code, data, len, version);
    g->refs--;
}

static void read_group(group *g)
{
    g->state = GROUP_READING;
    g->refs++;
    (g->was_stale ? zk_sync_get : zk_get)(g->quorum->zookeeper, g->path, on_read, g);
}

/* ---- watching -------------------------------------------------------------------------- */

static void on_watched(void *arg, zk_code code, int32_t version)
{
    group *g = arg;

    g->refs--;
    if (code != ZK_OK && code != ZK_NO_NODE)
        g->watches = false;
    else if (g->state == GROUP_KNOWN && g->version != (code == ZK_OK ? version : -1))
        become_stale(g);
}

/* Sets a watch that reports the next write by any server. */
static void watch(group *g)
{
    g->watches = true;
    g->refs++;
    zk_watch(g->quorum->zookeeper, g->path, on_watched, g);
}

group *group_of_path(const quorum *q, const char *path)
{
    group *g;

    HASH_FIND(hh_by_path, q->by_path, path, strlen(path), g);
    return g;
}

void group_watch_fired(quorum *q, const char *path)
{
    group *g = group_of_path(q, path);

    if (!g)
        return;
    g->watches = false;
    if (g->state == GROUP_KNOWN)
        become_stale(g); /* while WRITING, the outcome of the write decides */
}

void group_lost_watches(quorum *q)
{
    group *g, *next;

    HASH_ITER(hh, q->groups, g, next)
    {
        g->watches = false;
        if (g->state == GROUP_KNOWN && g->has_waiters)
            become_stale(g);
    }
}

/* ---- running --------------------------------------------------------------------------- */

/* Whether the token is spent, and its record was kept for at least SPENT_KEPT_US since then. */
static bool is_spent(const group *g, const keys_entry *key, int64_t now_us)
{
    return key->end_us < now_us + TOKEN_RETAIN_US - SPENT_KEPT_US && token_state(g, key) == TOKEN_SPENT;
}

/* Each write replaces the whole group, so a large group keeps records of spent tokens for a shorter time. */
static void drop_spent(group *g, int64_t now_us)
{
    keys *k = g->known.keys;

    if (keys_bytes(k) <= MANY_BYTES || now_us < g->dropped_us + DROP_EACH_US)
        return;
    g->dropped_us = now_us;
    for (size_t i = keys_count(k); i-- > 0;)
        if (is_spent(g, keys_at(k, i), now_us))
            keys_delete(k, keys_at(k, i)->name);
}

/* Whether an answer reports that a lease runs, or has ended. Another server, whose time of the group is behind or
 * ahead, must not contradict it later: so the time is written, even if the keys do not change. */
static bool reports_lease(const store_value *reply)
{
    static const char *const words[] = {"ACQUIRED", "NOT_HELD", "LOST", "TOKEN_SPENT", "ENTERED", "LEFT"};
    const store_value *first = reply->type == STORE_ARRAY && reply->n > 0 ? &reply->element[0] : reply;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (value_is(first, words[i]))
            return true;
    return false;
}

static bool any_reports_lease(const group *g)
{
    const pending *p;

    TAILQ_FOREACH(p, &g->running, in_list)
        if (reports_lease(p->reply))
            return true;
    return false;
}

/* Whether the function failed when it may have written a part of its changes. */
static bool is_partial(const store_value *reply)
{
    if (reply->type == STORE_ERROR)
        return errors_find(reply->string.data, reply->string.len)->applied != LKS_APPLIED_NO;
    return reply->type == STORE_ARRAY && reply->n > 2 && value_is(&reply->element[0], "ERR") &&
           value_is(&reply->element[2], "MAYBE");
}

/* Stops at the first call whose function failed so, and returns that call; NULL: none failed. */
static pending *run_calls(group *g, const functions_hooks *hooks, int64_t now_us)
{
    pending *p;

    for (size_t n = 0; n < CALLS_AT_ONCE && (p = TAILQ_FIRST(&g->waiting)); n++) {
        TAILQ_REMOVE(&g->waiting, p, in_list);
        TAILQ_INSERT_TAIL(&g->running, p, in_list);
        p->reply = functions_run(g->quorum->functions, g->known.keys, hooks, now_us, p->call,
                                 keys_bytes(g->known.keys) > FULL_BYTES, g->arena);
        if (is_partial(p->reply))
            return p;
    }
    return NULL;
}

/* Writes nothing of this run: the failed call ends with its error, the others run again. */
static void discard_run(group *g, pending *failed)
{
    store_result result = fcall_result(failed->reply, failed->call->function);

    result.applied = LKS_APPLIED_NO;
    TAILQ_REMOVE(&g->running, failed, in_list);
    requeue_running(g);
    become_stale(g);
    quorum_end(failed, &result);
}

static void run(group *g)
{
    const functions_hooks hooks = {.publish = publish, .is_subscribed = is_subscribed, .arg = g};
    const int64_t now_us = group_clock_now(&g->clock, clock_now_ns());

    lks_rpc_arena_reset(g->arena);
    g->data = (lks_rpc_slice){0};
    g->removes_holders = false;
    g->known.time_us = now_us;
    drop_spent(g, now_us);
    const uint64_t changes = keys_changes(g->known.keys), sent = g->known.sent;
    pending *failed = run_calls(g, &hooks, now_us);
    if (failed) {
        discard_run(g, failed);
        return;
    }
    if (keys_changes(g->known.keys) != changes || g->known.sent != sent || (g->version >= 0 && any_reports_lease(g))) {
        stored_note_write(&g->known, g->quorum->options.server, ++g->write);
        g->data = stored_pack(&g->known, g->arena);
    }
    g->state = GROUP_WRITING;
    write_add(g);
}

static void begin_lists(group *g)
{
    pending *p, *next;

    for (p = TAILQ_FIRST(&g->waiting); p; p = next) {
        next = TAILQ_NEXT(p, in_list);
        if (strcmp(p->call->function, fn_lock_list.name) != 0)
            continue;
        TAILQ_REMOVE(&g->waiting, p, in_list);
        list_begin(g->quorum, p->call, p->deadline_ns, p->done, p->arg);
        quorum_drop(p);
    }
}

void group_step(group *g)
{
    begin_lists(g);
    if (TAILQ_EMPTY(&g->waiting) && TAILQ_EMPTY(&g->running) && !g->has_waiters)
        return;
    if (g->state == GROUP_KNOWN && g->floor_version != nodes_floor_version(g->quorum->nodes))
        g->state = GROUP_STALE;
    if (g->state == GROUP_STALE)
        read_group(g);
    else if (g->state == GROUP_KNOWN && !TAILQ_EMPTY(&g->waiting))
        run(g);
}

void group_written(group *g, int32_t version)
{
    g->state = GROUP_KNOWN;
    g->quorum->counts.written++;
    if (g->data.data) {
        g->version = version;
        g->version_us = g->known.time_us;
        g->heard = g->known.sent;
    }
    answer_calls(g);
    deliver_own(g);
    settle(g);
}

void group_not_written(group *g, bool in_doubt)
{
    pending *p;

    g->was_stale = true;
    if (in_doubt && g->data.data) {
        g->in_doubt = true;
        TAILQ_FOREACH(p, &g->running, in_list)
            p->in_doubt = true;
    } else {
        requeue_running(g);
    }
    become_stale(g);
}

static void end_calls(group *g, lks_code code, store_fault fault)
{
    pending *p;

    requeue_running(g);
    while ((p = TAILQ_FIRST(&g->waiting))) {
        TAILQ_REMOVE(&g->waiting, p, in_list);
        quorum_fail(p, code, fault);
    }
}

void group_refuse(group *g, store_fault fault)
{
    g->state = GROUP_STALE;
    end_calls(g, fault.reason == LKS_REASON_FOREIGN_DATA ? LKS_FAILED_PRECONDITION : LKS_UNAVAILABLE, fault);
}

/* Called when the server stops and all requests have ended. */
void group_end_all_calls(quorum *q)
{
    group *g, *next;

    HASH_ITER(hh, q->groups, g, next)
    {
        end_calls(g, LKS_UNAVAILABLE, fault_of(&q->fault));
    }
}

static void end_calls_at(quorum *q, const pending_list *calls, uint64_t at_ns)
{
    pending *p;

    TAILQ_FOREACH(p, calls, in_list)
        if (p->done)
            loop_timers_set(&q->timers, &p->timer, at_ns < p->deadline_ns ? at_ns : p->deadline_ns);
}

void group_end_calls_at(quorum *q, uint64_t at_ns)
{
    group *g, *next;

    HASH_ITER(hh, q->groups, g, next)
    {
        end_calls_at(q, &g->waiting, at_ns);
        end_calls_at(q, &g->running, at_ns);
    }
}

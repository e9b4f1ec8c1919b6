#include "quorum/quorum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/container.h"
#include "memory.h"
#include "quorum/nodes.h"
#include "quorum/paths.h"
#include "quorum/quorum_parts.h"
#include "quorum/sweep_groups.h"
#include "slice.h"

enum { GRACE_MS = 1000, AGAIN_MS = 500, OWN_TIMERS = 2 /* of nodes.c and sweep_groups.c */ };

/* ---- the URL --------------------------------------------------------------------------- */

static bool is_reserved(const char *path)
{
    static const char own[] = "/zookeeper";
    const size_t len = sizeof own - 1;

    return strncmp(path, own, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Sets the options of the client from zookeeper://[user:password@]hosts/path. Their texts belong to the URL and to
 * *ret, which the caller frees. */
static lks_code read_url(const char *url, const char *from, char **ret, zk_options *zk, lks_error *error)
{
    const char *begin = url_after(url, "zookeeper://"), *path = begin ? strchr(begin, '/') : NULL;
    lks_error why;

    if (!path || path[1] == '\0' || is_reserved(path))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "%s: must be zookeeper://[user:password@]host:port,host:port/path, with a path other than "
                             "ZooKeeper's own (/zookeeper)",
                             from);
    *ret = memory_copy(begin, (size_t)(path - begin));
    char *login_end = strrchr(*ret, '@');
    if (login_end)
        *login_end = '\0';
    zk->credentials = login_end ? *ret : NULL;
    zk->hosts = login_end ? login_end + 1 : *ret;
    zk->root = path;
    if (zk_check(zk, &why) == LKS_OK)
        return LKS_OK;
    free(*ret);
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", from, why.message);
}

lks_code quorum_check(const char *url, const char *from, char *const *namespaces, size_t n, lks_error *error)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-";
    zk_options zk = {0};
    char *texts;

    if (read_url(url, from, &texts, &zk, error) != LKS_OK)
        return LKS_INVALID_ARGUMENT;
    free(texts);
    for (size_t i = 0; i < n; i++)
        if (namespaces[i][strspn(namespaces[i], plain)] != '\0')
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "--lock-store-namespaces %s: may have letters, digits, and . _ ~ - only",
                                 namespaces[i]);
    return LKS_OK;
}

const store_fault *quorum_refusal(zk_code code)
{
    static const store_fault denied = STORE_FAULT(STORE_PERMISSION_DENIED, "the lock store denies access to its nodes");
    static const store_fault refused =
        STORE_FAULT(STORE_MISFIT, "the lock store refuses writes: the ensemble is read-only, or the path has a quota");

    return code == ZK_NO_AUTH ? &denied : code == ZK_REFUSED ? &refused : NULL;
}

/* ---- ends ------------------------------------------------------------------------------ */

void quorum_drop(pending *p)
{
    quorum *q = p->group->quorum;

    heap_clear(&q->timers.heap, &p->timer);
    q->n_pending--;
    free(p);
}

void quorum_end(pending *p, const store_result *result)
{
    store_done *done = p->done;
    void *arg = p->arg;

    quorum_drop(p);
    if (done)
        done(arg, result);
}

static store_result failure(lks_code code, bool in_doubt, store_fault fault)
{
    return (store_result){.code = code,
                          .applied = in_doubt ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO,
                          .retry_after_ms = code == LKS_UNAVAILABLE ? AGAIN_MS : 0,
                          .reason = fault.reason,
                          .message = fault.text};
}

void quorum_fail(pending *p, lks_code code, store_fault fault)
{
    const store_result result = failure(code, p->in_doubt, fault);

    quorum_end(p, &result);
}

/* Runs at the deadline, or when the ensemble was not ready for GRACE_MS. A call that is being written is answered now;
 * its effect may follow. */
static void on_due(struct timer *timer)
{
    pending *p = container_of(timer, pending, timer);
    quorum *q = p->group->quorum;
    const bool late = clock_now_ns() >= p->deadline_ns;
    const lks_code code = late ? LKS_DEADLINE_EXCEEDED : LKS_UNAVAILABLE;
    const store_fault fault =
        late ? STORE_FAULT(NONE, "the deadline passed while the lock store was working") : fault_of(&q->fault);

    if (!late && q->state == QUORUM_READY) {
        loop_timers_set(&q->timers, &p->timer, p->deadline_ns);
    } else if (p->reply) {
        const store_result result = failure(code, true, fault);
        store_done *done = p->done;
        p->done = NULL;
        done(p->arg, &result);
    } else {
        TAILQ_REMOVE(&p->group->waiting, p, in_list);
        quorum_fail(p, code, fault);
    }
}

/* ---- states ---------------------------------------------------------------------------- */

void quorum_set_state(quorum *q, quorum_state to, store_fault fault)
{
    const bool changed = q->state != to, was_ready = q->state == QUORUM_READY,
               fault_changed = fault_keep(&q->fault, fault);
    const quorum_options *options = &q->options;

    q->state = to;
    /* PREPARING is short, unless a step fails: then it has another fault. */
    if ((changed || fault_changed) && to != QUORUM_CLOSED && fault.reason != LKS_REASON_STORE_LOADING)
        options->on_ready(options->arg, to == QUORUM_READY, fault_of(&q->fault));
    if (changed && was_ready)
        group_end_calls_at(q, clock_in_ms(GRACE_MS));
    if (!changed || to != QUORUM_READY)
        return;
    group_lost_watches(q); /* groups may have changed while it was not connected */
    options->on_listening(options->arg);
    quorum_run_later(q);
}

static void on_state(void *arg, const char *reason)
{
    quorum *q = arg;

    if (reason)
        quorum_set_state(q, QUORUM_DOWN, STORE_FAULT(STORE_UNREACHABLE, reason));
    else
        nodes_connected(q->nodes);
}

static void on_session(void *arg)
{
    quorum *q = arg;

    nodes_session(q->nodes);
}

static void on_watch(void *arg, const char *path)
{
    quorum *q = arg;

    if (!nodes_watch_fired(q->nodes, path))
        group_watch_fired(q, path);
}

bool quorum_is_ready(const void *lock_store)
{
    return ((const quorum *)lock_store)->state == QUORUM_READY;
}

void quorum_look(const quorum *q, quorum_view *ret)
{
    *ret = q->counts;
    ret->ready = quorum_is_ready(q);
    ret->ensemble = zk_root_id(q->zookeeper);
}

/* ---- calls ----------------------------------------------------------------------------- */

void quorum_queue_group(group *g)
{
    quorum *q = g->quorum;

    if (!g->is_queued)
        TAILQ_INSERT_TAIL(&q->todo, g, in_todo);
    g->is_queued = true;
    quorum_run_later(q);
}

static void on_turn(uv_idle_t *turn)
{
    quorum *q = turn->data;
    group *g;

    uv_idle_stop(turn);
    while (q->state == QUORUM_READY && nodes_are_listed(q->nodes) && (g = TAILQ_FIRST(&q->todo))) {
        if (!write_has_room(q))
            write_flush(q);
        if (!write_has_room(q))
            break; /* WRITES_MAX requests are pending: the end of each one continues here */
        TAILQ_REMOVE(&q->todo, g, in_todo);
        g->is_queued = false;
        group_step(g);
    }
    write_flush(q);
}

void quorum_run_later(quorum *q)
{
    if (q->state == QUORUM_READY && !TAILQ_EMPTY(&q->todo))
        uv_idle_start(&q->turn, on_turn);
}

static bool has_namespace(const quorum *q, lks_rpc_slice ns)
{
    for (size_t i = 0; i < q->options.n_namespaces; i++)
        if (slice_is(ns, q->options.namespaces[i]))
            return true;
    return q->options.n_namespaces == 0;
}

uint32_t quorum_slack_ms(void *lock_store, lks_rpc_slice ns)
{
    return has_namespace(lock_store, ns) ? GROUP_CLOCK_SLACK_MS : 0;
}

static bool has_call(void *lock_store, const store_call *call)
{
    return quorum_is_of_locks(call) && has_namespace(lock_store, paths_namespace(call->base));
}

void quorum_submit(void *lock_store, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    quorum *q = lock_store;
    pending *p = memory_alloc(sizeof *p);
    const uint64_t grace_ns = clock_in_ms(GRACE_MS);

    *p = (pending){
        .group = group_find(q, call->base), .call = call, .done = done, .arg = arg, .deadline_ns = deadline_ns};
    p->timer.due = on_due;
    q->n_pending++;
    memory_reserve_timers(&q->timers.heap, q->n_pending + OWN_TIMERS);
    TAILQ_INSERT_TAIL(&p->group->waiting, p, in_list);
    loop_timers_set(&q->timers, &p->timer, q->state == QUORUM_READY || deadline_ns < grace_ns ? deadline_ns : grace_ns);
    quorum_queue_group(p->group);
}

store_other quorum_as_store(quorum *q)
{
    return (store_other){.has = has_call, .submit = quorum_submit, .arg = q};
}

/* ---- opening and closing --------------------------------------------------------------- */

lks_code quorum_open(const quorum_options *options, quorum **ret, lks_error *error)
{
    quorum *q = memory_alloc(sizeof *q);
    char *texts;

    *q = (quorum){.options = *options};
    zk_options zk = {.loop = options->loop,
                     .events = {.state = on_state, .session = on_session, .watch = on_watch, .arg = q}};

    lks_code code = read_url(options->url, options->url_from, &texts, &zk, error);
    if (code == LKS_OK) {
        code =
            functions_open(options->library_text, options->library_len, options->library_digest, &q->functions, error);
        q->zookeeper = code == LKS_OK ? zk_open(&zk) : NULL;
        free(texts);
    }
    if (code != LKS_OK) {
        free(q);
        return code;
    }
    TAILQ_INIT(&q->todo);
    TAILQ_INIT(&q->cache);
    fault_keep(&q->fault, STORE_FAULT(STORE_UNREACHABLE, "the lock store is not connected yet"));
    loop_timers_init(&q->timers, options->loop, q);
    memory_reserve_timers(&q->timers.heap, OWN_TIMERS);
    uv_idle_init(options->loop, &q->turn);
    q->turn.data = q;
    q->nodes = nodes_new(q);
    q->sweep = group_sweep_new(q);
    *ret = q;
    return LKS_OK;
}

static void release(void *owner)
{
    quorum *q = owner;

    write_drop(q);
    group_free_all(q);
    nodes_free(q->nodes);
    group_sweep_free(q->sweep);
    functions_close(q->functions);
    heap_free(&q->timers.heap);
    free(q);
}

/* All requests have ended. */
static void on_zookeeper_closed(void *arg)
{
    quorum *q = arg;

    group_end_all_calls(q);
    close_barrier_handle(&q->barrier, &q->timers.uv);
    close_barrier_handle(&q->barrier, &q->turn);
    close_barrier_begin(&q->barrier, q, release, q->closed, q->closed_arg);
}

void quorum_close(quorum *q, void (*closed)(void *arg), void *arg)
{
    quorum_set_state(q, QUORUM_CLOSED, STORE_FAULT(SHUTTING_DOWN, "the server is shutting down"));
    q->closed = closed;
    q->closed_arg = arg;
    zk_close(q->zookeeper, on_zookeeper_closed, q);
}

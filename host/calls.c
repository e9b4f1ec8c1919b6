/* The sink: calls arrive, wait, are stopped, and end. Runs on the loop thread, except for what running.h marks. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/guard.h>

#include "running.h"

enum {
    SMALL_SHARE = 32, /* calls that a connection may have, whatever the others have */
    RETRY_AFTER_MS = 100,
    ARENAS_SPARE = 16, /* beside one a thread: of calls that are being answered */
    CALL_BYTES = 4096, /* what an ordinary call takes: bounded by how many there may be */
};

/* ---- for the other threads --------------------------------------------------------------- */

/* Puts the caller into the round, or takes it out. */
static void put_into_round(caller *c)
{
    bool wanted = !TAILQ_EMPTY(&c->granted) || (!c->held && !TAILQ_EMPTY(&c->queued));

    if (wanted && !c->in_round)
        TAILQ_INSERT_TAIL(&c->all->round, c, round);
    else if (!wanted && c->in_round)
        TAILQ_REMOVE(&c->all->round, c, round);
    c->in_round = wanted;
}

/* NULL: a call in that state is in no queue. */
static running_list *queue_of(const struct running *r)
{
    return r->state == QUEUED ? &r->caller->queued : r->state == GRANTED ? &r->caller->granted : NULL;
}

void move(struct running *r, state to)
{
    running_list *from = queue_of(r);

    if (from)
        TAILQ_REMOVE(from, r, in_queue);
    r->state = to;
    running_list *into = queue_of(r);
    if (into)
        TAILQ_INSERT_TAIL(into, r, in_queue);
    if (into)
        pthread_cond_signal(&r->all->work);
    if (from || into)
        put_into_round(r->caller);
}

void refuse_stopped(struct running *r)
{
    if (atomic_load(&r->stopped) == LKS_CANCELLED)
        lks_error_set(&r->error, LKS_CANCELLED, LKS_APPLIED_NO, "the caller is gone");
    else
        lks_error_set_reason(&r->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN,
                             "the server is shutting down");
}

void finish(struct running *r)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    move(r, OVER);
    TAILQ_INSERT_TAIL(&all->finished, r, in_queue);
    uv_async_send(&all->wake);
    pthread_mutex_unlock(&all->lock);
}

void give_arena(calls *all, lks_rpc_arena *arena)
{
    if (!arena)
        return;
    lks_rpc_arena_reset(arena);
    pthread_mutex_lock(&all->lock);
    bool kept = all->n_arenas < all->arenas_max;
    if (kept)
        all->arenas[all->n_arenas++] = arena;
    pthread_mutex_unlock(&all->lock);
    if (!kept)
        lks_rpc_arena_free(arena);
}

/* ---- callers -------------------------------------------------------------------------- */

static caller *on_open(void *arg, const sink_connection *connection)
{
    caller *c = malloc(sizeof *c);

    if (!c)
        return NULL;
    *c = (caller){.all = arg, .bytes = connection->bytes, .on_room = connection->on_room, .arg = connection->arg};
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->queued);
    TAILQ_INIT(&c->granted);
    TAILQ_INSERT_TAIL(&c->all->callers, c, next);
    return c;
}

static void unpin(caller *c)
{
    if (--c->pins > 0 || !c->lost || !TAILQ_EMPTY(&c->calls))
        return;
    TAILQ_REMOVE(&c->all->callers, c, next);
    free(c);
}

static void on_hold(caller *c, bool held)
{
    if (c->held == held)
        return;
    pthread_mutex_lock(&c->all->lock);
    c->held = held;
    put_into_round(c);
    pthread_mutex_unlock(&c->all->lock);
    pthread_cond_broadcast(&c->all->work);
}

static bool on_queues(const caller *c)
{
    return c->n_calls > c->all->options.in_flight_per_connection;
}

/* ---- calls ---------------------------------------------------------------------------- */

static void enqueue(struct running *r)
{
    pthread_mutex_lock(&r->all->lock);
    TAILQ_INSERT_TAIL(&r->caller->queued, r, in_queue); /* it is QUEUED from the beginning */
    put_into_round(r->caller);
    pthread_mutex_unlock(&r->all->lock);
    pthread_cond_signal(&r->all->work);
}

/* Nobody wants the call run any more (CANCELLED), or it is too late to begin it (UNAVAILABLE). True: it waited, and the
 * caller of this ends it; else it ends by itself, with that code unless its handler runs. */
static bool stop(struct running *r, lks_code code)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    state was = r->state;
    bool waited = was == QUEUED || was == GRANTED;
    if (code == LKS_CANCELLED || (was < RUNNING && atomic_load(&r->stopped) == LKS_OK))
        atomic_store(&r->stopped, code);
    if (waited)
        move(r, OVER);
    if (r->watch == WATCHED)
        uv_async_send(&all->wake);
    pthread_mutex_unlock(&all->lock);
    if (waited)
        refuse_stopped(r);
    if (was == GUARDING)
        lks_guard_cancel(r->context.guarded);
    if (was == GRANTED && lks_guard_runs(r->context.guarded)) {
        leave(r);
        return false;
    }
    return waited;
}

/* The call is over. `done` may take or end other calls, so the caller is pinned. */
static void end(struct running *r)
{
    calls *all = r->all;
    caller *c = r->caller;
    bool queued = on_queues(c);

    c->pins++;
    TAILQ_REMOVE(&c->calls, r, in_caller);
    all->n_calls--;
    c->n_calls--;
    if (r->held > 0)
        budget_give(c->bytes, r->held);
    if (r->handle)
        *r->handle = NULL;
    r->done(r->arg, r->route->method, r->error.code == LKS_OK ? r->response : NULL, &r->error);
    give_arena(all, r->arena);
    lks_guard_free(r->context.guarded);
    free(r);
    if (queued && !on_queues(c) && !c->lost && c->on_room)
        c->on_room(c->arg);
    unpin(c);
}

/* Stops all calls of a caller. Puts those that the calling function must end into `to`. */
static void stop_all(caller *c, lks_code code, running_list *to)
{
    struct running *r;

    TAILQ_FOREACH(r, &c->calls, in_caller)
        if (stop(r, code))
            TAILQ_INSERT_TAIL(to, r, in_queue);
}

static void end_all(running_list *stopped)
{
    struct running *r;

    while ((r = TAILQ_FIRST(stopped))) {
        TAILQ_REMOVE(stopped, r, in_queue);
        end(r);
    }
}

static void on_abandon(struct running *r)
{
    if (stop(r, LKS_CANCELLED))
        end(r);
}

static void on_lost(caller *c)
{
    running_list stopped = TAILQ_HEAD_INITIALIZER(stopped);

    if (!c)
        return;
    c->lost = true;
    c->pins++;
    stop_all(c, LKS_CANCELLED, &stopped);
    end_all(&stopped);
    unpin(c);
}

/* ---- a call arrives ----------------------------------------------------------------------- */

/* First the size of a call's metadata, then where its next entry goes. */
typedef struct metadata_copy {
    size_t n, bytes;
    lks_rpc_metadata *entries;
    char *text;
} metadata_copy;

static void measure(void *arg, const char *key, lks_rpc_slice value)
{
    metadata_copy *to = arg;

    to->n++;
    to->bytes += strlen(key) + 1 + value.len + 1;
}

static char *put(metadata_copy *to, const void *data, size_t len)
{
    char *at = to->text;

    memcpy(at, data, len);
    at[len] = '\0';
    to->text += len + 1;
    return at;
}

static void copy(void *arg, const char *key, lks_rpc_slice value)
{
    metadata_copy *to = arg;
    const char *key_copy = put(to, key, strlen(key));

    to->entries[to->n++] = (lks_rpc_metadata){
        .key = key_copy, .value = {.data = put(to, value.len > 0 ? value.data : "", value.len), .len = value.len}};
}

static uint64_t deadline_of(const serve_table *table, const sink_call *call)
{
    bool named = call->timeout_ms > 0 && call->timeout_ms < table->timeout_ms;

    return call->received_ns + (uint64_t)(named ? call->timeout_ms : table->timeout_ms) * 1000000;
}

/* Copies what must outlive `call`. NULL when out of memory. */
static struct running *new_call(calls *all, const sink_call *call, const lks_rpc_route *route)
{
    metadata_copy to = {.n = 0};
    size_t certificate_len = call->who.certificate ? strlen(call->who.certificate) : 0;

    call->read_metadata(call->metadata, measure, &to);
    size_t size = sizeof(struct running) + to.n * sizeof *to.entries + to.bytes + certificate_len + 1 + call->len + 1;
    struct running *r = malloc(size);
    if (!r)
        return NULL;
    *r = (struct running){.all = all,
                          .caller = call->caller,
                          .route = route,
                          .handle = call->handle,
                          .held = size > CALL_BYTES ? size - CALL_BYTES : 0,
                          .unanswered_before = call->unanswered_before,
                          .payload_len = call->len,
                          .context = {.deadline_ns = deadline_of(all->options.table, call)}};
    to.entries = (lks_rpc_metadata *)(void *)(r + 1);
    to.text = (char *)(to.entries + to.n);
    to.n = 0;
    call->read_metadata(call->metadata, copy, &to);
    r->context.n_metadata = to.n;
    r->context.metadata = to.entries;
    if (call->who.certificate)
        r->context.certificate = put(&to, call->who.certificate, certificate_len);
    r->payload = put(&to, call->len > 0 ? call->payload : "", call->len);
    return r;
}

/* Every connection may have SMALL_SHARE calls; beyond that no more than are left free. */
static bool is_full(const caller *c)
{
    const calls *all = c->all;
    uint32_t max = all->options.in_flight_max;
    size_t left = all->n_calls < max ? max - all->n_calls : 0;

    return left == 0 || (c->n_calls >= SMALL_SHARE && c->n_calls >= left);
}

static void on_take(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg)
{
    calls *all = arg;
    const lks_rpc_route *route =
        lks_rpc_route_find(all->options.table->routes, all->options.table->n_routes, call->path);
    lks_error error = {0};
    struct running *r = NULL;
    (void)arena;

    if (!route) {
        lks_error_set(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    } else if (is_full(call->caller)) {
        lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                             "too many calls under way");
        error.retry_after_ms = RETRY_AFTER_MS;
    } else if (!(r = new_call(all, call, route))) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    if (!r) {
        done(done_arg, route ? route->method : NULL, NULL, &error);
        return;
    }
    r->done = done;
    r->arg = done_arg;
    if (r->handle)
        *r->handle = r;
    if (r->held > 0)
        budget_force(r->caller->bytes, r->held);
    TAILQ_INSERT_TAIL(&r->caller->calls, r, in_caller);
    all->n_calls++;
    r->caller->n_calls++;
    enqueue(r);
}

/* Runs before a request is read. Everyone may call the methods that the engines serve themselves. */
static lks_code on_check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                         lks_error *error)
{
    const calls *all = arg;
    const serve_table *table = all->options.table;
    (void)from;
    (void)who;

    if (effect || lks_rpc_route_find(table->routes, table->n_routes, path))
        return LKS_OK;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
}

sink calls_sink(calls *all)
{
    return (sink){.open = on_open,
                  .lost = on_lost,
                  .hold = on_hold,
                  .queues = on_queues,
                  .check = on_check,
                  .take = on_take,
                  .abandon = on_abandon,
                  .arg = all};
}

/* ---- all of them ------------------------------------------------------------------------ */

static void on_wake(uv_async_t *wake)
{
    calls *all = wake->data;
    running_list finished = TAILQ_HEAD_INITIALIZER(finished);
    struct running *r;

    pthread_mutex_lock(&all->lock);
    TAILQ_CONCAT(&finished, &all->finished, in_queue);
    pthread_mutex_unlock(&all->lock);
    while ((r = TAILQ_FIRST(&finished))) {
        TAILQ_REMOVE(&finished, r, in_queue);
        end(r);
    }
    deferred_look(all);
}

lks_code calls_new(const calls_options *options, calls **ret, lks_error *error)
{
    calls *all = calloc(1, sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    all->options = *options;
    TAILQ_INIT(&all->callers);
    TAILQ_INIT(&all->round);
    TAILQ_INIT(&all->finished);
    TAILQ_INIT(&all->watched);
    TAILQ_INIT(&all->due);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->work, NULL);
    pthread_cond_init(&all->reported, NULL);
    uv_async_init(options->loop, &all->wake, on_wake);
    uv_timer_init(options->loop, &all->deadline);
    all->wake.data = all->deadline.data = all;
    all->arenas_max = options->threads + ARENAS_SPARE;
    all->arenas = calloc(all->arenas_max, sizeof *all->arenas);
    all->threads = calloc(options->threads, sizeof *all->threads);
    *ret = all;
    while (all->arenas && all->threads && all->n_threads < options->threads) {
        if (pthread_create(&all->threads[all->n_threads], NULL, work, all) != 0)
            break;
        all->n_threads++;
    }
    if (all->n_threads < options->threads)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no memory or no threads");
    return LKS_OK;
}

size_t calls_under_way(const calls *all)
{
    return all->n_calls;
}

void calls_refuse_waiting(calls *all)
{
    running_list stopped = TAILQ_HEAD_INITIALIZER(stopped);
    caller *c;

    TAILQ_FOREACH(c, &all->callers, next)
        stop_all(c, LKS_UNAVAILABLE, &stopped);
    end_all(&stopped);
}

void calls_close(calls *all)
{
    uv_close((uv_handle_t *)&all->wake, NULL);
    uv_close((uv_handle_t *)&all->deadline, NULL);
}

void calls_free(calls *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    pthread_cond_broadcast(&all->work);
    pthread_mutex_unlock(&all->lock);
    for (uint32_t i = 0; i < all->n_threads; i++)
        pthread_join(all->threads[i], NULL);
    while (all->n_arenas > 0)
        lks_rpc_arena_free(all->arenas[--all->n_arenas]);
    pthread_cond_destroy(&all->reported);
    pthread_cond_destroy(&all->work);
    pthread_mutex_destroy(&all->lock);
    free(all->arenas);
    free(all->threads);
    free(all);
}

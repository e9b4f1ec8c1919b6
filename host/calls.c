/* The sink: calls arrive, wait, are stopped, and end. Runs on the loop thread, except for what running.h marks. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/guard.h>

#include "base/clock.h"
#include "base/container.h"
#include "running.h"

enum {
    SMALL_SHARE = 32, /* calls that each connection may always have */
    RETRY_AFTER_MS = 100,
    ARENAS_SPARE = 16, /* in addition to one for each thread: for calls that are being answered */
    LINE_BYTES = 512,
    CALL_BYTES = 4096, /* memory of an ordinary call: bounded by the limit of calls */
};

/* ---- for other threads --------------------------------------------------------------- */

/* Puts the caller into the round, or removes it. */
static void put_into_round(caller *c)
{
    bool wanted = !TAILQ_EMPTY(&c->ready) || (!c->held && !TAILQ_EMPTY(&c->queued));

    if (wanted && !c->in_round)
        TAILQ_INSERT_TAIL(&c->all->pool.round, c, round);
    else if (!wanted && c->in_round)
        TAILQ_REMOVE(&c->all->pool.round, c, round);
    c->in_round = wanted;
}

/* The queue of a call in that state; NULL: none. */
static running_list *queue_of(const struct running *r)
{
    return r->state == QUEUED ? &r->caller->queued : r->state == READY ? &r->caller->ready : NULL;
}

void move(struct running *r, state to)
{
    calls *all = r->all;
    running_list *from = queue_of(r);

    if (from) {
        TAILQ_REMOVE(from, r, in_queue);
        all->pool.n_queued--;
    }
    r->state = to;
    running_list *into = queue_of(r);
    if (into) {
        TAILQ_INSERT_TAIL(into, r, in_queue);
        all->pool.n_queued++;
        pthread_cond_signal(&all->pool.work);
        uv_async_send(&all->wake); /* for pool_watch */
    }
    if (from || into)
        put_into_round(r->caller);
}

/* Sets the error of a stopped call. */
static void set_stopped(const struct running *r, lks_code code, lks_applied applied, lks_error *error)
{
    if (code == LKS_CANCELLED)
        lks_error_set(error, code, applied, "the caller is gone");
    else if (code == LKS_UNAVAILABLE)
        lks_error_set_reason(error, code, applied, LKS_REASON_SHUTTING_DOWN, "the server is shutting down");
    else if (r->is_capped)
        lks_error_set(error, code, applied, "the call took longer than the server's limit of %u ms",
                      r->all->options.timeout_ms);
    else if (applied == LKS_APPLIED_NO)
        lks_error_set_reason(error, code, applied, LKS_REASON_DEADLINE_BEFORE_START,
                             "the deadline passed before the call ran");
    else
        lks_error_set(error, code, applied, "the deadline passed while the call ran");
}

void refuse_stopped(struct running *r)
{
    set_stopped(r, atomic_load(&r->stopped), LKS_APPLIED_NO, &r->error);
}

/* Frees a call that its handler kept after the loop ended. */
static void drop(struct running *r)
{
    calls *all = r->all;

    lks_rpc_context_end(&r->context);
    lks_rpc_arena_free(r->arena);
    lks_guard_free(r->context.guarded);
    peer_unref(r->peer);
    free(r);
    pthread_mutex_lock(&all->lock);
    unref(all);
}

void finish(struct running *r)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    move(r, OVER);
    bool ended = all->ended;
    if (!ended) {
        TAILQ_INSERT_TAIL(&all->finished, r, in_queue);
        uv_async_send(&all->wake);
    }
    pthread_mutex_unlock(&all->lock);
    if (ended)
        drop(r);
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
    peer *p = peer_new(&connection->peer);

    if (!c || !p) {
        free(c);
        free(p);
        return NULL;
    }
    *c = (caller){
        .all = arg, .peer = p, .bytes = connection->bytes, .on_room = connection->on_room, .arg = connection->arg};
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->queued);
    TAILQ_INIT(&c->ready);
    TAILQ_INSERT_TAIL(&c->all->callers, c, next);
    return c;
}

static void unpin(caller *c)
{
    if (--c->pins > 0 || !c->lost || !TAILQ_EMPTY(&c->calls))
        return;
    TAILQ_REMOVE(&c->all->callers, c, next);
    peer_unref(c->peer);
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
    pthread_cond_broadcast(&c->all->pool.work);
}

static bool on_queues(const caller *c)
{
    return c->n_calls > c->all->options.in_flight_per_connection;
}

/* ---- calls ---------------------------------------------------------------------------- */

static void enqueue(struct running *r)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    TAILQ_INSERT_TAIL(&r->caller->queued, r, in_queue); /* its state is initially QUEUED */
    put_into_round(r->caller);
    bool crowded = ++all->pool.n_queued > all->pool.n_idle;
    pthread_mutex_unlock(&all->lock);
    pthread_cond_signal(&all->pool.work);
    if (crowded)
        pool_watch(all);
}

/* Stops a call because its caller is gone (CANCELLED), its deadline has passed (DEADLINE_EXCEEDED), or the host closes
 * (UNAVAILABLE). True: it was waiting, and the calling function must end it. Otherwise it ends by itself, with that
 * code unless its handler runs. *begun: whether its handler runs. */
static bool stop(struct running *r, lks_code code, bool *begun)
{
    calls *all = r->all;

    pthread_mutex_lock(&all->lock);
    state was = r->state;
    bool waited = was == QUEUED;
    if (code == LKS_CANCELLED || atomic_load(&r->stopped) == LKS_OK)
        atomic_store(&r->stopped, code);
    bool leaves = was == READY && !work_may_block(r);
    if (waited || leaves)
        move(r, waited ? OVER : RUNNING);
    deferred_stopped(r);
    pthread_mutex_unlock(&all->lock);
    lks_rpc_context_stop(&r->context);
    *begun = atomic_load(&r->begun);
    if (waited)
        refuse_stopped(r);
    if (leaves)
        work_run(r);
    return waited;
}

static serve_load *load_of(const lks_rpc_route *route)
{
    const serve_target *target = route->target;

    return target->load;
}

/* The outcome of the call's guards. */
static rpc_meter_count guarded(const struct running *r, const lks_error *error)
{
    if (atomic_load(&r->begun))
        return RPC_METER_RAN;
    return error->code == LKS_OK ? RPC_METER_ANSWERED : RPC_METER_REFUSED;
}

/* `done` may take or end other calls, so `caller` must be pinned. */
static void answer(struct running *r, const ProtobufCMessage *response, const lks_error *error,
                   const lks_rpc_additions *added)
{
    const serve_target *target = r->route->target;

    r->answered = true;
    uint64_t *count =
        rpc_meter_handled(r->all->meter, r->route->method, response, error, clock_now_ns() - r->received_ns);
    if (target->binding->guard)
        count[guarded(r, error)]++;
    if (r->handle)
        *r->handle = NULL;
    r->done(r->arg, r->route->method, response, error, added);
}

static const char *line_of(const struct running *r, char line[LINE_BYTES])
{
    snprintf(line, LINE_BYTES, "method=%s reason=\"%s\"", r->route->method->path, r->wrong);
    return line;
}

/* Ends a call that is OVER. */
static void end(struct running *r)
{
    char line[LINE_BYTES];
    calls *all = r->all;
    caller *c = r->caller;
    bool queued = on_queues(c);

    c->pins++;
    TAILQ_REMOVE(&c->calls, r, in_caller);
    all->n_calls--;
    c->n_calls--;
    load_of(r->route)->n_calls--;
    if (r->held > 0)
        budget_give(c->bytes, r->held);
    heap_clear(&all->timers.heap, &r->deadline);
    if (r->wrong && all->options.log)
        all->options.log(all->options.log_arg, true, "bad-answer", line_of(r, line));
    if (!r->answered)
        answer(r, r->error.code == LKS_OK ? r->response : NULL, &r->error, &r->context.added);
    give_arena(all, r->arena);
    lks_rpc_context_end(&r->context);
    lks_guard_free(r->context.guarded);
    peer_unref(r->peer);
    free(r);
    if (queued && !on_queues(c) && !c->lost && c->on_room)
        c->on_room(c->arg);
    unpin(c);
}

/* Answers a call that has not ended in time. Its handler continues, and its answer is dropped. */
static void answer_late(struct running *r, lks_code code, bool begun)
{
    caller *c = r->caller;
    bool may_apply = begun && r->route->method->effect != LKS_RPC_EFFECT_READ;
    lks_error error;

    pthread_mutex_lock(&r->all->lock);
    bool over = r->state == OVER; /* its answer is on its way to the loop */
    pthread_mutex_unlock(&r->all->lock);
    if (over || r->answered)
        return;
    set_stopped(r, code, may_apply ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO, &error);
    c->pins++;
    answer(r, NULL, &error, NULL); /* without additions, because the handler may still add some */
    unpin(c);
}

static void on_deadline(struct timer *timer)
{
    struct running *r = container_of(timer, struct running, deadline);
    bool begun;

    if (stop(r, LKS_DEADLINE_EXCEEDED, &begun))
        end(r);
    else
        answer_late(r, LKS_DEADLINE_EXCEEDED, begun);
}

/* Stops all calls of a caller. Puts those that the calling function must end into `to`. */
static void stop_all(caller *c, lks_code code, running_list *to)
{
    struct running *r;
    bool begun;

    TAILQ_FOREACH(r, &c->calls, in_caller)
        if (stop(r, code, &begun))
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
    bool begun;

    if (stop(r, LKS_CANCELLED, &begun))
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

/* Copies metadata: first counts its size, then has the place of the next entry. */
typedef struct metadata_copy {
    size_t n, bytes;
    lks_rpc_metadata *entries;
    char *text;
} metadata_copy;

static void measure_entry(void *arg, const char *key, lks_rpc_slice value)
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

/* Copies what must outlive `call`. NULL when out of memory. */
static struct running *new_call(calls *all, const sink_call *call, const lks_rpc_route *route)
{
    metadata_copy to = {.n = 0};
    bool is_capped = call->timeout_ms == 0 || call->timeout_ms > all->options.timeout_ms;
    uint32_t timeout_ms = is_capped ? all->options.timeout_ms : call->timeout_ms;
    size_t certificate_len = call->who.certificate ? strlen(call->who.certificate) : 0;

    call->read_metadata(call->metadata, measure_entry, &to);
    size_t own = (all->options.n_interceptors + 1) * sizeof(void *);
    size_t size =
        sizeof(struct running) + own + to.n * sizeof *to.entries + to.bytes + certificate_len + 1 + call->len + 1;
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
                          .is_capped = is_capped,
                          .received_ns = call->received_ns,
                          .deadline = {.due = on_deadline},
                          .context = {.deadline_ns = call->received_ns + timeout_ms * CLOCK_NS_PER_MS}};
    r->peer = peer_ref(call->caller->peer);
    r->context.peer = &r->peer->is;
    r->context.principal = r->principal;
    r->own = memset(r + 1, 0, own);
    to.entries = (lks_rpc_metadata *)(void *)((char *)r->own + own);
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

/* Every connection may have SMALL_SHARE calls. Beyond that, it may have at most as many calls as are free. */
static bool is_full(const caller *c)
{
    const calls *all = c->all;
    uint32_t max = all->options.in_flight_max;
    size_t left = all->n_calls < max ? max - all->n_calls : 0;

    return left == 0 || (c->n_calls >= SMALL_SHARE && c->n_calls >= left);
}

static bool is_over_limit(const serve_load *load)
{
    return load->calls_max > 0 && load->n_calls >= load->calls_max;
}

static const lks_rpc_method *on_method(void *arg, const char *path)
{
    const calls *all = arg;
    const lks_rpc_route *route = services_find(all->services, path);

    return route ? route->method : NULL;
}

static void on_take(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg)
{
    calls *all = arg;
    const lks_rpc_route *route = services_find(all->services, call->path);
    lks_error error = {0};
    struct running *r = NULL;
    const lks_rpc_method *method = route ? route->method : NULL;
    (void)arena;

    rpc_meter_started(all->meter, method);
    if (!route) {
        lks_error_set(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    } else if (all->stopping) {
        lks_error_set_reason(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN,
                             "the server is shutting down");
    } else if (is_over_limit(load_of(route))) {
        lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                             "method: the limit of %u calls of %s is reached", load_of(route)->calls_max,
                             route->method->path);
        error.retry_after_ms = RETRY_AFTER_MS;
    } else if (is_full(call->caller)) {
        lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                             "too many calls under way");
        error.retry_after_ms = RETRY_AFTER_MS;
    } else if (!heap_reserve(&all->timers.heap, all->n_calls + 2) || !(r = new_call(all, call, route))) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    if (!r) {
        rpc_meter_handled(all->meter, method, NULL, &error, clock_now_ns() - call->received_ns);
        done(done_arg, method, NULL, &error, NULL);
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
    load_of(r->route)->n_calls++;
    loop_timers_set(&all->timers, &r->deadline, r->context.deadline_ns);
    enqueue(r);
}

/* Runs before a request is read. Everyone may call the methods that the engines serve themselves. */
static lks_code on_check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                         lks_error *error)
{
    const calls *all = arg;
    (void)from;
    (void)who;

    if (effect || services_find(all->services, path))
        return LKS_OK;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
}

void calls_count(calls *all, rpc_meter *meter)
{
    all->meter = meter;
}

sink calls_sink(calls *all)
{
    return (sink){.open = on_open,
                  .lost = on_lost,
                  .hold = on_hold,
                  .queues = on_queues,
                  .method = on_method,
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
    deferred_report(all);
    pool_watch(all);
}

lks_code calls_new(uv_loop_t *loop, const lks_host_options *options, services *served, calls **ret, lks_error *error)
{
    calls *all = calloc(1, sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    all->options = *options;
    all->services = served;
    all->limits = lks_rpc_scan_defaults;
    all->limits.string_bytes = all->limits.bytes_bytes = options->message_bytes_max;
    all->limits.open_enums = options->open_enums;
    all->references = 1;
    TAILQ_INIT(&all->callers);
    TAILQ_INIT(&all->finished);
    TAILQ_INIT(&all->due);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    uv_async_init(loop, &all->wake, on_wake);
    all->wake.data = all;
    loop_timers_init(&all->timers, loop, all);
    all->arenas_max = options->threads + ARENAS_SPARE;
    all->arenas = calloc(all->arenas_max, sizeof *all->arenas);
    *ret = all;
    if (!pool_open(all) || !all->arenas)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no memory or no threads");
    return LKS_OK;
}

size_t calls_under_way(const calls *all)
{
    return all->n_calls;
}

void calls_stop(calls *all)
{
    running_list stopped = TAILQ_HEAD_INITIALIZER(stopped);
    caller *c;

    all->stopping = true;
    TAILQ_FOREACH(c, &all->callers, next)
        stop_all(c, LKS_UNAVAILABLE, &stopped);
    end_all(&stopped);
}

/* Starts again after each answer, which may end connections and so other calls. */
void calls_answer_rest(calls *all)
{
    struct running *r;
    caller *c, *next;

    for (c = TAILQ_FIRST(&all->callers); c; c = next) {
        c->pins++;
        TAILQ_FOREACH(r, &c->calls, in_caller)
            answer_late(r, LKS_UNAVAILABLE, true);
        next = TAILQ_NEXT(c, next);
        unpin(c);
    }
}

/* Under lock: hands over the calls of a caller that are not over to their handlers, and ends those that got no thread.
 * Returns how many were handed over. */
static size_t hand_over(caller *c)
{
    struct running *r, *next;
    size_t n = 0;

    for (r = TAILQ_FIRST(&c->calls); r; r = next) {
        next = TAILQ_NEXT(r, in_caller);
        if (r->state == READY) {
            move(r, OVER);
            TAILQ_INSERT_TAIL(&c->all->finished, r, in_queue);
        }
        if (r->state == OVER)
            continue;
        TAILQ_REMOVE(&c->calls, r, in_caller);
        if (r->held > 0)
            budget_give(c->bytes, r->held);
        r->caller = NULL;
        c->all->references++;
        n++;
    }
    return n;
}

size_t calls_close(calls *all)
{
    running_list finished = TAILQ_HEAD_INITIALIZER(finished);
    size_t n = 0;
    caller *c, *next;

    deferred_report(all);
    pthread_mutex_lock(&all->lock);
    TAILQ_FOREACH(c, &all->callers, next)
        n += hand_over(c);
    TAILQ_CONCAT(&finished, &all->finished, in_queue);
    all->ended = true;
    pthread_mutex_unlock(&all->lock);
    end_all(&finished);
    for (c = TAILQ_FIRST(&all->callers); c; c = next) {
        next = TAILQ_NEXT(c, next);
        c->pins++;
        unpin(c);
    }
    uv_close((uv_handle_t *)&all->wake, NULL);
    uv_close((uv_handle_t *)&all->timers.uv, NULL);
    return n;
}

void unref(calls *all)
{
    bool last = --all->references == 0;

    pthread_mutex_unlock(&all->lock);
    if (!last)
        return;
    while (all->n_arenas > 0)
        lks_rpc_arena_free(all->arenas[--all->n_arenas]);
    pthread_cond_destroy(&all->pool.work);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all->arenas);
    services_free(all->services);
    free(all);
}

void calls_free(calls *all)
{
    if (!all)
        return;
    pool_close(all);
    heap_free(&all->timers.heap);
    pthread_mutex_lock(&all->lock);
    unref(all);
}

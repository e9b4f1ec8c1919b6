/* The life of the server. Each move is made by one function, in this order:
 *
 *   RUNNING --SIGTERM, fatal store--> DRAINING   new calls are refused
 *   DRAINING --all answered, or drain-ms over--> CLOSING_STORE   calls that remain are UNAVAILABLE
 *   CLOSING_STORE --stores closed--> FLUSHING   answers are sent
 *   FLUSHING --no call left, and answers gone or FLUSH_MS over--> CLOSING_WIRE
 *            (once FLUSH_MS is over every connection is closed, which ends the calls that wait for its peer to read)
 *   CLOSING_WIRE --wires, callers, waiters, alarms closed--> STOPPED   the loop ends
 *
 * A part is freed only after every part that may call it. */
#include "server.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/method.h>
#include <uv.h>

#include "calls/dispatch.h"
#include "certificates.h"
#include "check.h"
#include "conditions.h"
#include "console/console.h"
#include "functions/library.h"
#include "log.h"
#include "metrics.h"
#include "net/wires.h"
#include "note.h"
#include "notify.h"
#include "calls/loss.h"
#include "calls/peers.h"
#include "quorum/quorum.h"
#include "reload.h"
#include "stop_signals.h"
#include "standard/health.h"
#include "standard/reflection.h"
#include "store/store.h"
#include "calls/quotas.h"
#include "calls/sweep.h"
#include "calls/waiters.h"
#include "tracing/tracing.h"

/* While draining, how often to look whether the answers have been sent. */
enum { DRAIN_LOOK_MS = 10 };

/* How long a peer that does not read its answers can delay the end. */
enum { FLUSH_MS = 2000 };

/* How long the service manager waits for an embedded store, which is killed after 10 s, and for the steps after it. */
enum { STORE_END_MS = 20000 };

/* Commands to the store in addition to those of running calls: alarms, and late ones. */
enum { OTHER_STORE_CALLS = 8192 };

/* How often to check certificates and, once the store was connected, its data and the other servers on it. */
enum { LOOK_MS = 1000 };

/* The prefix of a server's channel, before its id, and the channel of all servers. The functions publish there. */
#define WAKE_CHANNELS "ls:wake:"
#define COMMON_CHANNEL "ls:wake:all"

enum { SERVER_PAGES = 3 };

typedef enum phase { RUNNING, DRAINING, CLOSING_STORE, FLUSHING, CLOSING_WIRE, STOPPED } phase;

typedef struct server {
    const settings *config;
    uv_loop_t loop;
    uv_signal_t on_term, on_int, on_hup;
    uv_timer_t drain_timer, look_timer;
    notify *notify;
    conditions conditions;
    uint64_t drain_until_ms; /* uv_now */
    store *store;
    quorum *quorum; /* NULL: the locks are in the store */
    alarms *alarms;
    waiters *waiters;
    loss *loss;
    sweep *sweep;
    quotas *quotas;
    peers *peers; /* NULL: the store is embedded */
    budget *budget;
    callers *callers;
    tracing *tracing;
    dispatch *dispatch;
    sink sink;
    identity *identity;
    reload reload;
    frames *frames;
    health *health;
    reflection *reflection;
    grpc_streaming_method streaming[HEALTH_METHODS + REFLECTION_METHODS];
    wires *wires;
    http_page pages[SERVER_PAGES + CONSOLE_PAGES_MAX];
    uint64_t started_ns, reloads, failed_reloads;
    char id[LKS_RPC_RANDOM_ID_LEN + 1]; /* new at each start: wake messages are for this run */
    char wake_channel[sizeof WAKE_CHANNELS + LKS_RPC_RANDOM_ID_LEN];
    phase phase;
    bool store_was_connected;
    lks_error failure;
} server;

/* Closes the parts one after another, each before the parts that it calls. */
static void close_next(void *arg)
{
    server *s = arg;
    wires *last_wires = s->wires;
    callers *last_callers = s->callers;
    waiters *last_waiters = s->waiters;
    alarms *last_alarms = s->alarms;

    if (last_wires) {
        s->wires = NULL;
        wires_close(last_wires, close_next, s);
    } else if (last_callers) {
        s->callers = NULL;
        callers_close(last_callers, close_next, s);
    } else if (last_waiters) {
        s->waiters = NULL;
        waiters_close(last_waiters, close_next, s);
    } else if (last_alarms) {
        s->alarms = NULL;
        alarms_close(last_alarms, close_next, s);
    } else {
        s->phase = STOPPED;
        uv_close((uv_handle_t *)&s->on_term, NULL);
        uv_close((uv_handle_t *)&s->on_int, NULL);
        uv_close((uv_handle_t *)&s->on_hup, NULL);
        uv_close((uv_handle_t *)&s->drain_timer, NULL);
        uv_close((uv_handle_t *)&s->look_timer, NULL);
        notify_close(s->notify);
    }
}

static void close_wire(server *s)
{
    s->phase = CLOSING_WIRE;
    uv_timer_stop(&s->drain_timer);
    close_next(s);
}

static void on_stores_closed(void *arg)
{
    server *s = arg;

    s->quorum = NULL;
    sweep_close(s->sweep);
    quotas_close(s->quotas);
    peers_free(s->peers);
    s->peers = NULL;
    loss_free(s->loss);
    s->loss = NULL;
    s->phase = FLUSHING;
    s->drain_until_ms = uv_now(&s->loop) + FLUSH_MS;
}

static void on_store_closed(void *arg)
{
    server *s = arg;

    s->store = NULL;
    if (s->quorum)
        quorum_close(s->quorum, on_stores_closed, s);
    else
        on_stores_closed(s);
}

static void close_store(server *s)
{
    s->phase = CLOSING_STORE;
    if (s->dispatch)
        dispatch_stop(s->dispatch);
    if (s->store)
        store_close(s->store, on_store_closed, s);
    else
        on_store_closed(s);
}

static void on_drain_timer(uv_timer_t *timer)
{
    server *s = timer->data;
    bool answered = !s->wires || !wires_busy(s->wires);
    bool late = uv_now(&s->loop) >= s->drain_until_ms;

    if (s->phase == FLUSHING && late && s->wires)
        wires_hang_up(s->wires);
    if (s->phase == DRAINING && (answered || late))
        close_store(s);
    else if (s->phase == FLUSHING && (answered || late) && !(s->callers && callers_any(s->callers)))
        close_wire(s);
}

static void drain(server *s, uint64_t limit_ms)
{
    if (s->phase == RUNNING) {
        s->phase = DRAINING;
        notify_stopping(s->notify, s->failure.code == LKS_OK ? NULL : s->failure.message,
                        limit_ms + FLUSH_MS + STORE_END_MS);
        if (s->health)
            health_set(s->health, false);
        if (s->wires)
            wires_stop_receiving(s->wires);
        sweep_stop(s->sweep);
        quotas_stop(s->quotas);
        if (s->alarms)
            alarms_stop(s->alarms);
        if (s->waiters)
            waiters_stop(s->waiters);
        uv_timer_start(&s->drain_timer, on_drain_timer, 0, DRAIN_LOOK_MS);
    }
    s->drain_until_ms = uv_now(&s->loop) + limit_ms;
}

/* The second signal cuts the drain short. */
static void on_signal(uv_signal_t *handle, int number)
{
    server *s = handle->data;

    log_info("draining", "signal=%d", number);
    drain(s, s->phase == RUNNING ? (uint64_t)s->config->drain_ms : 0);
}

static void set_condition(server *s, condition_about about, bool blocks, lks_reason reason, const char *text)
{
    const char *first;

    if (s->phase != RUNNING || !conditions_set(&s->conditions, about, blocks, reason, text))
        return;
    bool ready = conditions_ready(&s->conditions, &first);
    if (s->health)
        health_set(s->health, ready);
    notify_store(s->notify, ready, first);
}

/* An external Redis may be a different one at the next start; an embedded store stays the same. */
static lks_code fatal_code(const store *backing)
{
    store_view view;

    store_describe(backing, &view);
    return view.embedded ? LKS_FAILED_PRECONDITION : LKS_UNAVAILABLE;
}

static void on_ready(void *arg, bool ready, store_fault fault)
{
    server *s = arg;
    const char *fatal = s->store ? store_fatal(s->store) : NULL;

    if (fatal) {
        lks_error_set(&s->failure, fatal_code(s->store), LKS_APPLIED_NO, "%s", fatal);
        drain(s, 0);
        return;
    }
    set_condition(s, CONDITION_STORE, !ready, fault.reason, fault.text);
}

static void note_for_others(server *s)
{
    if (s->peers)
        note_settings(s->peers, s->config, identity_policy(s->identity), s->quorum);
}

/* The other services work without the lock store. */
static void on_lock_store_ready(void *arg, bool ready, store_fault fault)
{
    server *s = arg;

    if (ready)
        note_for_others(s);
    set_condition(s, CONDITION_LOCK_STORE, false, fault.reason, fault.text);
}

/* ---- certificates ----------------------------------------------------------------------- */

static void look_at_certificates(server *s)
{
    char text[CONDITION_TEXT_BYTES];
    const bool blocks = certificates_look(s->config, s->wires, s->store, text);

    set_condition(s, CONDITION_CERTIFICATE, blocks, LKS_REASON_NONE, text);
}

/* ---- the store's data, other servers on the store ------------------------------------------ */

static void on_loss(void *arg, const char *text)
{
    set_condition(arg, CONDITION_DATA, false, LKS_REASON_NONE, text);
}

static void on_peers(void *arg, const char *differs)
{
    set_condition(arg, CONDITION_SERVERS, false, LKS_REASON_NONE, differs);
}

static void open_peers(server *s)
{
    const peers_options options = {.store = s->store, .server = s->id, .on_look = on_peers, .arg = s};
    store_view view;

    store_describe(s->store, &view);
    if (!view.embedded)
        s->peers = peers_new(&options);
    note_for_others(s);
}

static void on_wake(void *arg, const char *data, size_t len)
{
    server *s = arg;

    if (s->waiters)
        waiters_message(s->waiters, data, len);
}

static void on_lock_store_listening(void *arg)
{
    server *s = arg;

    if (s->waiters)
        waiters_missed(s->waiters);
}

static void on_look(uv_timer_t *timer)
{
    server *s = timer->data;

    if (s->phase != RUNNING)
        return;
    look_at_certificates(s);
    if (!s->store_was_connected)
        return;
    loss_look(s->loss);
    if (s->peers)
        peers_look(s->peers);
}

static void on_listening(void *arg)
{
    server *s = arg;

    on_lock_store_listening(s);
    if (s->phase != RUNNING)
        return;
    loss_look(s->loss);
    sweep_begin(s->sweep);
    quotas_begin(s->quotas);
    if (s->peers)
        peers_look(s->peers);
    s->store_was_connected = true;
}

static lks_code open_lock_store(server *s, lks_error *error)
{
    const quorum_options options = {
        .loop = &s->loop,
        .url = s->config->lock_store,
        .url_from = config_where(s->config, "lock-store"),
        .namespaces = s->config->lock_store_namespaces.of,
        .n_namespaces = s->config->lock_store_namespaces.n,
        .server = s->id,
        .library_text = functions_text,
        .library_len = functions_len,
        .library_digest = functions_digest,
        .sweep_ms = (uint64_t)s->config->sweep_ms,
        .on_ready = on_lock_store_ready,
        .on_wake = on_wake,
        .on_listening = on_lock_store_listening,
        .arg = s,
    };

    if (!s->config->lock_store)
        return LKS_OK;
    conditions_expect(&s->conditions, CONDITION_LOCK_STORE, "the lock store is not connected yet");
    return quorum_open(&options, &s->quorum, error);
}

static lks_code open_store(server *s, lks_error *error)
{
    if (open_lock_store(s, error) != LKS_OK)
        return error->code;
    snprintf(s->wake_channel, sizeof s->wake_channel, WAKE_CHANNELS "%s", s->id);
    const store_options options = {
        .loop = &s->loop,
        .url = s->config->store,
        .url_from = config_where(s->config, "store"),
        .files = check_store_files(s->config),
        .fsync = s->config->fsync,
        .allow_unsafe = s->config->allow_unsafe_store,
        .wait_replicas = (unsigned)s->config->wait_replicas,
        .wait_ms = (uint32_t)s->config->wait_ms,
        .in_flight_max = (uint32_t)s->config->in_flight + OTHER_STORE_CALLS,
        .library_text = functions_text,
        .library_digest = functions_digest,
        .on_ready = on_ready,
        .wake_channel = s->wake_channel,
        .common_channel = COMMON_CHANNEL,
        .on_wake = on_wake,
        .on_listening = on_listening,
        .other = s->quorum ? quorum_as_store(s->quorum) : (store_other){0},
        .stop_requested = stop_signals_pending,
        .arg = s,
    };
    /* Opening may take minutes if the file of an embedded store is long. */
    const sigset_t held = stop_signals_block();
    const lks_code code = store_open(&options, &s->store, error);
    stop_signals_restore(&held);
    return code;
}

static void set_identity(server *s, identity *loaded)
{
    if (s->dispatch)
        dispatch_set_identity(s->dispatch, loaded);
    s->identity = loaded;
}

/* All files are read before any takes effect: a wrong file changes nothing. */
static void use_files(void *arg, identity **loaded, lks_code code, lks_error *error)
{
    server *s = arg;

    if (s->phase != RUNNING)
        return;
    if (code != LKS_OK || check_store(s->config, error) != LKS_OK ||
        wires_load_certificates(s->wires, error) != LKS_OK || store_reload(s->store, error) != LKS_OK) {
        s->failed_reloads++;
        log_warn("not-reloaded", "reason=\"%s\"", error->message);
        notify_reloaded(s->notify, error->message);
        return;
    }
    identity *old = s->identity;
    s->reloads++;
    set_identity(s, *loaded);
    *loaded = old;
    check_modes(s->config);
    log_info("reloaded", "%s", "what=identity,certificates,store");
    look_at_certificates(s);
    note_for_others(s);
    notify_reloaded(s->notify, NULL);
}

static void on_reload(uv_signal_t *handle, int number)
{
    server *s = handle->data;
    (void)number;

    if (s->phase != RUNNING)
        return;
    notify_reloading(s->notify);
    reload_begin(&s->reload);
}

static lks_code load_identity(server *s, lks_error *error)
{
    identity *loaded;

    lks_code code = check_settings(s->config, true, &loaded, error);
    if (code == LKS_OK) {
        set_identity(s, loaded);
        check_modes(s->config);
    }
    return code;
}

static lks_code open_callers(server *s, lks_error *error)
{
    const callers_options options = {
        .loop = &s->loop,
        .running_max = (uint32_t)s->config->in_flight,
        .running_per_caller = (uint32_t)s->config->in_flight_per_connection,
        .running_per_owner = (uint32_t)s->config->in_flight_per_principal,
        .waiting_max = (uint32_t)s->config->waiting,
        .waiting_per_caller = (uint32_t)s->config->waiting_per_connection,
    };

    s->budget = budget_new((size_t)s->config->memory_bytes);
    if (!s->budget)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return callers_new(&options, &s->callers, error);
}

/* Writes the answer of GetMetrics and /metrics. */
static lks_rpc_slice write_metrics(void *arg, bool openmetrics, lks_rpc_arena *arena)
{
    server *s = arg;
    const server_parts parts = {.config = s->config,
                                .loop = &s->loop,
                                .conditions = &s->conditions,
                                .store = s->store,
                                .quorum = s->quorum,
                                .identity = s->identity,
                                .budget = s->budget,
                                .callers = s->callers,
                                .dispatch = s->dispatch,
                                .tracing = s->tracing,
                                .wires = s->wires,
                                .loss = s->loss,
                                .started_ns = s->started_ns,
                                .reloads = s->reloads,
                                .failed_reloads = s->failed_reloads};

    return server_metrics(&parts, openmetrics, arena);
}

static http_page_answer metrics_page(void *arg, const char *accept, lks_rpc_arena *arena)
{
    bool openmetrics = metrics_wants_openmetrics(accept);
    lks_rpc_slice text = write_metrics(arg, openmetrics, arena);

    return (http_page_answer){.status = text.data ? 200 : 503, .type = metrics_content_type(openmetrics), .body = text};
}

/* Writes whether calls can be served, and the current faults. */
static http_page_answer ready_page(void *arg, const char *accept, lks_rpc_arena *arena)
{
    const server *s = arg;
    (void)accept;

    return server_readiness(&s->conditions, s->phase != RUNNING, arena);
}

static lks_code open_dispatch(server *s, lks_error *error)
{
    s->alarms = alarms_new(&s->loop, s->store);
    s->waiters = waiters_new(&s->loop, s->alarms);
    s->loss = loss_new(s->store, s->waiters, on_loss, s);
    s->sweep = sweep_new(&s->loop, s->store, s->alarms, (uint64_t)s->config->sweep_ms);
    const quotas_limits limits = {.keys = s->config->namespace_keys,
                                  .bytes = s->config->namespace_bytes,
                                  .waiters = s->config->namespace_waiters};
    s->quotas = quotas_new(&s->loop, s->store, &limits);
    open_peers(s);
    const dispatch_options options = {
        .memory = s->budget,
        .callers = s->callers,
        .store = s->store,
        .alarms = s->alarms,
        .waiters = s->waiters,
        .quotas = s->quotas,
        .server = s->id,
        .timeout_ms = (uint32_t)s->config->timeout_ms,
        .timeout_max_ms = (uint32_t)s->config->timeout_max_ms,
        .slow_call_ms = (uint32_t)s->config->slow_call_ms,
        .tracing = s->tracing,
        .services = {.sequence_block = s->config->id_sequence_block,
                     .remembers_refusals = s->config->remember_refusals,
                     .lock_slack_ms = s->quorum ? quorum_slack_ms : NULL,
                     .lock_store_ready = s->quorum ? quorum_is_ready : NULL,
                     .lock_store = s->quorum,
                     .look = store_describe,
                     .look_primary = store_describe_primary,
                     .store = s->store,
                     .conditions = &s->conditions,
                     .metrics = write_metrics,
                     .metrics_arg = s},
    };
    s->dispatch = dispatch_new(&options);
    dispatch_set_identity(s->dispatch, s->identity);
    s->sink = dispatch_sink(s->dispatch);
    return frames_new(&s->sink, (size_t)s->config->message_bytes, &s->frames, error);
}

static bool knows_service(void *arg, const char *name)
{
    const server *s = arg;

    return reflection_has_service(s->reflection, name);
}

static void each_service(void *arg, void (*see)(void *to, const char *service), void *to)
{
    const server *s = arg;

    reflection_each_service(s->reflection, see, to);
}

static lks_code open_standard(server *s, lks_error *error)
{
    lks_code code = reflection_new(contract_files, contract_files_len, &s->reflection, error);
    if (code != LKS_OK)
        return code;
    s->health = health_new(&(health_services){.knows = knows_service, .each = each_service, .arg = s});
    if (!s->health)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    health_set(s->health, conditions_ready(&s->conditions, NULL));
    health_methods(s->health, s->streaming);
    reflection_methods(s->reflection, s->streaming + HEALTH_METHODS);
    return LKS_OK;
}

/* Returns the number of pages. */
static size_t set_pages(server *s)
{
    s->pages[0] = (http_page){.path = "/metrics",
                              .right = "/lockstock.v1.AdminService/GetMetrics",
                              .effect = LKS_RPC_EFFECT_ADMIN,
                              .write = metrics_page,
                              .arg = s};
    s->pages[1] = (http_page){.path = "/healthz", .write = http_page_alive};
    s->pages[2] = (http_page){.path = "/readyz", .write = ready_page, .arg = s};
    return SERVER_PAGES + (s->config->console ? console_pages(&s->pages[SERVER_PAGES]) : 0);
}

static lks_code open_wires(server *s, lks_error *error)
{
    const wires_options options = {
        .loop = &s->loop,
        .frames = s->frames,
        .sink = &s->sink,
        .budget = s->budget,
        .streaming = s->streaming,
        .tell = log_tell,
        .n_streaming = sizeof s->streaming / sizeof s->streaming[0],
        .message_bytes_max = (size_t)s->config->message_bytes,
        .in_flight_per_peer = (uint32_t)s->config->in_flight_per_connection,
        .waiting_per_peer = (uint32_t)s->config->waiting_per_connection,
        .request_ms = (uint32_t)s->config->request_ms,
        .life = {.keepalive_ms = (uint32_t)s->config->keepalive_ms,
                 .keepalive_timeout_ms = (uint32_t)s->config->keepalive_timeout_ms,
                 .ping_min_ms = (uint32_t)s->config->ping_min_ms,
                 .connection_age_ms = (uint32_t)s->config->connection_age_ms,
                 .connection_age_grace_ms = (uint32_t)s->config->connection_age_grace_ms},
        .connections_max = (uint32_t)s->config->connections,
        .connections_per_wire = (uint32_t)s->config->connections_per_wire,
        .connections_per_address = (uint32_t)s->config->connections_per_address,
        .several_wires = wires_are_several(s->config->listen.of, s->config->listen.n),
        .tls = check_tls_files(s->config),
        .no_certificate = check_no_certificate,
        .origins = s->config->allow_origin.of,
        .n_origins = s->config->allow_origin.n,
        .pages = s->pages,
        .n_pages = set_pages(s),
    };
    char bound_url[WIRES_URL_BYTES_MAX];
    lks_error why = {0};

    lks_code code = wires_new(&options, &s->wires, error);
    if (code != LKS_OK)
        return code;
    for (size_t i = 0; i < s->config->listen.n; i++) {
        const char *url = s->config->listen.of[i];
        if (wires_listen(s->wires, url, bound_url, NULL, &why) != LKS_OK)
            return check_wrong_address(url, &why, error);
        log_info("listening", "url=%s", bound_url);
        if (s->config->console && strncmp(url, "http", strlen("http")) == 0)
            log_info("console", "url=%s/console/", bound_url);
    }
    look_at_certificates(s);
    uv_timer_start(&s->look_timer, on_look, LOOK_MS, LOOK_MS);
    return LKS_OK;
}

static void init_loop(server *s)
{
    uv_loop_init(&s->loop);
    s->started_ns = uv_hrtime();
    uv_loop_configure(&s->loop, UV_METRICS_IDLE_TIME);
    s->reload = (reload){.loop = &s->loop, .config = s->config, .use = use_files, .arg = s};
    uv_signal_init(&s->loop, &s->on_term);
    uv_signal_init(&s->loop, &s->on_int);
    uv_signal_init(&s->loop, &s->on_hup);
    uv_timer_init(&s->loop, &s->drain_timer);
    uv_timer_init(&s->loop, &s->look_timer);
    s->on_term.data = s->on_int.data = s->on_hup.data = s->drain_timer.data = s->look_timer.data = s;
    uv_signal_start(&s->on_term, on_signal, SIGTERM);
    uv_signal_start(&s->on_int, on_signal, SIGINT);
    uv_signal_start(&s->on_hup, on_reload, SIGHUP);
    s->notify = notify_open(&s->loop);
}

lks_code server_run(const settings *config, lks_error *error)
{
    server s = {.config = config};

    signal(SIGPIPE, SIG_IGN);
    lks_rpc_random_id(s.id);
    conditions_init(&s.conditions);
    init_loop(&s);
    if (load_identity(&s, &s.failure) != LKS_OK || tracing_open(s.id, &s.tracing, &s.failure) != LKS_OK ||
        open_store(&s, &s.failure) != LKS_OK || open_callers(&s, &s.failure) != LKS_OK ||
        open_dispatch(&s, &s.failure) != LKS_OK || open_standard(&s, &s.failure) != LKS_OK ||
        open_wires(&s, &s.failure) != LKS_OK)
        drain(&s, 0);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    tracing_close(s.tracing);
    health_free(s.health);
    reflection_free(s.reflection);
    frames_free(s.frames);
    dispatch_free(s.dispatch);
    budget_free(s.budget);
    identity_free(s.identity);
    uv_loop_close(&s.loop);
    if (s.failure.code == LKS_CANCELLED)
        lks_error_clear(&s.failure); /* a signal came before the server was ready: an orderly end */
    *error = s.failure;
    return s.failure.code;
}

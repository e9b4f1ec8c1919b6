/* A host: the engines of net/ on a loop with its own thread, and calls.c as their sink. The user's threads put a
 * question into `asked` and wait until the loop has answered it. A driven host has no thread: the user's thread runs
 * the loop, the handlers, and its own questions.
 *
 *   RUNNING --close--> DRAINING --drain_ms passed: waiting calls are refused, running calls cancelled--> STOPPING
 *   DRAINING, STOPPING --no call is under way--> FLUSHING --answers sent, or FLUSH_MS passed--> CLOSED
 *   STOPPING --STOP_MS passed: running calls are answered--> FLUSHING
 *
 * Services are added before the first listen. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/options.h>
#include <uv.h>

#include "calls.h"
#include "net/sp/frames.h"
#include "net/wires.h"
#include "host/pages.h"
#include "standard/health.h"
#include "standard/reflection.h"

enum {
    THREADS = 4,
    THREADS_MAX = 64,
    IN_FLIGHT_MAX = 1024,
    IN_FLIGHT_PER_CONNECTION = 256,
    CONNECTIONS_MAX = 4096,
    TIMEOUT_MS = 30000,
    REQUEST_MS = 30000,
    MEMORY_BYTES = 256 << 20,
    KEEPALIVE_TIMEOUT_MS = 20000,
    AGE_GRACE_MS = 30000,
    LIFE_MS_MIN = 1000,
    ADVANCE_MS = 10, /* how often a closing host checks whether calls have ended and answers are sent */
    STOP_MS = 1000,
    FLUSH_MS = 900, /* lks_host_close promises to return 2 s after drain_ms */
};

typedef enum phase { RUNNING, DRAINING, STOPPING, FLUSHING, CLOSED } phase;

/* What a thread asks the loop, and the answer. */
typedef struct question {
    enum { NOTHING, LISTEN, SET_HEALTH, RELOAD_TLS, CLOSE } kind; /* NOTHING: answered */
    const char *url, *service;
    bool serving;
    uint32_t drain_ms;
    uint16_t port;
    lks_error error;
} question;

struct lks_host {
    lks_host_options options; /* complete */
    services *services;
    pid_t pid; /* of the process that opened it */
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t advance_phase;
    pthread_t thread;
    bool started; /* the host's thread, or the user's, runs the loop */
    budget *budget;
    calls *calls;
    sink sink;
    frames *frames;
    health *health;
    reflection *reflection;
    grpc_streaming_method streaming[HEALTH_METHODS + REFLECTION_METHODS];
    wires *wires; /* NULL: it does not listen */
    host_pages pages;
    rpc_meter *meter; /* NULL until it listens */
    phase phase;
    uint64_t until_ms; /* uv_now: when the phase ends at the latest */
    size_t n_left;     /* CLOSED: calls that have not ended */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    question asked;
};

/* ---- the end ------------------------------------------------------------------------------ */

static void on_wires_closed(void *arg)
{
    lks_host *host = arg;

    host->wires = NULL;
    if (host->calls)
        host->n_left = calls_close(host->calls);
    uv_close((uv_handle_t *)&host->wake, NULL);
    uv_close((uv_handle_t *)&host->advance_phase, NULL);
}

static void close_all(lks_host *host)
{
    host->phase = CLOSED;
    uv_timer_stop(&host->advance_phase);
    if (host->wires)
        wires_close(host->wires, on_wires_closed, host);
    else
        on_wires_closed(host);
}

static void enter(lks_host *host, phase to, uint32_t ms)
{
    host->phase = to;
    host->until_ms = uv_now(&host->loop) + ms;
}

/* Enters the next phase when the current one has nothing more to wait for. */
static void advance_phase(lks_host *host)
{
    bool late = uv_now(&host->loop) >= host->until_ms;

    if (host->phase == DRAINING && late) {
        calls_stop(host->calls);
        enter(host, STOPPING, STOP_MS);
    } else if (host->phase == STOPPING && late) {
        calls_answer_rest(host->calls);
        enter(host, FLUSHING, FLUSH_MS);
    }
    if (host->phase < FLUSHING && calls_under_way(host->calls) == 0)
        enter(host, FLUSHING, FLUSH_MS);
    late = uv_now(&host->loop) >= host->until_ms;
    if (host->phase == FLUSHING && (late || !host->wires || !wires_busy(host->wires)))
        close_all(host);
}

static void on_advance_timer(uv_timer_t *timer)
{
    advance_phase(timer->data);
}

static void begin_close(lks_host *host, uint32_t drain_ms)
{
    uv_update_time(&host->loop);
    enter(host, DRAINING, drain_ms);
    health_set(host->health, false);
    host->pages.serving = false;
    if (host->wires)
        wires_stop_receiving(host->wires);
    uv_timer_start(&host->advance_phase, on_advance_timer, ADVANCE_MS, ADVANCE_MS);
    advance_phase(host);
}

/* ---- listening ------------------------------------------------------------------------------ */

static bool is_served(void *arg, const char *name)
{
    const lks_host *host = arg;

    return services_has(host->services, name) || reflection_has_service(host->reflection, name);
}

static void each_served(void *arg, void (*see)(void *to, const char *service), void *to)
{
    const lks_host *host = arg;

    services_each(host->services, see, to);
}

/* Opens reflection with the descriptors of every service, and of the services that every host has. */
static lks_code open_reflection(lks_host *host, lks_error *error)
{
    size_t len;
    unsigned char *files = services_descriptors(host->services, standard_files, standard_files_len, &len);

    if (!files)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_code code = reflection_new(files, len, &host->reflection, error);
    free(files);
    return code;
}

static tls_files tls_files_of(const lks_host_options *o)
{
    static const tls_names names = {"tls_certificate", "tls_key", "tls_client_ca", "tls_client_required"};

    return (tls_files){o->tls_certificate, o->tls_key, o->tls_client_ca, o->tls_client_required, &names};
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value > 0 ? value : fallback;
}

static lks_code open_wires(lks_host *host, lks_error *error)
{
    const lks_host_options *o = &host->options;

    lks_code code = host->reflection ? LKS_OK : open_reflection(host, error);
    if (code != LKS_OK)
        return code;
    health_methods(host->health, host->streaming);
    reflection_methods(host->reflection, host->streaming + HEALTH_METHODS);
    const wires_options options = {
        .loop = &host->loop,
        .frames = host->frames,
        .sink = &host->sink,
        .budget = host->budget,
        .streaming = host->streaming,
        .n_streaming = sizeof host->streaming / sizeof *host->streaming,
        .message_bytes_max = o->message_bytes_max,
        .in_flight_per_peer = o->in_flight_per_connection,
        .request_ms = o->request_ms,
        .life = {.keepalive_ms = o->keepalive_ms,
                 .keepalive_timeout_ms = or_default(o->keepalive_timeout_ms, KEEPALIVE_TIMEOUT_MS),
                 .ping_min_ms = o->ping_min_ms,
                 .connection_age_ms = o->connection_age_ms,
                 .connection_age_grace_ms = or_default(o->connection_age_grace_ms, AGE_GRACE_MS)},
        .connections_max = o->connections_max,
        .connections_per_address = o->connections_per_address,
        .tell = o->log,
        .tell_arg = o->log_arg,
        .tls = tls_files_of(o),
        .no_certificate = "needs tls_certificate and tls_key",
        .origins = o->allow_origins,
        .n_origins = o->n_allow_origins,
        .pages = host->pages.of,
        .n_pages = o->no_pages ? 0 : HOST_PAGES,
    };
    if (!host->meter && !(host->meter = services_meter(host->services)))
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    calls_count(host->calls, host->meter);
    host->pages.meter = host->meter;
    host->pages.budget = host->budget;
    host->pages.memory_bytes = o->memory_bytes;
    host->pages.wires = &host->wires;
    host_pages_init(&host->pages);
    return wires_new(&options, &host->wires, error);
}

static void listen_on(lks_host *host, const char *url, uint16_t *port, lks_error *error)
{
    char bound_url[WIRES_URL_BYTES_MAX];
    bool has_certificate = host->options.tls_certificate;
    lks_error why = {0};

    if (wires_check(url, true, has_certificate, "needs tls_certificate and tls_key", &why) == LKS_OK &&
        (host->wires || open_wires(host, &why) == LKS_OK))
        wires_listen(host->wires, url, bound_url, port, &why);
    if (why.code != LKS_OK)
        lks_error_set(error, why.code, LKS_APPLIED_NO, "%s: %s", url, why.message);
    else
        *error = why;
}

static void reload_tls(lks_host *host, lks_error *error)
{
    const tls_files files = tls_files_of(&host->options);

    if (!files.certificate)
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                      "tls_certificate: not given when the host was opened");
    else if (host->wires)
        wires_load_certificates(host->wires, error);
    else
        wires_check_tls(&files, error);
}

static void set_health(lks_host *host, const char *service, bool serving, lks_error *error)
{
    if (service && !services_has(host->services, service))
        lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "service: %s is not served here", service);
    else if (service && !health_set_service(host->health, service, serving))
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    else if (!service)
        health_set(host->health, host->pages.serving = serving);
}

/* ---- between the user's threads and the loop ------------------------------------------------ */

/* The host whose loop this thread runs. */
static _Thread_local const lks_host *loop_of_thread;

static void answer(lks_host *host, question *asked)
{
    switch (asked->kind) {
    case LISTEN:
        listen_on(host, asked->url, &asked->port, &asked->error);
        break;
    case RELOAD_TLS:
        reload_tls(host, &asked->error);
        break;
    case SET_HEALTH:
        set_health(host, asked->service, asked->serving, &asked->error);
        break;
    case CLOSE:
        begin_close(host, asked->drain_ms);
        break;
    default:
        break;
    }
}

static void on_wake(uv_async_t *wake)
{
    lks_host *host = wake->data;

    pthread_mutex_lock(&host->lock);
    bool asked = host->asked.kind != NOTHING;
    pthread_mutex_unlock(&host->lock);
    if (!asked)
        return;
    answer(host, &host->asked);
    pthread_mutex_lock(&host->lock);
    host->asked.kind = NOTHING;
    pthread_cond_signal(&host->answered);
    pthread_mutex_unlock(&host->lock);
}

/* Checks that the loop can be asked: not on its own thread, nor in a forked child, where it does not run. */
static lks_code check_thread(const lks_host *host, lks_error *error)
{
    if (host->pid != getpid())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "the host belongs to the process before the fork");
    if (loop_of_thread == host)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "must not be called on the host's own thread, for example from log or on_cancel");
    return LKS_OK;
}

/* Asks the loop, and waits for the answer. */
static void run_question(lks_host *host, const question *asked)
{
    if (host->options.driven) {
        host->asked = *asked;
        answer(host, &host->asked);
        host->asked.kind = NOTHING;
        uv_async_send(&host->wake); /* makes the loop watch new handles */
        return;
    }
    pthread_mutex_lock(&host->lock);
    host->asked = *asked;
    uv_async_send(&host->wake);
    while (host->asked.kind != NOTHING)
        pthread_cond_wait(&host->answered, &host->lock);
    pthread_mutex_unlock(&host->lock);
}

/* The same for a user's function. */
static lks_code ask(lks_host *host, const question *asked, lks_error *error)
{
    lks_code code = check_thread(host, error);

    if (code != LKS_OK)
        return code;
    run_question(host, asked);
    if (error)
        *error = host->asked.error;
    return host->asked.error.code;
}

/* Blocks signals, so that the user's threads handle them. */
static void *serve(void *arg)
{
    lks_host *host = arg;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    loop_of_thread = host;
    uv_run(&host->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* Runs the loop of a driven host. */
static void run_loop(lks_host *host, uv_run_mode mode)
{
    loop_of_thread = host;
    uv_run(&host->loop, mode);
    loop_of_thread = NULL;
    calls_run(host->calls);
}

int lks_host_fd(const lks_host *host)
{
    return host->options.driven ? uv_backend_fd(&host->loop) : -1;
}

int lks_host_timeout_ms(lks_host *host)
{
    if (!host->options.driven)
        return -1;
    uv_update_time(&host->loop);
    return uv_backend_timeout(&host->loop);
}

lks_code lks_host_step(lks_host *host, lks_error *error)
{
    lks_error_clear(error);
    if (!host->options.driven)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "options.driven: is not set; the host has its own threads");
    if (calls_is_handler(host->calls))
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "must not be called from a handler");
    lks_code code = check_thread(host, error);
    if (code == LKS_OK)
        run_loop(host, UV_RUN_NOWAIT);
    return code;
}

/* ---- the host ------------------------------------------------------------------------------- */

static void complete(lks_host_options *all)
{
    if (!all->driven) {
        all->threads = or_default(all->threads, THREADS);
        all->threads_max = or_default(all->threads_max, all->threads > THREADS_MAX ? all->threads : THREADS_MAX);
    }
    all->in_flight_max = or_default(all->in_flight_max, IN_FLIGHT_MAX);
    all->in_flight_per_connection = or_default(all->in_flight_per_connection, IN_FLIGHT_PER_CONNECTION);
    all->connections_max = or_default(all->connections_max, CONNECTIONS_MAX);
    all->timeout_ms = or_default(all->timeout_ms, TIMEOUT_MS);
    all->request_ms = or_default(all->request_ms, REQUEST_MS);
    all->message_bytes_max = all->message_bytes_max ? all->message_bytes_max : LKS_RPC_MESSAGE_BYTES_MAX;
    all->memory_bytes = all->memory_bytes ? all->memory_bytes : MEMORY_BYTES;
}

/* Returns the error of the keepalive options, or NULL. */
static const char *check_life(const lks_host_options *o)
{
    const struct {
        uint32_t ms;
        const char *wrong;
    } all[] = {
        {o->keepalive_ms, "keepalive_ms: must be 0 or at least 1,000"},
        {o->keepalive_timeout_ms, "keepalive_timeout_ms: must be 0 or at least 1,000"},
        {o->ping_min_ms, "ping_min_ms: must be 0 or at least 1,000"},
        {o->connection_age_ms, "connection_age_ms: must be 0 or at least 1,000"},
        {o->connection_age_grace_ms, "connection_age_grace_ms: must be 0 or at least 1,000"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].ms > 0 && all[i].ms < LIFE_MS_MIN)
            return all[i].wrong;
    if (o->keepalive_timeout_ms > 0 && o->keepalive_ms == 0)
        return "keepalive_timeout_ms needs keepalive_ms";
    return o->connection_age_grace_ms > 0 && o->connection_age_ms == 0
               ? "connection_age_grace_ms needs connection_age_ms"
               : NULL;
}

/* Refuses settings that would have no effect. */
static lks_code check(const lks_host_options *o, lks_error *error)
{
    const tls_files files = tls_files_of(o);
    const char *wrong = check_life(o);

    if (o->driven > 1)
        wrong = "driven: must be 0 or 1";
    else if (o->driven && (o->threads > 0 || o->threads_max > 0))
        wrong = "threads and threads_max: must be 0 for a driven host";
    else if (o->threads_max < o->threads)
        wrong = "threads_max: must be at least threads";
    else if (o->n_interceptors > LKS_HOST_INTERCEPTORS_MAX)
        wrong = "n_interceptors: must be at most 32";
    else if (o->n_interceptors > 0 && !o->interceptors)
        wrong = "interceptors: must not be NULL if n_interceptors is not 0";
    for (size_t i = 0; !wrong && i < o->n_interceptors; i++)
        if (!o->interceptors[i].before && !o->interceptors[i].after)
            wrong = "interceptors: each must have `before` or `after`";
    for (size_t i = 0; i < o->n_allow_origins; i++)
        if (!wires_is_origin(o->allow_origins[i]))
            wrong = "allow_origins: must be scheme://host or scheme://host:port";
    return wrong ? lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", wrong)
                 : wires_check_tls(&files, error);
}

static lks_code start(lks_host *host, lks_error *error)
{
    host->budget = budget_new(host->options.memory_bytes);
    host->health = health_new(&(health_services){.knows = is_served, .each = each_served, .arg = host});
    if (!host->budget || !host->health || !host->services)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_code code = calls_new(&host->loop, &host->options, host->services, &host->calls, error);
    if (code != LKS_OK)
        return code;
    host->sink = calls_sink(host->calls);
    health_set(host->health, host->pages.serving = true);
    code = frames_new(&host->sink, host->options.message_bytes_max, &host->frames, error);
    if (code != LKS_OK)
        return code;
    if (!host->options.driven && pthread_create(&host->thread, NULL, serve, host) != 0)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    host->started = true;
    return LKS_OK;
}

lks_code lks_host_open_sized(const lks_host_options *options, size_t options_bytes, lks_host **ret, lks_error *error)
{
    lks_host_options all;

    lks_error_clear(error);
    lks_code code = lks_rpc_options_read(&all, sizeof all, options, options_bytes, "lks_host_options", error);
    if (code != LKS_OK)
        return code;
    complete(&all);
    code = check(&all, error);
    if (code != LKS_OK)
        return code;
    lks_host *host = calloc(1, sizeof *host);
    if (!host || uv_loop_init(&host->loop) != 0) {
        free(host);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory or descriptors");
    }
    host->options = all;
    host->pid = getpid();
    host->services = services_new();
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->answered, NULL);
    uv_async_init(&host->loop, &host->wake, on_wake);
    uv_timer_init(&host->loop, &host->advance_phase);
    host->wake.data = host->advance_phase.data = host;
    code = start(host, error);
    if (code != LKS_OK) {
        lks_host_close(host, 0);
        return code;
    }
    *ret = host;
    return LKS_OK;
}

lks_code lks_host_add(lks_host *host, const lks_rpc_service *service, lks_error *error)
{
    lks_error_clear(error);
    if (host->wires)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s: the host already listens",
                             service->name);
    return services_add(host->services, service, host->options.guards, error);
}

lks_code lks_host_limit(lks_host *host, const char *method, uint32_t calls_max, lks_error *error)
{
    if (host->wires)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "the host already listens");
    return services_limit(host->services, method, calls_max, error);
}

lks_code lks_host_listen(lks_host *host, const char *url, uint16_t *port, lks_error *error)
{
    lks_code code = ask(host, &(question){.kind = LISTEN, .url = url}, error);

    if (code == LKS_OK && port)
        *port = host->asked.port;
    return code;
}

lks_code lks_host_set_health(lks_host *host, const char *service, bool serving, lks_error *error)
{
    return ask(host, &(question){.kind = SET_HEALTH, .service = service, .serving = serving}, error);
}

lks_code lks_host_reload_tls(lks_host *host, lks_error *error)
{
    return ask(host, &(question){.kind = RELOAD_TLS}, error);
}

lks_code lks_host_close(lks_host *host, uint32_t drain_ms)
{
    if (!host)
        return LKS_OK;
    if (check_thread(host, NULL) != LKS_OK || calls_is_handler(host->calls))
        return LKS_FAILED_PRECONDITION;
    if (host->started) {
        run_question(host, &(question){.kind = CLOSE, .drain_ms = drain_ms});
    } else {
        close_all(host);
        uv_run(&host->loop, UV_RUN_DEFAULT);
    }
    while (host->options.driven && uv_loop_alive(&host->loop))
        run_loop(host, UV_RUN_ONCE);
    if (host->started && !host->options.driven)
        pthread_join(host->thread, NULL);
    if (host->calls)
        calls_free(host->calls);
    else
        services_free(host->services);
    rpc_meter_free(host->meter);
    uv_loop_close(&host->loop);
    frames_free(host->frames);
    health_free(host->health);
    reflection_free(host->reflection);
    budget_free(host->budget);
    pthread_cond_destroy(&host->answered);
    pthread_mutex_destroy(&host->lock);
    bool all_ended = host->n_left == 0;
    free(host);
    return all_ended ? LKS_OK : LKS_DEADLINE_EXCEEDED;
}

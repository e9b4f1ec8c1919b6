/* Puts the store together. Invariant: the pipeline has a link exactly while the
 * connection was greeted, the wake channel was heard then, the store is safe, and nothing
 * was found against the connection since; that is what ready means.
 *
 *   embedded --socket--> connection --fresh--> greeting --passed--> pipeline up
 *                            ^ \--lost-------------------------> pipeline down
 *                            \--retire-- useless <--error row-- pipeline
 *
 * Settings of a running Redis can be changed: a store that is not safe any more has no
 * link until it is again; its connection stays, so that this can be seen.
 *
 * The subscription, a connection of its own, is renewed whenever the first one was
 * lost: the next may reach another Redis, whose publishers must find it there.
 *
 * Closing goes the other way round: connections, pipeline, redis-server. */
#include "store/store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "store/connection.h"
#include "store/embedded.h"
#include "store/greeting.h"
#include "store/library.h"
#include "store/pipeline.h"
#include "store/safety.h"
#include "store/subscription.h"
#include "store/url.h"

enum {
    CONNECT_TIMEOUT_MS = 2000,
    SILENCE_TIMEOUT_MS = 10000,
    IN_FLIGHT_MAX = 8192,
    UPKEEP_MS = 3600 * 1000,
    SAFETY_CHECK_MS = 30 * 1000,
    REASON_BYTES = 256,
};

struct store {
    store_options options;
    url url;
    embedded *embedded; /* NULL unless the URL says so */
    connection *connection;
    subscription *subscription; /* NULL without a channel to hear */
    unsigned n_connections;
    library *library;
    greeting greeting;
    pipeline *pipeline;
    uv_timer_t upkeep, safety_check;
    uv_idle_t closing;
    unsigned handles;

    bool greeted;  /* the connection; and nothing was found against it since */
    bool hears;    /* the channel */
    bool asks;     /* whether the store is safe */
    safety safety; /* as of the last answer */
    bool ready;
    char reason[REASON_BYTES]; /* why not */
    char fatal[REASON_BYTES];

    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- readiness ----------------------------------------------------------------- */

static void set_ready(store *s)
{
    pipeline_up(s->pipeline, s->connection, s->greeting.cluster);
    library_keep(s->library, s->connection);
    s->ready = true;
    s->reason[0] = '\0';
    if (s->embedded)
        embedded_serves(s->embedded);
    if (s->options.on_ready)
        s->options.on_ready(s->options.arg, true, NULL);
}

static bool is_unsafe(const store *s)
{
    return s->safety.danger && !s->options.allow_unsafe;
}

/* The connection was greeted, or the channel is heard, or the store safe again: when all hold, calls may go
 * out, those of whoever may have missed a message too. */
static void advance(store *s)
{
    if (!s->greeted || (s->subscription && !s->hears) || is_unsafe(s))
        return;
    if (!s->ready)
        set_ready(s);
    if (s->subscription)
        s->options.on_listening(s->options.arg);
}

/* Another reason is a change too: who looks at the log sees why it still is not. */
static void say_not_ready(store *s, const char *reason)
{
    bool changed = s->ready || strcmp(s->reason, reason) != 0;

    s->ready = false;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    pipeline_down(s->pipeline, s->reason);
    if (changed && s->options.on_ready)
        s->options.on_ready(s->options.arg, false, s->reason);
}

static void set_not_ready(store *s, const char *reason)
{
    s->greeted = false;
    say_not_ready(s, reason);
}

static void set_fatal(store *s, const char *reason)
{
    snprintf(s->fatal, sizeof s->fatal, "%s", reason);
    set_not_ready(s, reason);
}

/* ---- the connection's life ----------------------------------------------------- */

static void on_up(void *arg)
{
    store *s = arg;

    greeting_start(&s->greeting, s->connection);
}

static void on_down(void *arg, const char *reason)
{
    store *s = arg;

    set_not_ready(s, reason);
    if (s->embedded)
        embedded_lost(s->embedded);
    if (s->subscription)
        subscription_renew(s->subscription, reason);
}

static void on_greeted(void *arg, greeting_verdict verdict, const char *reason)
{
    store *s = arg;

    if (verdict == GREETING_FATAL)
        set_fatal(s, reason);
    if (verdict != GREETING_PASSED) {
        connection_drop(s->connection, reason);
        return;
    }
    connection_ready(s->connection);
    s->greeted = true;
    s->safety = s->greeting.safety;
    advance(s);
}

static void on_reloaded(void *arg, library_verdict verdict, const char *reason)
{
    store *s = arg;

    if (verdict == LIBRARY_FOREIGN)
        set_fatal(s, reason);
    if (verdict == LIBRARY_LOADED)
        pipeline_resume(s->pipeline);
    else
        connection_drop(s->connection, reason);
}

static void on_missing(void *arg)
{
    store *s = arg;

    log_warn("library-missing", "action=\"load it again\"");
    library_ensure(s->library, s->connection, on_reloaded, s);
}

static void on_useless(void *arg, const char *reason)
{
    store *s = arg;

    set_not_ready(s, reason);
    connection_retire(s->connection, reason);
}

/* ---- the channel's life -------------------------------------------------------- */

static void on_listening(void *arg)
{
    store *s = arg;

    s->hears = true;
    advance(s);
}

static void on_message(void *arg, const char *data, size_t len)
{
    store *s = arg;

    s->options.on_wake(s->options.arg, data, len);
}

static void on_deaf(void *arg, const char *reason)
{
    store *s = arg;

    s->hears = false;
    if (s->embedded)
        embedded_lost(s->embedded);
    if (s->greeted && !s->ready)
        say_not_ready(s, reason);
}

/* ---- safety -------------------------------------------------------------------- */

static void on_safety(void *arg, const struct redisReply *reply, bool sent)
{
    store *s = arg;
    safety before = s->safety;

    (void)sent;
    s->asks = false;
    if (!reply || !s->greeted)
        return;
    s->safety = safety_of(reply);
    safety_log(&s->safety, &before, s->options.allow_unsafe);
    if (is_unsafe(s))
        say_not_ready(s, s->safety.danger);
    else if (!s->ready)
        advance(s);
}

static void on_safety_check(uv_timer_t *timer)
{
    store *s = timer->data;
    const char *words[SAFETY_WORDS];

    if (!s->greeted || s->asks)
        return;
    s->asks = true;
    connection_words(s->connection, on_safety, s, safety_words(words), words);
}

static void on_upkeep(uv_timer_t *timer)
{
    store *s = timer->data;

    if (s->ready)
        library_keep(s->library, s->connection);
}

/* ---- opening ------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

static subscription *open_subscription(store *s, const connection_options *to_connection)
{
    const subscription_options options = {
        .channel = s->options.wake_channel,
        .url = &s->url,
        .on_listening = on_listening,
        .on_message = on_message,
        .on_deaf = on_deaf,
        .arg = s,
    };
    return subscription_open(&options, to_connection);
}

static void assemble(store *s)
{
    uv_loop_t *loop = s->options.loop;
    const pipeline_options to_pipeline = {
        .loop = loop,
        .digest = s->options.library_digest,
        .in_flight_max = or_default(s->options.in_flight_max, IN_FLIGHT_MAX),
        .on_missing = on_missing,
        .on_useless = on_useless,
        .arg = s,
    };
    const connection_options to_connection = {
        .loop = loop,
        .path = s->embedded ? embedded_socket(s->embedded) : s->url.path,
        .host = s->url.host,
        .port = s->url.port,
        .connect_timeout_ms = or_default(s->options.connect_timeout_ms, CONNECT_TIMEOUT_MS),
        .silence_timeout_ms = or_default(s->options.silence_timeout_ms, SILENCE_TIMEOUT_MS),
        .on_up = on_up,
        .on_down = on_down,
        .arg = s,
    };

    s->library = library_new(s->options.library_text, s->options.library_digest);
    s->greeting = (greeting){
        .url = &s->url,
        .library = s->library,
        .allow_unsafe = s->options.allow_unsafe,
        .done = on_greeted,
        .arg = s,
    };
    s->pipeline = pipeline_new(&to_pipeline);
    s->connection = connection_open(&to_connection);
    if (s->options.wake_channel)
        s->subscription = open_subscription(s, &to_connection);
    s->n_connections = s->subscription ? 2 : 1;
    uv_timer_init(loop, &s->upkeep);
    uv_timer_init(loop, &s->safety_check);
    uv_idle_init(loop, &s->closing);
    s->handles = 3;
    s->upkeep.data = s->safety_check.data = s->closing.data = s;
    uv_timer_start(&s->upkeep, on_upkeep, UPKEEP_MS, UPKEEP_MS);
    uv_timer_start(&s->safety_check, on_safety_check, or_default(s->options.safety_check_ms, SAFETY_CHECK_MS),
                   or_default(s->options.safety_check_ms, SAFETY_CHECK_MS));
}

static void on_broken(void *arg, const char *reason)
{
    set_fatal(arg, reason);
}

lks_code store_open(const store_options *options, store **ret, lks_error *error)
{
    store *s = memory_alloc(sizeof *s);

    *s = (store){.options = *options, .reason = "connecting"};
    lks_code code = url_parse(options->url, &s->url, error);
    if (code != LKS_OK)
        goto failed;
    const embedded_options to_embedded = {
        .loop = options->loop,
        .dir = s->url.path,
        .fsync = options->fsync ? options->fsync : "always",
        .on_broken = on_broken,
        .arg = s,
    };
    if (s->url.kind == URL_EMBEDDED && (code = embedded_open(&to_embedded, &s->embedded, error)) != LKS_OK)
        goto failed;
    signal(SIGPIPE, SIG_IGN); /* hiredis writes with write(2) */
    assemble(s);
    *ret = s;
    return LKS_OK;

failed:
    url_clear(&s->url);
    free(s);
    return code;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    pipeline_submit(s->pipeline, call, deadline_ns, done, arg);
}

bool store_ready(const store *s, const char **reason)
{
    if (reason)
        *reason = s->ready ? NULL : s->reason;
    return s->ready;
}

const char *store_fatal(const store *s)
{
    return s->fatal[0] ? s->fatal : NULL;
}

/* ---- closing ------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    store *s = handle->data;

    if (--s->handles > 0)
        return;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    library_free(s->library);
    url_clear(&s->url);
    free(s);
    closed(arg);
}

static void on_embedded_closed(void *arg)
{
    store *s = arg;

    uv_close((uv_handle_t *)&s->upkeep, on_handle_closed);
    uv_close((uv_handle_t *)&s->safety_check, on_handle_closed);
    uv_close((uv_handle_t *)&s->closing, on_handle_closed);
}

static void on_pipeline_freed(void *arg)
{
    store *s = arg;

    s->pipeline = NULL;
    if (s->embedded)
        embedded_close(s->embedded, on_embedded_closed, s);
    else
        on_embedded_closed(s);
}

static void on_connection_closed(void *arg)
{
    store *s = arg;

    if (--s->n_connections == 0)
        pipeline_free(s->pipeline, on_pipeline_freed, s);
}

static void on_closing(uv_idle_t *idle)
{
    store *s = idle->data;

    uv_idle_stop(idle);
    connection_close(s->connection, on_connection_closed, s);
    if (s->subscription)
        subscription_close(s->subscription, on_connection_closed, s);
    pipeline_end(s->pipeline);
}

void store_close(store *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    uv_timer_stop(&s->upkeep);
    uv_timer_stop(&s->safety_check);
    uv_idle_start(&s->closing, on_closing);
}

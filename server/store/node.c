/* Invariant: the pipeline has a link exactly while the connection was greeted, the wake channel was heard then,
 * the node is safe, and nothing was found against the connection since; that is what ready means.
 *
 *   address --> connection --fresh--> greeting --passed--> pipeline up
 *                   ^ \--lost, moved, dropped-----------> pipeline down
 *                   \--retire-- useless <--error row-- pipeline
 *
 * Settings of a running Redis can be changed: a node that is not safe any more has no link until it is again; its
 * connection stays, so that this can be seen.
 *
 * The subscription, a connection of its own, is renewed whenever the first one was lost: the next may reach another
 * Redis, whose publishers must find it there.
 *
 * Closing goes the other way round: connections, pipeline. */
#include "store/node.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "store/connection.h"
#include "store/errors.h"
#include "store/fcall.h"
#include "store/greeting.h"
#include "store/heard.h"
#include "store/library.h"
#include "store/pipeline.h"
#include "store/probe.h"
#include "store/replication.h"
#include "store/safety.h"
#include "store/subscription.h"

enum {
    CONNECT_TIMEOUT_MS = 2000,
    SILENCE_TIMEOUT_MS = 10000,
    UPKEEP_MS = 3600 * 1000,
    SAFETY_CHECK_MS = 30 * 1000,
    ROLE_CHECK_MS = 1000,
    PROBE_LOOKS = 2, /* in the time of one role check; so long without a reply: it does not answer */
    WAIT_MS = 1000,
    REASON_BYTES = 256,
    BASE_BYTES = 32,
};

struct node {
    node_options options;
    char *path, *host; /* NULL: the other one */
    uint16_t port;
    char address[STORE_ADDRESS_BYTES]; /* of either, for people */
    connection *connection;
    subscription *subscription; /* NULL without a channel to hear */
    unsigned n_connections;
    library *library;
    char base[BASE_BYTES]; /* of what is about the node */
    greeting greeting;
    pipeline *pipeline;
    uv_timer_t upkeep, safety_check, role_check, probe_look;
    uv_idle_t closing;
    unsigned handles;

    bool greeted;  /* the connection; and nothing was found against it since */
    bool hears;    /* the channel */
    bool asks;     /* whether the node is safe */
    safety safety; /* as of the last answer */
    bool asks_role;
    heard *heard;            /* NULL: messages are told at once */
    bool by_role;            /* not by INFO, which is not permitted */
    replication replication; /* as of the last answer; unknown on a fresh connection */
    bool knows_role;         /* whether that was answered on this connection */
    replication_told told;
    bool may_lose; /* in the log */
    probe probe;
    const errors_row *refusal; /* of the probe, as it was told */
    bool ready;
    lks_reason reason; /* why not */
    char text[REASON_BYTES];
    char said_deaf[REASON_BYTES]; /* why the channel was lost, in the log, since it was ready; "" = nothing */

    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- readiness ----------------------------------------------------------------- */

/* Calls go out while it refuses them, too: what it is asked it answers in its own words. */
static bool serves(const node *n)
{
    return n->ready && !(n->probe.refusal && n->probe.refuses_all);
}

/* What is wrong with it. */
static store_fault fault_of(const node *n)
{
    if (!n->ready)
        return (store_fault){n->reason, n->text};
    return n->refusal ? errors_fault(n->refusal) : (store_fault){0};
}

static void tell_ready(node *n)
{
    n->refusal = n->probe.refusal;
    n->options.on_ready(n->options.arg, serves(n), fault_of(n));
}

static void set_ready(node *n)
{
    pipeline_up(n->pipeline, n->connection, n->greeting.cluster ? n->base : NULL);
    library_keep(n->library, n->connection, n->base);
    n->ready = true;
    n->text[0] = '\0';
    tell_ready(n);
}

static bool is_unsafe(const node *n)
{
    return n->safety.danger && !n->options.store->allow_unsafe;
}

/* Each answer would be a MAYBE, after wait_ms. Where ROLE is not permitted nobody knows. */
static bool lacks_replicas(const node *n)
{
    return n->options.store->wait_replicas > 0 &&
           (!n->knows_role || (n->replication.known && n->replication.replicas < n->options.store->wait_replicas));
}

/* The connection was greeted, or the channel is heard, or the store safe again, or it answers: when all hold, calls may go
 * out, those of whoever may have missed a message too. */
static void advance(node *n)
{
    if (!n->greeted || (n->subscription && !n->hears) || is_unsafe(n) || lacks_replicas(n) || !n->probe.answered ||
        n->probe.silent)
        return;
    n->said_deaf[0] = '\0';
    if (!n->ready)
        set_ready(n);
    if (n->subscription)
        n->options.on_listening(n->options.arg);
}

/* Another reason is a change too: who looks at the log sees why it still is not. */
static void say_not_ready(node *n, store_fault fault)
{
    bool changed = n->ready || strcmp(n->text, fault.text) != 0;

    n->ready = false;
    n->reason = fault.reason;
    snprintf(n->text, sizeof n->text, "%s", fault.text);
    pipeline_down(n->pipeline, fault_of(n));
    if (changed)
        n->options.on_ready(n->options.arg, false, fault_of(n));
}

static void set_not_ready(node *n, store_fault fault)
{
    n->greeted = n->knows_role = n->by_role = n->replication.known = n->probe.answered = false;
    say_not_ready(n, fault);
}

static void set_fatal(node *n, store_fault fault)
{
    n->options.on_fatal(n->options.arg, fault);
    set_not_ready(n, fault);
}

static void ask_role(node *n);

/* ---- the connection's life ----------------------------------------------------- */

static void tell_lost(node *n)
{
    if (n->options.on_lost)
        n->options.on_lost(n->options.arg);
}

static void on_up(void *arg)
{
    node *n = arg;

    greeting_start(&n->greeting, n->connection);
}

static void on_down(void *arg, store_fault fault)
{
    node *n = arg;

    set_not_ready(n, fault);
    tell_lost(n);
    if (n->subscription)
        subscription_renew(n->subscription, fault);
}

/* Where another node may take its place. */
static void warn_of_failover(node *n)
{
    bool fails_over = n->options.generation || n->options.id;
    bool may_lose = fails_over && n->options.store->wait_replicas == 0 && n->safety.known &&
                    (n->safety.min_replicas == 0 || n->safety.max_lag_s == 0);

    if (may_lose && !n->may_lose)
        log_warn(
            "store-may-lose",
            "primary=%s reason=\"--wait-replicas and the store's min-replicas-to-write are 0: what is answered may "
            "be lost in a failover\"",
            n->address);
    n->may_lose = may_lose;
}

static void begin(node *n)
{
    connection_ready(n->connection);
    n->greeted = true;
    warn_of_failover(n);
    ask_role(n);
    probe_start(&n->probe, n->connection, n->base);
}

static void on_generation(void *arg, const struct redisReply *reply, bool sent)
{
    node *n = arg;

    (void)sent;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        connection_drop(n->connection, errors_fault(errors_find(reply->str, reply->len)));
    else if (reply)
        begin(n);
}

/* Still a part of the greeting: who cannot be told it is tried again after a pause that grows. */
static void tell_generation(node *n)
{
    lks_rpc_slice args[] = {lks_rpc_slice_of(n->options.generation(n->options.arg))};
    const store_call call = {
        .base = lks_rpc_slice_of(STORE_META_BASE), .function = "id_generation", .n_args = 1, .args = args};
    const store_call *const calls[] = {&call};

    fcall *f = fcall_new(calls, 1, n->options.store->library_digest, n->greeting.cluster);
    connection_command(n->connection, on_generation, n, f->bytes, f->len);
    connection_flush(n->connection);
    free(f);
}

static void on_greeted(void *arg, greeting_verdict verdict, store_fault fault)
{
    node *n = arg;

    if (verdict == GREETING_FATAL)
        set_fatal(n, fault);
    if (verdict != GREETING_PASSED) {
        connection_drop(n->connection, fault);
        return;
    }
    n->safety = n->greeting.safety;
    if (n->options.generation)
        tell_generation(n);
    else
        begin(n);
}

static void on_reloaded(void *arg, library_verdict verdict, store_fault fault)
{
    node *n = arg;

    if (verdict == LIBRARY_FOREIGN)
        set_fatal(n, fault);
    if (verdict == LIBRARY_LOADED)
        pipeline_resume(n->pipeline);
    else
        connection_drop(n->connection, fault);
}

static void on_missing(void *arg)
{
    node *n = arg;

    log_warn("library-missing", "action=\"load it again\"");
    library_ensure(n->library, n->connection, on_reloaded, n);
}

static void on_useless(void *arg, store_fault fault)
{
    node *n = arg;

    set_not_ready(n, fault);
    connection_retire(n->connection, fault);
}

/* ---- the channel's life -------------------------------------------------------- */

static void on_listening(void *arg)
{
    node *n = arg;

    n->hears = true;
    advance(n);
}

static void on_message(void *arg, const char *data, size_t len)
{
    node *n = arg;

    if (n->heard)
        heard_add(n->heard, data, len);
    else
        n->options.on_wake(n->options.arg, data, len);
}

static void on_confirmed_message(void *arg, const char *data, size_t len)
{
    node *n = arg;

    n->options.on_wake(n->options.arg, data, len);
}

/* Who waits asks anew; without a link they do so when there is one again. */
static void on_missed(void *arg)
{
    node *n = arg;

    if (n->ready && !n->closed)
        n->options.on_listening(n->options.arg);
}

static void on_deaf(void *arg, store_fault fault)
{
    node *n = arg;

    if (n->hears && strcmp(n->said_deaf, fault.text) != 0) {
        log_warn("wake-channel-lost", "reason=\"%s\" reason_word=%s", fault.text, lks_reason_name(fault.reason));
        snprintf(n->said_deaf, sizeof n->said_deaf, "%s", fault.text);
    }
    n->hears = false;
    tell_lost(n);
    if (n->greeted && !n->ready)
        say_not_ready(n, fault);
}

/* ---- safety -------------------------------------------------------------------- */

static void on_safety(void *arg, const struct redisReply *reply, bool sent)
{
    node *n = arg;
    safety before = n->safety;

    (void)sent;
    n->asks = false;
    if (!reply || !n->greeted)
        return;
    n->safety = safety_of(reply);
    safety_log(&n->safety, &before, n->options.store->allow_unsafe);
    warn_of_failover(n);
    if (is_unsafe(n))
        say_not_ready(n, STORE_FAULT(STORE_UNSAFE, n->safety.danger));
    else if (!n->ready)
        advance(n);
}

static void on_safety_check(uv_timer_t *timer)
{
    node *n = timer->data;
    const char *words[SAFETY_WORDS];

    if (!n->greeted || n->asks)
        return;
    n->asks = true;
    connection_words(n->connection, on_safety, n, safety_words(words), words);
}

/* ---- role ---------------------------------------------------------------------- */

/* A call that only reads would be answered by a replica, too. */
static void on_role(void *arg, const struct redisReply *reply, bool sent)
{
    node *n = arg;

    (void)sent;
    n->asks_role = false;
    if (!reply || !n->greeted)
        return;
    replication_read(reply, &n->replication);
    if (!n->replication.known && !n->by_role) {
        n->by_role = true;
        ask_role(n);
        return;
    }
    n->knows_role = true;
    if (n->replication.known && !n->replication.primary) {
        connection_drop(n->connection, STORE_FAULT(STORE_IS_REPLICA, "the store is a read-only replica"));
        return;
    }
    replication_log(&n->replication, &n->told, n->address);
    if (lacks_replicas(n)) {
        char text[REASON_BYTES];
        snprintf(text, sizeof text, "the store has %u replicas, --wait-replicas asks for %u", n->replication.replicas,
                 n->options.store->wait_replicas);
        say_not_ready(n, STORE_FAULT(STORE_TOO_FEW_REPLICAS, text));
    } else if (!n->ready) {
        advance(n);
    }
}

static void ask_role(node *n)
{
    const char *words[REPLICATION_WORDS];

    if (!n->greeted || n->asks_role)
        return;
    n->asks_role = true;
    connection_words(n->connection, on_role, n, replication_words(n->by_role, words), words);
}

static void on_role_check(uv_timer_t *timer)
{
    ask_role(timer->data);
}

/* ---- whether it answers, and takes writes ------------------------------------------- */

static void on_probe(void *arg)
{
    node *n = arg;

    if (!n->greeted)
        return;
    if (n->probe.silent)
        say_not_ready(n, STORE_FAULT(STORE_SILENT, "the store does not answer"));
    else if (!n->ready)
        advance(n);
    else if (n->refusal != n->probe.refusal)
        tell_ready(n);
}

static void on_probe_look(uv_timer_t *timer)
{
    node *n = timer->data;

    if (n->greeted)
        probe_look(&n->probe, n->connection, n->base);
}

static void on_upkeep(uv_timer_t *timer)
{
    node *n = timer->data;

    if (n->ready)
        library_keep(n->library, n->connection, n->base);
}

/* ---- slots --------------------------------------------------------------------- */

static pipeline *route(void *arg, uint16_t slot)
{
    const node *n = arg;

    return n->options.route(n->options.arg, slot);
}

static bool on_moved(void *arg, const char *text, size_t len)
{
    const node *n = arg;

    return n->options.on_moved(n->options.arg, text, len);
}

void node_base(node *n, const char *base)
{
    snprintf(n->base, sizeof n->base, "%s", base);
}

pipeline *node_pipeline(node *n)
{
    return n->pipeline;
}

/* ---- opening ------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

static subscription *open_subscription(node *n, const connection_options *to_connection)
{
    const subscription_options options = {
        .channel = n->options.wake_channel,
        .as = n->options.as,
        .id = n->options.id,
        .on_listening = on_listening,
        .on_message = on_message,
        .on_deaf = on_deaf,
        .arg = n,
    };
    return subscription_open(&options, to_connection);
}

static uint32_t probe_look_ms(const store_options *s)
{
    uint32_t ms = or_default(s->role_check_ms, ROLE_CHECK_MS) / PROBE_LOOKS;

    return ms ? ms : 1;
}

/* A second; a WAIT before the question may hold it up for wait_ms more. */
static unsigned patience_of(const store_options *s)
{
    uint32_t wait_ms = s->wait_replicas > 0 ? or_default(s->wait_ms, WAIT_MS) : 0;
    unsigned looks = (ROLE_CHECK_MS + wait_ms + probe_look_ms(s) - 1) / probe_look_ms(s);

    return looks < PROBE_LOOKS ? PROBE_LOOKS : looks;
}

static void assemble(node *n)
{
    uv_loop_t *loop = n->options.store->loop;
    const pipeline_options to_pipeline = {
        .loop = loop,
        .digest = n->options.store->library_digest,
        .in_flight_max = n->options.store->in_flight_max,
        .wait_replicas = n->options.store->wait_replicas,
        .wait_ms = or_default(n->options.store->wait_ms, WAIT_MS),
        .on_missing = on_missing,
        .on_useless = on_useless,
        .route = n->options.route ? route : NULL,
        .on_moved = n->options.route ? on_moved : NULL,
        .arg = n,
    };
    const connection_options to_connection = {
        .loop = loop,
        .path = n->path,
        .tls = n->options.tls,
        .host = n->host,
        .port = n->port,
        .waits_to_be_told = n->options.waits_to_be_told,
        .connect_timeout_ms = or_default(n->options.store->connect_timeout_ms, CONNECT_TIMEOUT_MS),
        .silence_timeout_ms = or_default(n->options.store->silence_timeout_ms, SILENCE_TIMEOUT_MS),
        .on_up = on_up,
        .on_down = on_down,
        .arg = n,
    };

    n->library = library_new(n->options.store->library_text, n->options.store->library_digest);
    n->greeting = (greeting){
        .as = n->options.as,
        .db = n->options.db,
        .library = n->library,
        .allow_unsafe = n->options.store->allow_unsafe,
        .id = n->options.id,
        .done = on_greeted,
        .arg = n,
    };
    n->probe = (probe){.on_change = on_probe, .arg = n, .patience = patience_of(n->options.store)};
    n->pipeline = pipeline_new(&to_pipeline);
    if (n->options.store->wait_replicas > 0 && n->options.wake_channel)
        n->heard = heard_new(&(heard_options){
            .pipeline = n->pipeline, .on_message = on_confirmed_message, .on_missed = on_missed, .arg = n});
    n->connection = connection_open(&to_connection);
    if (n->options.wake_channel)
        n->subscription = open_subscription(n, &to_connection);
    n->n_connections = n->subscription ? 2 : 1;
    uv_timer_init(loop, &n->upkeep);
    uv_timer_init(loop, &n->safety_check);
    uv_timer_init(loop, &n->role_check);
    uv_timer_init(loop, &n->probe_look);
    uv_idle_init(loop, &n->closing);
    n->handles = 5;
    n->upkeep.data = n->safety_check.data = n->role_check.data = n->probe_look.data = n->closing.data = n;
    uv_timer_start(&n->probe_look, on_probe_look, probe_look_ms(n->options.store), probe_look_ms(n->options.store));
    uv_timer_start(&n->upkeep, on_upkeep, UPKEEP_MS, UPKEEP_MS);
    uv_timer_start(&n->role_check, on_role_check, or_default(n->options.store->role_check_ms, ROLE_CHECK_MS),
                   or_default(n->options.store->role_check_ms, ROLE_CHECK_MS));
    uv_timer_start(&n->safety_check, on_safety_check, or_default(n->options.store->safety_check_ms, SAFETY_CHECK_MS),
                   or_default(n->options.store->safety_check_ms, SAFETY_CHECK_MS));
}

static void note_address(node *n, const char *shown)
{
    if (n->path)
        snprintf(n->address, sizeof n->address, "%s", shown ? shown : n->path);
    else if (n->host)
        snprintf(n->address, sizeof n->address, "%s:%u", n->host, (unsigned)n->port);
}

node *node_open(const node_options *options)
{
    node *n = memory_alloc(sizeof *n);

    *n = (node){.options = *options, .port = options->port, .base = STORE_META_BASE};
    n->reason = LKS_REASON_STORE_UNREACHABLE;
    strcpy(n->text, "connecting");
    if (options->path)
        n->path = memory_copy(options->path, strlen(options->path));
    else if (options->host)
        n->host = memory_copy(options->host, strlen(options->host));
    note_address(n, options->path_shown);
    assemble(n);
    return n;
}

bool node_is_at(const node *n, const char *host, uint16_t port)
{
    return n->host && n->port == port && strcmp(n->host, host) == 0;
}

void node_move(node *n, const char *host, uint16_t port, store_fault fault)
{
    char *before = n->host;

    if (node_is_at(n, host, port)) {
        connection_confirm(n->connection);
        if (n->subscription)
            subscription_confirm(n->subscription);
        return;
    }
    n->host = memory_copy(host, strlen(host));
    n->port = port;
    n->told = (replication_told){0};
    note_address(n, NULL);
    if (n->subscription)
        subscription_move(n->subscription, n->host, port, fault);
    connection_move(n->connection, n->host, port, fault);
    free(before);
}

/* A connection that was let in stays so: what is refused here will be when it is made anew. */
static void on_reauth(void *arg, const struct redisReply *reply, bool sent)
{
    (void)arg;
    (void)sent;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        log_warn("store-password-refused", "reason=\"%s\"", errors_find(reply->str, reply->len)->message);
}

void node_reauth(node *n)
{
    const char *words[GREETING_AUTH_WORDS];
    size_t count = greeting_auth_words(n->options.as, words);

    if (n->greeted && count > 0)
        connection_words(n->connection, on_reauth, n, count, words);
}

void node_drop(node *n, store_fault fault)
{
    connection_drop(n->connection, fault);
}

void node_submit(node *n, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    pipeline_submit(n->pipeline, call, deadline_ns, done, arg);
}

bool node_ready(const node *n, const char **reason)
{
    if (reason)
        *reason = fault_of(n).text;
    return serves(n);
}

void node_look(const node *n, store_view *ret)
{
    *ret = (store_view){
        .ready = serves(n),
        .fault = fault_of(n),
        .version = n->greeting.version,
        .known = n->safety.known,
        .appends = n->safety.appends,
        .snapshots = n->safety.snapshots,
        .evicts = n->safety.evicts,
        .fsync = n->safety.fsync,
        .cluster = n->greeting.cluster,
        .round_trip_us = n->ready ? n->probe.round_trip_us : 0,
        .at_ms = n->ready ? probe_clock_ms(&n->probe) : 0,
    };
}

void node_look_primary(const node *n, store_primary *ret)
{
    *ret = (store_primary){
        .address = n->address,
        .tells_replicas = n->replication.known,
        .n_replicas = n->replication.known ? n->replication.replicas : 0,
        .replicas = n->replication.replica,
        .min_replicas = n->safety.known ? n->safety.min_replicas : -1,
        .min_replicas_max_lag_s = n->safety.known ? n->safety.max_lag_s : -1,
    };
}

void node_refuse(node *n, store_fault fault)
{
    if (!n->greeted)
        say_not_ready(n, fault);
}

/* ---- closing ------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    node *n = handle->data;

    if (--n->handles > 0)
        return;
    void (*closed)(void *arg) = n->closed;
    void *arg = n->closed_arg;
    library_free(n->library);
    heard_free(n->heard);
    free(n->path);
    free(n->host);
    free(n);
    closed(arg);
}

static void on_pipeline_freed(void *arg)
{
    node *n = arg;

    uv_close((uv_handle_t *)&n->upkeep, on_handle_closed);
    uv_close((uv_handle_t *)&n->safety_check, on_handle_closed);
    uv_close((uv_handle_t *)&n->role_check, on_handle_closed);
    uv_close((uv_handle_t *)&n->probe_look, on_handle_closed);
    uv_close((uv_handle_t *)&n->closing, on_handle_closed);
}

static void on_connection_closed(void *arg)
{
    node *n = arg;

    if (--n->n_connections == 0)
        pipeline_free(n->pipeline, on_pipeline_freed, n);
}

static void on_closing(uv_idle_t *idle)
{
    node *n = idle->data;

    uv_idle_stop(idle);
    connection_close(n->connection, on_connection_closed, n);
    if (n->subscription)
        subscription_close(n->subscription, on_connection_closed, n);
    pipeline_end(n->pipeline);
}

void node_close(node *n, void (*closed)(void *arg), void *arg)
{
    n->closed = closed;
    n->closed_arg = arg;
    uv_timer_stop(&n->upkeep);
    uv_timer_stop(&n->safety_check);
    uv_timer_stop(&n->role_check);
    uv_timer_stop(&n->probe_look);
    uv_idle_start(&n->closing, on_closing);
}

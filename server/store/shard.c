/* The states of a shard. move() alone changes them:
 *
 *           +--------------- connection lost, moved, dropped, or of no use ----------------+
 *           v                                                                              |
 *   NEW -> DOWN --greeting passed--> CHECKING --all checks passed--> SERVING <--> REFUSING-+
 *                                       ^                               |  every write |
 *                                       |                               |  is refused  |
 *                                       +-------- a check failed -------+--------------+
 *   and from each to CLOSED
 *
 * The checks: health (settings, replicas, role, probe), and the channel, which has to be heard before calls go out but
 * not while they do. The pipeline is up exactly in SERVING and REFUSING.
 *
 * The subscription, a connection of its own, is renewed whenever the first one was lost: the next may reach another
 * Redis, whose publishers must find it there. */
#include "store/shard.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "store/errors.h"
#include "store/fcall.h"

enum { UPKEEP_MS = 3600 * 1000 };

/* ---- the state ------------------------------------------------------------------- */

static bool is_up(shard_state state)
{
    return state == SHARD_SERVING || state == SHARD_REFUSING;
}

static bool is_greeted(const shard *s)
{
    return s->state == SHARD_CHECKING || is_up(s->state);
}

/* Another fault is a change too: the log then shows why the shard still does not serve. */
static void move(shard *s, shard_state to, store_fault fault)
{
    shard_state from = s->state;
    bool came_up = is_up(to) && !is_up(from);

    if (from == SHARD_CLOSED)
        return;
    s->state = to;
    bool another_fault = fault_keep(&s->fault, fault);
    if (to == SHARD_DOWN)
        health_stop(&s->health);
    if (came_up) {
        fault_keep(&s->logged_loss, (store_fault){0});
        pipeline_up(s->pipeline, s->connection, s->greeting.cluster ? s->part.base : NULL);
        library_keep(&s->library, s->connection, s->part.base);
    } else if (!is_up(to)) {
        pipeline_down(s->pipeline, fault_of(&s->fault));
    }
    if (to != SHARD_CLOSED && (another_fault || is_up(from) != is_up(to)))
        s->context->on_change(s->context->arg, s, came_up);
}

/* Moves a greeted shard to the state that its checks allow. Called whenever one may have changed. */
static void check(void *arg)
{
    shard *s = arg;
    store_fault fault;

    if (!is_greeted(s))
        return;
    health_verdict verdict = health_check(&s->health, &fault);
    if (verdict == HEALTH_UNKNOWN)
        return;
    if (verdict == HEALTH_REPLICA) {
        connection_drop(s->connection, fault);
        return;
    }
    bool listens = is_up(s->state) || !s->subscription || subscription_is_listening(s->subscription);
    if (!listens)
        fault = subscription_fault(s->subscription);
    if (verdict == HEALTH_BAD || (!listens && fault.text))
        move(s, SHARD_CHECKING, fault);
    else if (listens)
        move(s, verdict == HEALTH_REFUSES ? SHARD_REFUSING : SHARD_SERVING, fault);
}

static void on_fatal(void *arg, store_fault fault)
{
    shard *s = arg;

    s->context->on_fatal(s->context->arg, s, fault);
    move(s, SHARD_DOWN, fault);
}

/* ---- the connection -------------------------------------------------------------- */

static void on_down(void *arg, store_fault fault)
{
    shard *s = arg;

    move(s, SHARD_DOWN, fault);
    s->context->on_lost(s->context->arg);
    if (s->subscription)
        connection_drop(subscription_connection(s->subscription), fault);
}

static void begin(shard *s)
{
    connection_ready(s->connection);
    move(s, SHARD_CHECKING, fault_of(&s->fault));
    health_start(&s->health, s->connection, &s->greeting.safety);
}

static void on_generation(void *arg, const struct redisReply *reply)
{
    shard *s = arg;

    if (reply && reply->type == REDIS_REPLY_ERROR)
        connection_drop(s->connection, errors_fault(errors_find(reply->str, reply->len)));
    else if (reply)
        begin(s);
}

/* Part of the greeting: when Redis refuses it, the next attempt comes after a growing pause. */
static void send_generation(shard *s)
{
    lks_rpc_slice args[] = {lks_rpc_slice_of(s->context->generation(s->context->arg))};
    const store_call call = {
        .base = lks_rpc_slice_of(STORE_META_BASE), .function = "id_generation", .n_args = 1, .args = args};
    const store_call *const calls[] = {&call};

    fcall *f = fcall_new(calls, 1, s->context->store->library_digest, s->greeting.cluster);
    connection_command(s->connection, on_generation, s, f->bytes, f->len);
    connection_flush(s->connection);
    free(f);
}

static void on_greeted(void *arg)
{
    shard *s = arg;

    if (s->context->generation)
        send_generation(s);
    else
        begin(s);
}

/* A connection that was accepted stays open: refused credentials take effect when it is made again. */
static void on_reauth(void *arg, const struct redisReply *reply)
{
    (void)arg;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        log_warn("store-password-refused", "reason=\"%s\"", errors_find(reply->str, reply->len)->message);
}

void shard_reauth(shard *s)
{
    const char *words[GREETING_AUTH_WORDS];
    size_t count = greeting_auth_words(s->context->as, words);

    if (is_greeted(s) && count > 0)
        connection_words(s->connection, on_reauth, s, count, words);
}

static void note_address(shard *s)
{
    if (s->host[0])
        snprintf(s->address, sizeof s->address, "%s:%u", s->host, (unsigned)s->port);
    else if (s->path)
        snprintf(s->address, sizeof s->address, "%s", s->path);
}

void shard_move(shard *s, const char *host, uint16_t port, store_fault fault)
{
    if (s->port == port && strcmp(s->host, host) == 0) {
        if (s->connection)
            connection_confirm(s->connection);
        if (s->subscription)
            connection_confirm(subscription_connection(s->subscription));
        return;
    }
    snprintf(s->host, sizeof s->host, "%s", host);
    s->port = port;
    note_address(s);
    health_moved(&s->health);
    if (s->subscription)
        connection_move(subscription_connection(s->subscription), s->host, port, fault);
    if (s->connection)
        connection_move(s->connection, s->host, port, fault);
}

void shard_drop(shard *s, store_fault fault)
{
    connection_drop(s->connection, fault);
}

void shard_explain(shard *s, store_fault fault)
{
    if (s->state == SHARD_DOWN)
        move(s, SHARD_DOWN, fault);
}

/* ---- the pipeline ---------------------------------------------------------------- */

static void on_reloaded(void *arg, library_verdict verdict, store_fault fault)
{
    shard *s = arg;

    if (verdict == LIBRARY_FOREIGN)
        on_fatal(s, fault);
    if (verdict == LIBRARY_LOADED)
        pipeline_resume(s->pipeline);
    else
        connection_drop(s->connection, fault);
}

static void on_missing(void *arg)
{
    shard *s = arg;

    log_warn("library-missing", "action=\"load it again\"");
    library_ensure(&s->library, s->connection, on_reloaded, s);
}

static void on_useless(void *arg, store_fault fault)
{
    shard *s = arg;

    move(s, SHARD_DOWN, fault);
    connection_retire(s->connection, fault);
}

static pipeline *route(void *arg, const store_call *call)
{
    const shard_context *c = ((shard *)arg)->context;

    return c->route(c->arg, call);
}

static bool on_moved(void *arg, const char *text, size_t len)
{
    const shard *s = arg;

    return s->context->on_moved(s->context->arg, s, text, len);
}

static void on_upkeep(uv_timer_t *timer)
{
    shard *s = timer->data;

    if (is_up(s->state))
        library_keep(&s->library, s->connection, s->part.base);
}

/* ---- the channel ----------------------------------------------------------------- */

static void on_listening(void *arg)
{
    shard *s = arg;

    if (!is_up(s->state)) {
        check(s);
        return;
    }
    fault_keep(&s->logged_loss, (store_fault){0});
    s->context->on_listening(s->context->arg);
}

static void pass_on(void *arg, const char *data, size_t len)
{
    const store_options *to = ((shard *)arg)->context->store;

    to->on_wake(to->arg, data, len);
}

static void on_message(void *arg, const char *data, size_t len)
{
    shard *s = arg;

    if (s->context->store->wait_replicas > 0)
        pipeline_hear(s->pipeline, data, len);
    else
        pass_on(s, data, len);
}

/* Waiting calls ask again; while the shard is not up, they do so when it comes up. */
static void on_missed(void *arg)
{
    const shard *s = arg;

    if (is_up(s->state))
        s->context->on_listening(s->context->arg);
}

/* A DOWN shard has reported its loss, and renews the subscription itself. */
static void on_channel_lost(void *arg, bool was_heard, store_fault fault)
{
    shard *s = arg;

    if (was_heard && fault_keep(&s->logged_loss, fault))
        log_warn("wake-channel-lost", "reason=\"%s\" reason_word=%s", fault.text, lks_reason_name(fault.reason));
    if (!is_greeted(s))
        return;
    s->context->on_lost(s->context->arg);
    check(s);
}

/* ---- what is known ----------------------------------------------------------------- */

void shard_describe(const shard *s, store_view *ret)
{
    *ret = (store_view){.version = s->greeting.version, .cluster = s->greeting.cluster};
    health_describe(&s->health, ret);
    if (!is_up(s->state))
        ret->round_trip_us = ret->at_ms = 0;
}

void shard_describe_primary(const shard *s, store_primary *ret)
{
    *ret = (store_primary){.address = s->address};
    health_describe_primary(&s->health, ret);
}

/* ---- opening --------------------------------------------------------------------- */

shard *shard_new(const shard_context *context, const char *base)
{
    shard *s = memory_alloc(sizeof *s);

    s->context = context;
    fault_keep(&s->fault, STORE_FAULT(STORE_UNREACHABLE, "connecting"));
    snprintf(s->part.base, sizeof s->part.base, "%s", base);
    s->health = (health){.store = context->store,
                         .address = s->address,
                         .base = s->part.base,
                         .fails_over = context->fails_over,
                         .on_change = check,
                         .arg = s};
    return s;
}

/* In a cluster each node has its own channel. */
static void open_subscription(shard *s, const connection_options *to)
{
    const char *channel = s->context->store->wake_channel, *common = s->context->store->common_channel;
    const subscription_options options = {
        .channel = s->channel,
        .second = common ? s->common_channel : NULL,
        .as = s->context->as,
        .id = s->id[0] ? s->id : NULL,
        .on_listening = on_listening,
        .on_message = on_message,
        .on_lost = on_channel_lost,
        .arg = s,
    };

    if (!channel)
        return;
    snprintf(s->channel, sizeof s->channel, "%s%s%s", channel, s->id[0] ? ":" : "", s->id);
    if (common)
        snprintf(s->common_channel, sizeof s->common_channel, "%s%s%s", common, s->id[0] ? ":" : "", s->id);
    s->subscription = subscription_open(&options, to);
}

static void open_pipeline(shard *s)
{
    const store_options *from = s->context->store;
    const pipeline_options options = {
        .loop = from->loop,
        .digest = from->library_digest,
        .in_flight_max = from->in_flight_max,
        .wait_replicas = from->wait_replicas,
        .wait_ms = from->wait_ms,
        .on_missing = on_missing,
        .on_message = pass_on,
        .on_missed = on_missed,
        .on_useless = on_useless,
        .route = route,
        .on_moved = on_moved,
        .arg = s,
    };

    s->pipeline = pipeline_new(&options);
}

void shard_open(shard *s)
{
    const store_options *from = s->context->store;
    const connection_options to = {
        .loop = from->loop,
        .path = s->path,
        .tls = s->context->tls,
        .host = s->host,
        .port = s->port,
        .waits_for_address = s->context->waits_for_address,
        .connect_timeout_ms = from->connect_timeout_ms,
        .silence_timeout_ms = from->silence_timeout_ms,
        .on_up = greeting_start,
        .greeting = &s->greeting,
        .on_down = on_down,
        .arg = s,
    };

    if (!s->address[0])
        note_address(s);
    s->state = SHARD_DOWN;
    s->library = (library){.text = from->library_text, .digest = from->library_digest};
    s->greeting = (greeting){
        .as = s->context->as,
        .db = s->context->db,
        .library = &s->library,
        .allow_unsafe = from->allow_unsafe,
        .id = s->id[0] ? s->id : NULL,
        .on_passed = on_greeted,
        .on_fatal = on_fatal,
        .arg = s,
    };
    open_pipeline(s);
    s->connection = connection_open(&to);
    open_subscription(s, &to);
    health_init(&s->health);
    uv_timer_init(from->loop, &s->upkeep);
    s->upkeep.data = s;
    uv_timer_start(&s->upkeep, on_upkeep, UPKEEP_MS, UPKEEP_MS);
}

/* ---- closing --------------------------------------------------------------------- */

void shard_close(shard *s, close_barrier *within)
{
    close_barrier_add(within);
    if (s->state == SHARD_NEW) {
        close_barrier_begin(&s->barrier, s, free, close_barrier_done, within);
        return;
    }
    move(s, SHARD_CLOSED, STORE_FAULT(SHUTTING_DOWN, "the store is closing"));
    health_close(&s->health, &s->barrier);
    close_barrier_handle(&s->barrier, &s->upkeep);
    connection_close(s->connection, &s->barrier);
    if (s->subscription)
        subscription_close(s->subscription, &s->barrier);
    pipeline_close(s->pipeline, &s->barrier);
    close_barrier_begin(&s->barrier, s, free, close_barrier_done, within);
}

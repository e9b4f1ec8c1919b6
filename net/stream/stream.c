/* Invariant: the protocol's `closed` runs once, when the stream's handles are closed. The one timer of a stream is
 * set for what the stream waits for now. stream_output.c and stream_input.c are parts of this module. */
#include "net/stream/stream.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <uv.h>

#include "base/clock.h"
#include "base/container.h"
#include "net/stream/stream_state.h"

enum {
    KEEPALIVE_S = 30,
    TAKEN_BYTES_MIN = 16 * 1024, /* a peer that reads less within stall_ms, while output waits, stalls */
    TLS_BYTES = 64 * 1024,       /* about the memory of an OpenSSL connection */
};

/* ---- the end -------------------------------------------------------------------- */

/* Runs for both handles; the second one frees the stream. */
static void on_stream_closed(uv_handle_t *handle)
{
    stream *s = handle->data;
    streams *all = s->all;

    if (--s->open_handles == 0) {
        stream_drop_output(s);
        if (s->connection)
            s->protocol->closed(s->connection);
        if (s->tls)
            budget_unnote(all->options.budget, TLS_BYTES);
        tls_free(s->tls);
        budget_close(s->guest.bytes);
        free(s);
    }
    close_barrier_done(&all->closing);
}

static void log_end(const stream *s, stream_reason why, const char *more)
{
    closings_log(&s->all->closings, &s->all->options, uv_now(s->all->options.loop), why, s->counts->wire, s->from.text,
                 more);
}

/* Whether the peer broke the protocol, which counts against its address. */
static bool is_offence(stream_reason why)
{
    return why == STREAM_BROKEN || why == STREAM_TOO_COSTLY;
}

static void end(stream *s, stream_reason why, const char *more)
{
    if (s->state == CLOSING)
        return;
    stream_move(s, CLOSING);
    s->counts->open--;
    log_end(s, why, more);
    if (!s->writing)
        stream_flush(s);
    if (s->dirty)
        TAILQ_REMOVE(&s->all->dirty, s, next_dirty);
    s->dirty = false;
    TAILQ_REMOVE(&s->all->open, s, next);
    stream_forget_hangup(s);
    admission_leave(&s->all->admission, &s->guest, is_offence(why), uv_now(s->all->options.loop));
    uv_close(&s->on.handle, on_stream_closed);
    uv_close((uv_handle_t *)&s->timer, on_stream_closed);
}

void stream_end(stream *s, stream_reason why)
{
    end(s, why, NULL);
}

/* ---- places ----------------------------------------------------------------------- */

/* The peer sees only that the connection closes; it may connect again. */
static void close_idle(place *p)
{
    stream *s = container_of(p, stream, guest.place);

    end(s, STREAM_GIVEN_UP, NULL);
}

static void update_place(stream *s)
{
    admission_set_idle(&s->all->admission, &s->guest, s->activity != BUSY, stream_peer_certificate(s));
}

/* ---- timers --------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

/* What the kernel has taken; during a write. */
static size_t taken_bytes(const stream *s)
{
    return s->taken + s->write_len - uv_stream_get_write_queue_size(&s->on.stream);
}

/* The peer is reading as long as the kernel takes bytes. */
static void arm_for_write(stream *s)
{
    s->taken_before = taken_bytes(s);
    s->stalls = true;
    if (s->all->options.stall_ms > 0)
        uv_timer_start(&s->timer, on_timer, s->all->options.stall_ms, 0);
    else
        uv_timer_stop(&s->timer);
}

/* A peer that reads a byte now and then counts as stalled. */
static bool has_read_enough(const stream *s)
{
    return uv_stream_get_write_queue_size(&s->on.stream) == 0 || taken_bytes(s) - s->taken_before >= TAKEN_BYTES_MIN;
}

static void on_timer(uv_timer_t *timer)
{
    stream *s = timer->data;

    if (!s->writing)
        stream_end(s, s->expected);
    else if (has_read_enough(s))
        arm_for_write(s);
    else
        stream_end(s, STREAM_NOT_TAKEN);
}

/* Sets the timer for what the stream is waiting for now. */
void stream_arm(stream *s)
{
    const streams_options *o = &s->all->options;
    bool unfinished = s->request_end_ms > 0 && s->state != PAUSED;
    uint64_t ms = 0;

    if (s->state == CLOSING)
        return;
    if (s->writing) {
        if (!s->stalls) /* only progress extends the time of a write */
            arm_for_write(s);
        return;
    }
    s->stalls = false;
    s->expected = s->activity == GREETING ? STREAM_NOT_GREETED : unfinished ? STREAM_NOT_FINISHED : STREAM_IDLE;
    if (s->activity == GREETING && o->greeting_ms > 0)
        ms = s->greeting_end_ms > uv_now(o->loop) ? s->greeting_end_ms - uv_now(o->loop) : 1;
    else if (unfinished)
        ms = s->request_end_ms > uv_now(o->loop) ? s->request_end_ms - uv_now(o->loop) : 1;
    else if (s->activity == IDLE)
        ms = o->idle_ms;
    if (ms > 0)
        uv_timer_start(&s->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&s->timer);
}

static void set_activity(stream *s, activity now)
{
    s->activity = now;
    update_place(s);
    stream_arm(s);
}

void stream_ready(stream *s)
{
    if (s->activity == GREETING)
        set_activity(s, BUSY);
}

void stream_idle(stream *s, bool idle)
{
    if (s->activity != GREETING)
        set_activity(s, idle ? IDLE : BUSY);
}

void stream_arm_request(stream *s)
{
    s->request_end_ms = uv_now(s->all->options.loop) + s->all->options.request_ms;
}

void stream_unfinished(stream *s, bool unfinished, bool new_message)
{
    bool was = s->request_end_ms > 0;

    if (s->all->options.request_ms == 0 || (unfinished == was && !(was && new_message)))
        return;
    if (unfinished)
        stream_arm_request(s);
    else
        s->request_end_ms = 0;
    stream_arm(s);
}

/* ---- properties ------------------------------------------------------------------ */

bool stream_is_read(const stream *s)
{
    return s->state == WATCHED || s->state == QUEUED;
}

bool stream_is_closing(const stream *s)
{
    return s->state == CLOSING;
}

lks_rpc_peer stream_peer(const stream *s)
{
    lks_rpc_peer peer = {.wire = s->counts->wire, .address = s->from.text, .uid = s->from.uid, .pid = s->from.pid};

    if (s->tls)
        peer.n_names = tls_peer_names(s->tls, &peer.names);
    return peer;
}

const char *stream_origin(const stream *s)
{
    return s->from.origin_text;
}

budget_share *stream_bytes(const stream *s)
{
    return s->guest.bytes;
}

const char *stream_peer_certificate(const stream *s)
{
    return s->tls ? tls_peer_name(s->tls) : NULL;
}

/* ---- accepting ------------------------------------------------------------------ */

static lks_code out_of_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static void begin(stream *s)
{
    uv_tcp_t *tcp = s->on.handle.type == UV_TCP ? &s->on.tcp : NULL;

    if (s->tls_of && !(s->tls = tls_accept(*s->tls_of))) {
        stream_end(s, STREAM_NO_MEMORY);
        return;
    }
    if (s->tls)
        budget_note(s->all->options.budget, TLS_BYTES);
    if (tcp) {
        uv_tcp_nodelay(tcp, 1);
        uv_tcp_keepalive(tcp, 1, KEEPALIVE_S);
    }
    s->greeting_end_ms = uv_now(s->all->options.loop) + s->all->options.greeting_ms;
    stream_begin_reading(s);
    update_place(s);
    stream_arm(s);
    if (!s->tls)
        stream_open(s);
}

static void on_put_off(uv_timer_t *timer)
{
    stream *s = timer->data;

    s->guest.put_off = false;
    stream_forget_hangup(s);
    begin(s);
}

/* Reads nothing meanwhile. A new connection may still take its place, and a close is still detected. */
static void put_off(stream *s, int fd, uint64_t wait_ms)
{
    update_place(s);
    if (hangups_watch(s->all->hangups, fd, s))
        uv_timer_start(&s->timer, on_put_off, wait_ms, 0);
    else
        stream_end(s, STREAM_NO_MEMORY);
}

static const char *wire_of(const served *what)
{
    const char *name = what->tls ? what->protocol->tls_name : what->protocol->name;

    return name ? name : "other";
}

static stream_counts *counts_of(streams *all, const char *wire)
{
    size_t i = 0;

    while (i + 1 < WIRES_MAX && all->counts[i].wire && strcmp(all->counts[i].wire, wire) != 0)
        i++;
    all->counts[i].wire = wire;
    return &all->counts[i];
}

/* Makes a stream for a connection that uv_accept takes; NULL when out of memory. */
static stream *new_stream(streams *all, const served *what)
{
    stream *s = malloc(sizeof *s);

    if (!s)
        return NULL;
    *s = (stream){.all = all,
                  .protocol = what->protocol,
                  .arg = what->arg,
                  .counts = counts_of(all, wire_of(what)),
                  .tls_of = what->tls,
                  .from = {.text = "?"},
                  .guest = {.bytes = budget_open(all->options.budget)},
                  .open_handles = 2};
    if (!s->guest.bytes) {
        free(s);
        return NULL;
    }
    TAILQ_INIT(&s->output);
    if (what->is_unix)
        uv_pipe_init(all->options.loop, &s->on.pipe, 0);
    else
        uv_tcp_init(all->options.loop, &s->on.tcp);
    uv_timer_init(all->options.loop, &s->timer);
    s->on.handle.data = s->timer.data = s->write.data = s;
    close_barrier_add(&all->closing);
    close_barrier_add(&all->closing);
    s->counts->opened++;
    s->counts->open++;
    TAILQ_INSERT_TAIL(&all->open, s, next);
    return s;
}

static void on_accept(void *arg, uv_stream_t *from, const served *what)
{
    streams *all = arg;
    stream *s = new_stream(all, what);
    uint64_t wait_ms;
    uv_os_fd_t fd;

    if (!s)
        return;
    if (uv_accept(from, &s->on.stream) != 0 || uv_fileno(&s->on.handle, &fd) != 0) {
        stream_end(s, STREAM_LOST);
        return;
    }
    remote_of(fd, &s->from);
    const char *why = admission_enter(&all->admission, &s->guest, s->counts->wire, &s->from.origin, s->from.origin_text,
                                      uv_now(all->options.loop), &wait_ms);
    if (why)
        end(s, STREAM_REFUSED, why);
    else if (wait_ms > 0)
        put_off(s, fd, wait_ms);
    else
        begin(s);
}

/* libuv has closed the connection. */
static void on_refused(void *arg, const served *what)
{
    streams *all = arg;

    closings_log(&all->closings, &all->options, uv_now(all->options.loop), STREAM_NO_DESCRIPTOR, wire_of(what), "?",
                 NULL);
}

lks_code streams_listen(streams *all, const stream_address *at, const stream_protocol *protocol, void *arg,
                        uint16_t *bound, lks_error *error)
{
    const served what = {.protocol = protocol, .arg = arg, .tls = at->tls, .is_unix = at->is_unix};

    return listeners_add(all->listeners, at, &what, bound, error);
}

void streams_stop_accepting(streams *all)
{
    listeners_stop(all->listeners);
}

/* ---- all of them ---------------------------------------------------------------- */

static void ignore(void *arg)
{
    (void)arg;
}

static bool make_parts(streams *all)
{
    const listeners_options listening = {
        .loop = all->options.loop, .accept = on_accept, .refused = on_refused, .arg = all};
    const admission_options admitting = {
        .places = {.all = all->options.connections_max,
                   .per_wire = all->options.connections_per_wire,
                   .per_address = all->options.connections_per_address,
                   .for_unix = all->options.connections_for_unix,
                   .close_idle = close_idle},
        .turns = {.loop = all->options.loop, .now_ns = clock_now_ns, .serve = stream_take_turn},
    };

    return (all->read_buffer = malloc(READ_BYTES)) && (all->plain_buffer = malloc(READ_BYTES)) &&
           (all->hangups = hangups_new(all->options.loop, stream_hung_up)) &&
           admission_init(&all->admission, &admitting) && (all->listeners = listeners_new(&listening));
}

static void release(void *owner)
{
    streams *all = owner;

    free(all->read_buffer);
    free(all->plain_buffer);
    free(all);
}

lks_code streams_new(const streams_options *options, streams **ret, lks_error *error)
{
    streams *all = calloc(1, sizeof *all);

    if (all)
        all->options = *options;
    if (!all || !make_parts(all)) {
        if (all && all->hangups)
            hangups_close(all->hangups, ignore, NULL);
        if (all)
            admission_close(&all->admission, ignore, NULL);
        if (all)
            release(all);
        return out_of_memory(error);
    }
    TAILQ_INIT(&all->open);
    TAILQ_INIT(&all->dirty);
    uv_prepare_init(options->loop, &all->turn_end);
    all->turn_end.data = all;
    uv_prepare_start(&all->turn_end, streams_turn_end);
    uv_unref((uv_handle_t *)&all->turn_end);
    *ret = all;
    return LKS_OK;
}

void streams_hang_up(streams *all)
{
    stream *s;

    while ((s = TAILQ_FIRST(&all->open)))
        stream_end(s, STREAM_STOPPED);
}

void streams_close(streams *all, void (*closed)(void *arg), void *arg)
{
    streams_hang_up(all);
    for (int i = 0; i < 3; i++)
        close_barrier_add(&all->closing);
    listeners_close(all->listeners, close_barrier_done, &all->closing);
    hangups_close(all->hangups, close_barrier_done, &all->closing);
    admission_close(&all->admission, close_barrier_done, &all->closing);
    close_barrier_handle(&all->closing, &all->turn_end);
    close_barrier_begin(&all->closing, all, release, closed, arg);
}

void streams_write_metrics(const streams *all, metrics_text *t)
{
    static const struct {
        metrics_id family;
        size_t offset;
    } of_wires[] = {{METRICS_CONNECTIONS, offsetof(stream_counts, open)},
                    {METRICS_OPENED, offsetof(stream_counts, opened)},
                    {METRICS_RECEIVED, offsetof(stream_counts, received)},
                    {METRICS_SENT, offsetof(stream_counts, sent)}};
    char labels[64];

    for (size_t f = 0; f < sizeof of_wires / sizeof of_wires[0]; f++) {
        metrics_begin(t, of_wires[f].family);
        for (size_t i = 0; i < WIRES_MAX && all->counts[i].wire; i++) {
            snprintf(labels, sizeof labels, "wire=\"%s\"", all->counts[i].wire);
            metrics_sample(
                t, labels,
                (double)*(const uint64_t *)(const void *)((const char *)&all->counts[i] + of_wires[f].offset));
        }
    }
    metrics_begin(t, METRICS_CLOSED);
    for (int why = 0; why < STREAM_REASONS; why++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", closings_word((stream_reason)why));
        metrics_sample(t, labels, (double)all->closings.n[why]);
    }
}

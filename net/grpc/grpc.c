/* Invariant: nghttp2 is called from two places only, on_bytes (input) and on_produce (output), so that none of its
 * callbacks runs inside another call of it. All other code only submits frames and requests on_produce. Callbacks only
 * record what must happen later; settle does it when nghttp2 has returned. Called by wires.c. */
#include "net/grpc/grpc.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "net/grpc/grpc_call.h"

enum {
    HEADER_LIST_BYTES = 16 * 1024,
    CONNECTION_WINDOW = 4 * 1024 * 1024,
    OUTPUT_BYTES_MAX = 1 << 20, /* waiting for the peer; beyond this, nghttp2 is not asked for more */
    PRODUCE_BYTES = 64 * 1024,
    GOOD_PIECE = 256,            /* bytes of DATA before a WINDOW_UPDATE */
    CONNECTION_BYTES = 8 * 1024, /* memory of a connection: nghttp2's session and header tables */
    NO_LIMIT = INT32_MAX,
    FRAME_HEAD_BYTES = 9,
};

/* Its multiples are spread (Knuth's multiplicative hashing). */
#define SPREAD 0x9E3779B97F4A7C15U

/* The debug data of the GOAWAY that makes a gRPC client send fewer pings. */
static const char TOO_MANY_PINGS[] = "too_many_pings";

/* The payload of a keepalive ping. The ping that follows a GOAWAY has zeros. */
static const uint8_t KEEPALIVE[8] = "alive?";

/* ---- what must wait until nghttp2 has returned ---------------------------------------- */

/* Marks that the connection must end. In a callback that runs while nghttp2 reads, NGHTTP2_ERR_CALLBACK_FAILURE must
 * follow, or nghttp2 continues to read. */
static void mark_ending(grpc_connection *c, stream_reason why)
{
    if (c->state >= GRPC_END_DUE)
        return;
    c->state = GRPC_END_DUE;
    c->why = why;
}

/* Call it when everything that the client sent before it read the first GOAWAY has arrived. The final GOAWAY names the
 * last call that was accepted. */
static void send_final_goaway(grpc_connection *c)
{
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(c->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
    grpc_meter_no_more_calls(&c->meter);
    c->state = GRPC_FINAL_SENT;
}

static void end_session(grpc_connection *c)
{
    c->state = GRPC_ENDING;
    if (c->why == STREAM_TOO_MANY_PINGS)
        nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(c->session),
                              NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)TOO_MANY_PINGS, sizeof TOO_MANY_PINGS - 1);
    else
        nghttp2_session_terminate_session(c->session,
                                          c->why == STREAM_TOO_OLD ? NGHTTP2_NO_ERROR : NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Whether there is more to send now. */
static bool settle(grpc_connection *c)
{
    bool any = !TAILQ_EMPTY(&c->stops);
    grpc_stream *s;

    while ((s = TAILQ_FIRST(&c->stops))) {
        TAILQ_REMOVE(&c->stops, s, in_stops);
        s->stops = false;
        nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
    }
    if (c->state != GRPC_FINAL_DUE && c->state != GRPC_END_DUE)
        return any;
    if (c->state == GRPC_FINAL_DUE)
        send_final_goaway(c);
    else
        end_session(c);
    return true;
}

/* ---- limit of concurrent calls ---------------------------------------------------------- */

/* Waiting calls occupy streams, and the call that ends their wait needs one too. The limit is raised at once, because
 * clients with gRPC's C core notice a larger limit only when a call begins or ends. Calls beyond what may run queue,
 * and the connection is not read meanwhile. */
static uint32_t calls_max(const grpc_connection *c)
{
    return c->all->options.in_flight_per_peer + c->all->options.waiting_per_peer;
}

/* nghttp2 would close the connection of a peer that exceeds the limit that it acknowledged. So nghttp2 does not know
 * the limit: the setting is written here, and on_begin_headers refuses. */
static void put_calls_max(const grpc_connection *c, uint8_t *frame)
{
    if (frame[3] != NGHTTP2_SETTINGS || frame[4] & NGHTTP2_FLAG_ACK)
        return;
    for (int i = 0; i < 4; i++) /* the first entry: two bytes of id, four of value */
        frame[FRAME_HEAD_BYTES + 2 + i] = (uint8_t)(calls_max(c) >> (24 - 8 * i));
}

/* ---- callbacks of nghttp2 ------------------------------------------------------------- */

static grpc_stream *call_of(nghttp2_session *session, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    grpc_connection *c = user;

    c->header_bytes = 0;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    grpc_stream *s = c->n_calls < calls_max(c) ? grpc_call_new(c, frame->hd.stream_id) : NULL;
    if (s)
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    else
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* Counts a field of any header block, also of a dropped one. */
static int count_header(grpc_connection *c, size_t name_len, size_t value_len)
{
    c->header_bytes += name_len + value_len + GRPC_FIELD_BYTES;
    /* Each field beyond the announced limit costs a strike: one byte may encode a field of 4 KiB. */
    if (c->header_bytes <= HEADER_LIST_BYTES ||
        (c->header_bytes <= GRPC_HEADER_BYTES_WORST && grpc_meter_strike(&c->meter)))
        return 0;
    mark_ending(c, STREAM_TOO_COSTLY);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    grpc_stream *s = call_of(session, frame->hd.stream_id);
    int failed = count_header(user, name_len, value_len);
    (void)flags;

    if (failed == 0 && s && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        grpc_call_header(s, name, name_len, value, value_len);
    return failed;
}

/* Without this nghttp2 drops the field silently. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    return count_header(user, name_len, value_len);
}

/* A connection without a complete call counts as idle, whatever else it sends. */
static void report_idle(grpc_connection *c)
{
    bool idle = c->ready && c->n_whole == 0;

    if (idle != c->idle)
        stream_idle(c->stream, idle);
    c->idle = idle;
}

/* Returns false when the ping came too soon. */
static bool take_ping(grpc_connection *c, const nghttp2_ping *ping)
{
    const grpc_life_options *life = &c->all->options.life;

    if (!(ping->hd.flags & NGHTTP2_FLAG_ACK))
        return life->ping_min_ms == 0 || grpc_life_ping(&c->life, life, clock_now_ns());
    if (c->state == GRPC_NOTICE_SENT && memcmp(ping->opaque_data, KEEPALIVE, sizeof KEEPALIVE) != 0)
        c->state = GRPC_FINAL_DUE;
    return true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    grpc_connection *c = user;
    grpc_stream *s = call_of(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_SETTINGS && !c->ready) {
        c->ready = true;
        stream_ready(c->stream);
        report_idle(c);
    }
    if (frame->hd.type == NGHTTP2_PING && !take_ping(c, &frame->ping)) {
        mark_ending(c, STREAM_TOO_MANY_PINGS);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (!s)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        grpc_call_begin(s);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        grpc_call_half_close(s);
    report_idle(c);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    grpc_stream *s = call_of(session, id);
    (void)flags;
    (void)user;

    if (s)
        grpc_call_data(s, data, len);
    return 0;
}

static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    grpc_connection *c = user;
    grpc_stream *s = call_of(session, id);
    (void)code;

    if (!s)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    grpc_call_detach(s);
    report_idle(c);
    return 0;
}

/* Tells the peer to stop sending an answered request, but only after the end of the answer was sent: earlier, nghttp2
 * would drop the answer. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    grpc_connection *c = user;
    grpc_stream *s = call_of(session, frame->hd.stream_id);
    bool is_answer = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    bool last = is_answer && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);

    /* A peer that makes the server reset calls costs as much as a peer that resets them itself. */
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
        !grpc_meter_strike(&c->meter))
        mark_ending(c, STREAM_TOO_COSTLY);
    if (is_answer)
        grpc_life_answered(&c->life);
    if (last || (is_answer && frame->hd.length >= GOOD_PIECE))
        grpc_meter_earn(&c->meter);
    if (s && last && !s->half_closed) {
        TAILQ_INSERT_TAIL(&c->stops, s, in_stops);
        s->stops = true;
    }
    return 0;
}

/* ---- output ---------------------------------------------------------------------------- */

/* Resumes reading, unless calls queue or another reason prevents it. */
static void on_room(void *arg)
{
    stream_resume(((grpc_connection *)arg)->stream);
}

/* Whether so much waits that none of its calls may start. */
static bool is_held(const grpc_connection *c)
{
    return c->waiting >= OUTPUT_BYTES_MAX;
}

/* Frames that open windows for answers are read even while calls queue because of waiting answers. */
void grpc_output_waits(grpc_connection *c, size_t bytes)
{
    c->waiting = bytes;
    c->all->options.sink->hold(c->peer.caller, is_held(c));
    if (is_held(c))
        stream_resume(c->stream);
}

/* ---- connections -------------------------------------------------------------------- */

static bool begin_session(grpc_connection *c)
{
    const grpc_server_options *o = &c->all->options;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NO_LIMIT}, /* first: see put_calls_max */
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)o->message_bytes_max + GRPC_PREFIX_BYTES},
    };

    if (nghttp2_option_new(&option) != 0)
        return false;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        nghttp2_option_del(option);
        return false;
    }
    /* This file counts resets. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    bool begun = nghttp2_session_server_new2(&c->session, callbacks, c, option) == 0;
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return begun && nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 4) == 0 &&
           nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

static void free_connection(grpc_connection *c)
{
    c->all->options.sink->lost(c->peer.caller);
    budget_give(c->peer.bytes, CONNECTION_BYTES);
    nghttp2_session_del(c->session);
    free(c);
}

static void *on_open(void *arg, stream *s)
{
    grpc_server *all = arg;
    const sink *to = all->options.sink;
    grpc_connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (grpc_connection){.all = all,
                           .stream = s,
                           .meter = grpc_meter_new(),
                           .life = grpc_life_new(&all->options.life, clock_now_ns(), all->random++ * SPREAD)};
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->stops);
    const sink_connection connection = {
        .bytes = stream_bytes(s), .peer = stream_peer(s), .origin = stream_origin(s), .on_room = on_room, .arg = c};
    budget_force(connection.bytes, CONNECTION_BYTES);
    c->uid = (uid_t)connection.peer.uid;
    c->peer = (http_peer){.caller = to->open(to->arg, &connection),
                          .bytes = connection.bytes,
                          .certificate = stream_peer_certificate(s),
                          .uid = connection.peer.uid >= 0 ? &c->uid : NULL,
                          .encrypted = strcmp(connection.peer.wire, "https") == 0};
    if (!c->peer.caller || !begin_session(c)) {
        free_connection(c);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&all->connections, c, next);
    stream_produce(s);
    return c;
}

static void on_bytes(void *arg, const uint8_t *data, size_t len)
{
    grpc_connection *c = arg;
    size_t good;

    if (c->state == GRPC_ENDING)
        return;
    if (c->all->options.life.keepalive_ms > 0)
        grpc_life_heard(&c->life, clock_now_ns());
    bool fine = grpc_meter_take(&c->meter, data, len, &good);
    bool broken = nghttp2_session_mem_recv(c->session, data, good) < 0;
    if (!fine)
        mark_ending(c, STREAM_TOO_COSTLY);
    settle(c);
    if (!is_held(c) && c->all->options.sink->queues(c->peer.caller))
        stream_pause(c->stream);
    if (broken && c->state != GRPC_ENDING) { /* its GOAWAY goes out, then the connection ends */
        c->state = GRPC_ENDING;
        c->why = STREAM_BROKEN;
    }
    stream_produce(c->stream);
}

/* Collects frames into blocks. False: the session is broken, or out of memory. */
static bool produce(grpc_connection *c, bool *all)
{
    stream_block *block = NULL;
    const uint8_t *data;
    ssize_t n = 1;
    size_t room = 0;

    while (stream_waiting(c->stream) < OUTPUT_BYTES_MAX &&
           ((n = nghttp2_session_mem_send(c->session, &data)) > 0 || settle(c))) {
        if (n <= 0)
            continue;
        if (!block || room - block->len < (size_t)n) {
            if (block)
                stream_write(c->stream, block);
            room = n > PRODUCE_BYTES ? (size_t)n : PRODUCE_BYTES;
            block = stream_block_new(room);
            if (!block)
                return false;
            block->len = 0;
        }
        memcpy(block->data + block->len, data, (size_t)n);
        put_calls_max(c, block->data + block->len);
        block->len += (size_t)n;
    }
    if (block)
        stream_write(c->stream, block);
    *all = n == 0;
    return n >= 0;
}

static bool is_over(const grpc_connection *c)
{
    return c->state == GRPC_ENDING ||
           (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session));
}

/* Closing drops unwritten output, so it waits for on_drained. */
static void on_produce(void *arg)
{
    grpc_connection *c = arg;
    bool all = false;

    if (!produce(c, &all) || (all && is_over(c) && stream_waiting(c->stream) == 0))
        stream_end(c->stream, c->why);
}

static void on_drained(void *arg)
{
    grpc_connection *c = arg;

    if (nghttp2_session_want_write(c->session) || is_over(c))
        stream_produce(c->stream);
}

/* nghttp2_session_del does not call back for the streams that it frees. */
static void on_closed(void *arg)
{
    grpc_connection *c = arg;
    grpc_stream *s;

    while ((s = TAILQ_FIRST(&c->calls)))
        grpc_call_detach(s);
    TAILQ_REMOVE(&c->all->connections, c, next);
    free_connection(c);
}

#define PROTOCOL .open = on_open, .bytes = on_bytes, .produce = on_produce, .drained = on_drained, .closed = on_closed
static const stream_protocol over_tcp = {.name = "grpc", .tls_name = "grpcs", PROTOCOL};
static const stream_protocol over_unix = {.name = "grpc+unix", PROTOCOL};

void *grpc_server_adopt(grpc_server *all, stream *s, const struct http_site *site, bool is_local)
{
    grpc_connection *c = on_open(all, s);

    if (!c)
        return NULL;
    c->site = site;
    c->peer.is_local = is_local;
    return c;
}

const stream_protocol *grpc_server_protocol(void)
{
    return &over_tcp;
}

/* ---- the server --------------------------------------------------------------------- */

lks_code grpc_server_new(const grpc_server_options *options, grpc_server **ret, lks_error *error)
{
    grpc_server *all = calloc(1, sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *all = (grpc_server){.options = *options, .random = backoff_random()};
    TAILQ_INIT(&all->connections);
    TAILQ_INIT(&all->watched);
    *ret = all;
    return LKS_OK;
}

lks_code grpc_server_listen(grpc_server *all, const stream_address *at, uint16_t *bound, lks_error *error)
{
    const stream_protocol *protocol = at->is_unix && !at->tls ? &over_unix : &over_tcp;

    return streams_listen(all->options.streams, at, protocol, all, bound, error);
}

/* Tells the client to send no new calls, in two steps, so that calls already on their way are accepted. */
static void begin_goaway(grpc_connection *c)
{
    if (c->state != GRPC_OPEN)
        return;
    nghttp2_submit_shutdown_notice(c->session);
    nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
    c->state = GRPC_NOTICE_SENT;
}

static void check_life(grpc_connection *c, uint64_t now_ns)
{
    if (c->state == GRPC_ENDING || !c->ready)
        return;
    if (!stream_is_read(c->stream) || is_held(c)) /* nothing is read from it, or nothing is written to it */
        grpc_life_heard(&c->life, now_ns);
    grpc_life_due due = grpc_life_look(&c->life, &c->all->options.life, now_ns);
    if (due == LIFE_GONE)
        stream_end(c->stream, STREAM_PEER_GONE);
    if (due == LIFE_NOTHING || due == LIFE_GONE)
        return;
    if (due == LIFE_PING)
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, KEEPALIVE);
    else if (due == LIFE_LEAVE)
        begin_goaway(c);
    else
        mark_ending(c, STREAM_TOO_OLD);
    settle(c);
    stream_produce(c->stream);
}

void grpc_server_tick(grpc_server *all)
{
    uint64_t now_ns = clock_now_ns();
    grpc_connection *c;
    grpc_stream *s;

    TAILQ_FOREACH(s, &all->watched, in_watched) {
        if (s->from->state == GRPC_ENDING || !stream_is_read(s->from->stream) || grpc_call_tick(s, now_ns))
            continue;
        mark_ending(s->from, s->phase == GRPC_HEADERS ? STREAM_NOT_FINISHED : STREAM_NOT_TAKEN);
        settle(s->from);
        stream_produce(s->from->stream);
    }
    if (all->options.life.keepalive_ms > 0 || all->options.life.connection_age_ms > 0)
        TAILQ_FOREACH(c, &all->connections, next)
            check_life(c, now_ns);
}

void grpc_server_drain(grpc_server *all)
{
    grpc_connection *c;
    grpc_stream *s;

    all->draining = true;
    TAILQ_FOREACH(c, &all->connections, next) {
        begin_goaway(c);
        TAILQ_FOREACH(s, &c->calls, in_connection)
            grpc_call_stop(s);
        stream_produce(c->stream);
    }
}

size_t grpc_server_in_flight(const grpc_server *all)
{
    return all->in_flight;
}

void grpc_server_free(grpc_server *all)
{
    free(all);
}
